// Limits: who may ask, how much, how fast; and how the server ends.

import { once } from "node:events";
import { connect } from "node:net";

import { afterEach, describe, expect, test } from "@jest/globals";

import { removeTempDirs } from "../../helpers/temp-dir.js";
import { startServer } from "../../../indexer/http/index.js";
import { local, type Local } from "./in-process.js";
import { design } from "./serving.js";

removeTempDirs();

let here: Local | undefined;

afterEach(async () => {
  await here?.close();
  here = undefined;
});

/** 16 MiB of values that do not compress well: more than the buffers of a connection hold. */
const WIDE = {
  wide: {
    map: `function (doc) {
      var x = doc.seed;
      for (var i = 0; i < 2000; i++) {
        var text = "";
        while (text.length < 2000) text += (x = (x * 48271) % 2147483647).toString(36);
        emit(i, text);
      }
    }`,
  },
};

function putWide(here: Local): void {
  here.source.put(design(WIDE) as never);
  for (let seed = 1; seed <= 4; seed++) here.source.put({ _id: `w${seed}`, seed });
}

describe("authorisation", () => {
  test("without the name and password nothing is answered but _up", async () => {
    here = await local({ user: "jan:apple:pie" });
    here.source.put(design() as never);
    const refused = await here.view();
    expect(refused).toMatchObject({
      status: 401,
      json: { error: "unauthorized", reason: "Name or password is incorrect." },
    });
    expect(refused.headers["www-authenticate"]).toMatch(/^Basic /);
    expect((await here.ask("/")).status).toBe(401);
    expect((await here.ask("/_up")).status).toBe(200);
    const authorization = `Basic ${Buffer.from("jan:apple:pie").toString("base64")}`;
    expect((await here.view("", { headers: { authorization } })).status).toBe(200);
    expect((await here.view("", { headers: { authorization: `${authorization}x` } })).status).toBe(
      401,
    );
  });

  test("other machines are let in only with a user", async () => {
    here = await local();
    const { index } = here;
    await expect(startServer({ index, host: "0.0.0.0", port: 0 })).rejects.toThrow(/--user/);
    await expect(startServer({ index, host: "127.0.0.1.example.org", port: 0 })).rejects.toThrow(
      /--user/,
    );
    await expect(startServer({ index, user: "nobody", port: 0 })).rejects.toThrow(/name:password/);
    const open = await startServer({ index, host: "0.0.0.0", port: 0, user: "a:b" });
    await open.close();
  });
});

describe("sizes", () => {
  test("a body that is too large gets 413, also without a length and when it grows by unzipping", async () => {
    here = await local({ bodyBytesMax: 1000 });
    here.source.put(design() as never);
    const { gzipSync } = await import("node:zlib");
    const large = `{"keys":[${"1,".repeat(1000)}1]}`;
    const told = {
      status: 413,
      json: { error: "too_large", reason: "the request entity is too large" },
    };
    expect(await here.view("", { body: large })).toMatchObject(told);
    expect(await here.view("/queries", { body: large })).toMatchObject(told);
    expect(
      await here.view("", { body: large, headers: { "transfer-encoding": "chunked" } }),
    ).toMatchObject(told);
    expect(
      await here.view("", {
        body: gzipSync(large),
        method: "POST",
        headers: { "content-encoding": "gzip" },
      }),
    ).toMatchObject(told);
    expect(await here.ask("/db/_compact/d", { body: large })).toMatchObject(told);
    expect((await here.view("", { body: { key: 1 } })).status).toBe(200);
  });

  test("a URL that is too long gets 414", async () => {
    here = await local();
    expect(await here.view(`?x=${"a".repeat(70_000)}`)).toMatchObject({
      status: 414,
      json: { error: "uri_too_long" },
    });
    expect((await here.ask("/_up")).status).toBe(200);
  });
});

describe("requests at once", () => {
  test("more than allowed get 503 and are welcome later", async () => {
    here = await local({ requestsMax: 2 });
    here.source.put({
      _id: "_design/slow",
      views: {
        v: { map: "function (doc) { var x = 0; for (var i = 0; i < 3e8; i++) x += i; emit(x); }" },
      },
    });
    here.source.put({ _id: "a" });
    const slow = [
      here.ask("/db/_design/slow/_view/v"),
      here.ask("/db/_design/slow/_view/v?limit=0"),
    ];
    let refused = await here.ask("/_up");
    while (refused.status !== 503) refused = await here.ask("/_up");
    expect(refused).toMatchObject({ status: 503, json: { error: "service_unavailable" } });
    expect(refused.headers["retry-after"]).toBe("1");
    for (const answer of await Promise.all(slow)) expect(answer.status).toBe(200);
    expect((await here.ask("/_up")).status).toBe(200);
  });
});

describe("pipelines", () => {
  test.each([
    ["a view", "GET /db/_design/d/_view/v HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["a document", "GET /db/d1 HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["a list", "GET /db/_all_docs?include_docs=true HTTP/1.1\r\nHost: x\r\n\r\n"],
  ])("of requests for %s whose clients leave do not count for ever", async (_what, request) => {
    here = await local();
    here.source.put(design() as never);
    for (let i = 0; i < 50; i++) here.source.put({ _id: `d${i}`, k: i, v: i });
    await here.ask("/db/_design/d/_view/v");
    const { port } = new URL(here.server.url);
    for (let client = 0; client < 60; client++) {
      const socket = connect(Number(port), "127.0.0.1");
      await once(socket, "connect");
      const sent = new Promise((resolve) => socket.write(request.repeat(20), resolve));
      await sent;
      // At the first byte of an answer, most are still to come.
      if (client % 2 === 0) await once(socket, "data");
      socket.destroy();
    }
    // More than a thousand of them: if they counted, this would be refused.
    for (;;) {
      const { status, text } = await here.ask("/_metrics");
      expect(status).toBe(200);
      if (/^viewmill_requests_active 1$/m.test(text)) break;
    }
    expect((await here.ask("/db/_design/d/_view/v")).status).toBe(200);
  });
});

describe("clients that do not read", () => {
  test.each([false, true])("are dropped, and with them the snapshot (gzip: %s)", async (gzip) => {
    here = await local({ stallMs: 200 });
    putWide(here);
    await here.ask("/db/_design/d/_view/wide?limit=1");
    const { port } = new URL(here.server.url);
    const socket = connect(Number(port), "127.0.0.1");
    const closed = new Promise<void>((resolve) => {
      socket.once("close", () => {
        resolve();
      });
    });
    socket.on("error", () => undefined);
    socket.pause();
    socket.write(
      `GET /db/_design/d/_view/wide HTTP/1.1\r\nHost: x\r\n${gzip ? "Accept-Encoding: gzip\r\n" : ""}\r\n`,
    );
    for (;;) {
      const { text } = await here.ask("/_metrics");
      if (/^viewmill_query_seconds_count 2$/m.test(text)) break;
    }
    socket.resume();
    await closed;
    expect((await here.ask("/db/_design/d/_view/wide?limit=1")).status).toBe(200);
  });

  test("a client that leaves ends its query", async () => {
    here = await local();
    putWide(here);
    await here.ask("/db/_design/d/_view/wide?limit=1");
    const { port } = new URL(here.server.url);
    for (let i = 0; i < 20; i++) {
      const socket = connect(Number(port), "127.0.0.1");
      await new Promise<void>((resolve) => {
        socket.once("data", () => {
          socket.destroy();
          resolve();
        });
        socket.write("GET /db/_design/d/_view/wide HTTP/1.1\r\nHost: x\r\n\r\n");
      });
    }
    for (;;) {
      const { text } = await here.ask("/_metrics");
      if (/^viewmill_requests_active 1$/m.test(text)) break;
    }
    expect(here.warnings).toEqual([]);
  });
});

describe("requests that do not arrive", () => {
  test.each([
    ["half a head", "GET /db HTTP/1.1\r\nHost: x\r\nX-Some"],
    [
      "half a body",
      "POST /db/_design/d/_view/v HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ],
    [
      "half a chunk",
      "POST /db/_design/d/_view/v HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{",
    ],
  ])("%s gets 408 after a while", async (_what, bytes) => {
    here = await local({ requestMs: 300 });
    here.source.put(design() as never);
    const { port } = new URL(here.server.url);
    const text = await new Promise<string>((resolve) => {
      const socket = connect(Number(port), "127.0.0.1");
      let got = "";
      socket.on("data", (data) => {
        got += data.toString();
      });
      socket.on("close", () => {
        resolve(got);
      });
      socket.write(bytes);
    });
    expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    expect(text).toContain('{"error":"timeout"');
    expect((await here.view()).status).toBe(200);
  });
});

describe("the end", () => {
  test("answers under way are finished; nobody new is let in", async () => {
    const one = await local();
    one.source.put({
      _id: "_design/slow",
      views: {
        v: { map: "function (doc) { var x = 0; for (var i = 0; i < 3e8; i++) x += i; emit(x); }" },
      },
    });
    one.source.put({ _id: "a" });
    const slow = one.ask("/db/_design/slow/_view/v");
    for (;;) {
      const { text } = await one.ask("/_active_tasks");
      if (text !== "[]\n") break;
    }
    const closing = one.server.close();
    const answer = await slow;
    expect(answer.status).toBe(200);
    expect(answer.headers.connection).toBe("close");
    await closing;
    await expect(one.ask("/_up")).rejects.toThrow(/ECONNREFUSED/);
    await one.index.close();
  });
});
