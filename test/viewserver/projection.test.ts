// What a function can see of a document. To say too much is slow; to say too little is wrong.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { Session, visibleMembers } from "../../viewserver/index.js";

function seen(source: string): string[] | undefined {
  const members = visibleMembers([source]);
  return members && [...members].sort();
}

const FUNCTIONS: readonly (readonly [string, readonly string[]])[] = [
  ["function (doc) { emit(doc.user, 1) }", ["user"]],
  ["function (doc) { emit(doc['user'], doc.a.b.c) }", ["a", "user"]],
  ["doc => { if (doc && doc.type === 'x') emit(doc.type, null) }", ["type"]],
  ["function (doc) { if (!doc) return; emit(typeof doc, doc.x?.y) }", ["x"]],
  [
    "function (doc) { for (var i = 0; i < doc.tags.length; i++) emit(doc.tags[i], doc.n) }",
    ["n", "tags"],
  ],
  ["function (doc) { (doc.tags || []).forEach(function (t) { emit(t, doc.n) }) }", ["n", "tags"]],
  ["function (doc) { function f(doc) { return doc } emit(f(doc.a), 1) }", ["a"]],
  ["function named(doc) { emit(doc._id, doc.a) }", ["_id", "a"]],
  ["function () { emit(1, 2) }", []],
  ["function (doc) { emit(doc.toString, doc.hasOwnProperty) }", ["hasOwnProperty", "toString"]],
  ["function (doc) { emit(doc?.a, 1) }", ["a"]],
];

const OPAQUE = [
  "function (doc) { emit(doc, 1) }",
  "function (doc) { emit(1, doc) }",
  "function (doc) { for (var k in doc) emit(k, 1) }",
  "function (doc) { emit(Object.keys(doc), 1) }",
  "function (doc) { var d = doc; emit(d.a, d.b) }",
  "function (doc) { emit(doc[doc.field], 1) }",
  "function (doc) { emit('a' in doc, 1) }",
  "function (doc) { emit({ doc }, 1) }",
  "function (doc) { emit([...Object.values(doc)], 1) }",
  "function (doc) { var { a, ...rest } = doc; emit(a, rest) }",
  "function ({ a, ...rest }) { emit(a, rest) }",
  "function (doc = {}) { emit(doc.a, 1) }",
  "function (doc) { emit(doc.hasOwnProperty('a'), 1) }",
  "function (doc) { emit(doc?.hasOwnProperty('a'), 1) }",
  "function (doc) { emit((doc || {}).a, 1) }",
  "function (doc) { emit(doc || 1, 1) }",
  "function (doc) { emit(JSON.stringify(doc), 1) }",
  "function (doc) { emit(arguments[0], 1) }",
  "function (doc) { eval('emit(doc, 1)') }",
  "function (doc) { doc = { a: doc }; emit(doc.a, 1) }",
  "function (doc) { doc.x = 1; emit(doc.x, 1) }",
  "function (doc) { emit(`${doc}`, 1) }",
  "function (doc) { emit(doc + '', 1) }",
  "function (doc) { emit(doc == 1, 1) }",
  "function (doc) { return doc }",
  "function (doc) { log(doc); emit(doc.a, 1) }",
  "var last; function (doc) { last = doc; emit(doc.a, 1) }",
  "function (doc) { var f = function () { return doc }; emit(f().a, 1) }",
  "function (doc) { require('views/lib/x').f(doc) }",
  "function (doc) { emit(this.doc, doc.a) }",
  // Ways to ask a function for its arguments, by a name that is put together at run time.
  "function f(doc) { var x = 'argu' + 'ments'; emit(f[x][0].a, 1) }",
  "function f(doc) { var g = f, x = 'argu' + 'ments'; emit(g[x][0].a, 1) }",
  "function f(doc) { var x = 'argu' + 'ments'; emit([f][0][x][0].a, 1) }",
  "function f(doc) { var x = 'argu' + 'ments'; emit([].concat(f)[0][x][0].a, 1) }",
  "function f(doc) { var x = 'argu' + 'ments'; function h(g) { return g[x][0] } emit(h(f).a, 1) }",
  "function (doc) { var x = 'call' + 'er'; function g() { return g[x] } emit(g(), 1) }",
  "function (doc) { var x = 'call' + 'er'; emit([1].map(function g() { return g[x] }), 1) }",
  "function (doc) { var x = 'call' + 'er', g = function () { return g[x] }; emit(g(), 1) }",
];

describe("the members a map function can see", () => {
  test.each(FUNCTIONS)("%s", (source, members) => {
    expect(seen(source)).toEqual([...members].sort());
  });

  test.each(OPAQUE)("cannot be told: %s", (source) => {
    expect(seen(source)).toBeUndefined();
  });

  test("are those of all functions together", () => {
    const members = visibleMembers([
      "function (doc) { emit(doc.a) }",
      "function (doc) { emit(doc.b) }",
    ]);
    expect([...(members ?? [])].sort()).toEqual(["a", "b"]);
    expect(
      visibleMembers(["function (doc) { emit(doc.a) }", "function (doc) { emit(doc) }"]),
    ).toBeUndefined();
  });

  test("are enough for the same rows", () => {
    const documents = fc.dictionary(
      fc.constantFrom("a", "n", "tags", "type", "user", "x", "y"),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(documents, fc.nat(FUNCTIONS.length - 1), (doc, choice) => {
        const [source, members] = FUNCTIONS[choice] ?? ["", []];
        const session = new Session();
        session.handle(JSON.stringify(["add_fun", source]));
        const cut = Object.fromEntries(
          Object.entries(doc).filter(([name]) => members.includes(name)),
        );
        expect(session.mapDocument(JSON.stringify(cut))).toBe(
          session.mapDocument(JSON.stringify(doc)),
        );
        session.dispose();
      }),
      { numRuns: 60 },
    );
  });
});
