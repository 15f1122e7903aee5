// Rows of short scalars are printed by hand: just as JSON.stringify would.

import { expect, test } from "@jest/globals";
import fc from "fast-check";

import { Session } from "../../viewserver/index.js";

test("prints any emitted keys and values as JSON.stringify does", () => {
  const session = new Session();
  session.handle(
    JSON.stringify([
      "add_fun",
      "function (doc) { doc.rows.forEach(function (r) { emit(r[0], r[1]) }) }",
    ]),
  );
  const scalar = fc.oneof(
    fc.string(),
    fc.string({ unit: "binary" }),
    fc.double(),
    fc.integer(),
    fc.constantFrom(null, true, false, -0, 1e21, 1e-7, "", "\\", '"', "\u007f", "\ud800"),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(scalar, scalar), { maxLength: 4 }), (rows) => {
      const doc = JSON.stringify({ rows });
      const parsed = (JSON.parse(doc) as { rows: unknown }).rows;
      expect(session.mapDocument(doc)).toBe(JSON.stringify([parsed]));
    }),
    { numRuns: Number(process.env["TEST_RUNS"] ?? 300) },
  );
});

test.each([
  ["emit(NaN, -Infinity)", "[[[null,null]]]"],
  ["emit(-0, 1 / 3)", "[[[0,0.3333333333333333]]]"],
  ["emit()", "[[[null,null]]]"],
  ["emit(undefined, function () {})", "[[[null,null]]]"],
  ["emit('é', 'x'.repeat(100))", `[[["é","${"x".repeat(100)}"]]]`],
  ["emit('a', 1); emit('b', 2)", '[[["a",1],["b",2]]]'],
])("prints %s", (body, want) => {
  const session = new Session();
  session.handle(JSON.stringify(["add_fun", `function (doc) { ${body} }`]));
  expect(session.mapDocument("{}")).toBe(want);
});
