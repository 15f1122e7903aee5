// What one document may bring forth: beyond it the function has no rows for that document, and everything else is as it was.
import { describe, expect, test } from "@jest/globals";

import { Session } from "../../viewserver/index.js";

const LIMITS = { rowsMax: 1000, outputCharsMax: 10_000 };

function mapWith(body: string): { reply: string; logs: string[] } {
  const session = new Session(LIMITS);
  session.handle('["reset"]');
  session.handle(
    JSON.stringify(["add_fun", `function (doc) { if (doc.much) { ${body} } emit(1, 1); }`]),
  );
  session.handle(JSON.stringify(["add_fun", "function (doc) { emit(2, 2); }"]));
  const reply = session.mapDocument('{"_id":"x","much":true}');
  const logs = session.takeLogs().map(({ text }) => text);
  expect(session.mapDocument('{"_id":"y"}')).toBe("[[[1,1]],[[2,2]]]");
  expect(session.takeLogs()).toEqual([]);
  return { reply, logs };
}

describe("rows", () => {
  test.each([
    ["one more than the limit", "for (var i = 0; i < 1000; i++) emit(i, null);"],
    ["with the errors swallowed", "for (var i = 0; i < 2000; i++) try { emit(i); } catch (e) {}"],
    ["from within a toJSON", "var o = { toJSON: function () { for (;;) emit(1); } }; emit(o);"],
  ])("too many, %s, are none", (_how, body) => {
    const { reply, logs } = mapWith(body);

    expect(reply).toBe("[[],[[2,2]]]");
    expect(logs).toEqual([expect.stringContaining("emit_limit")]);
  });

  test("as many as the limit are all there", () => {
    const { reply, logs } = mapWith("for (var i = 0; i < 999; i++) emit(0, 0);");

    expect(reply).toBe(`[[${"[0,0],".repeat(999)}[1,1]],[[2,2]]]`);
    expect(logs).toEqual([]);
  });
});

describe("output", () => {
  test.each([
    ["one text", 'emit("x".repeat(20_000));'],
    ["many texts", 'for (var i = 0; i < 20; i++) emit("x".repeat(1000));'],
    ["what a toJSON makes", "emit({ toJSON: function () { return 'x'.repeat(20_000); } });"],
    ["escapes that make a text longer", 'emit("\\u0001".repeat(2000));'],
  ])("too long, of %s, is none", (_what, body) => {
    const { reply, logs } = mapWith(body);

    expect(reply).toBe("[[],[[2,2]]]");
    expect(logs).toEqual([expect.stringContaining("output_limit")]);
  });
});

describe("logs", () => {
  test("are limited per document, in number and length", () => {
    const session = new Session({ logLinesMax: 2, logCharsMax: 5 });
    session.handle(
      "[\"add_fun\",\"function(d){ for (var i = 0; i < 10; i++) log('x' + i + 'yyyyyyyyy') }\"]",
    );
    session.mapDocument("{}");
    const texts = session.takeLogs().map((l) => l.text);

    expect(texts).toEqual(["x0yyy…", "x1yyy…", "log_limit: 8 further log lines were dropped"]);
    session.mapDocument("{}");
    expect(session.takeLogs().length).toBe(3);
  });
});
