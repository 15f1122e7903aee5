// What user code can get hold of: everything belongs to its own realm or to the documents', whatever goes wrong.
import { spawnSync } from "node:child_process";
import path from "node:path";

import { describe, expect, test } from "@jest/globals";

import { Session } from "../../viewserver/index.js";
import { ESCAPED_EXIT } from "./naive.js";

const DOC = '{"_id":"x","tags":["a","b"],"o":{"p":1}}';

describe("errors of the realm", () => {
  // Whatever operation meets the end of the stack, what it throws is of the user's realm or the documents', never of the host.
  const operations = [
    'JSON.parse("[1,[2]]")',
    "JSON.stringify({a:[1,{b:2}]})",
    '"abc".replace(/b/, function () { return "x"; })',
    "[3,1,2].sort(function (a, b) { return a - b; })",
    'new RegExp("(a+)+b").test("aaaa")',
    "new Date(0).toLocaleString()",
    'try { eval("1") } catch (e) { probe(e); }',
    'try { Function("1") } catch (e) { probe(e); }',
    "new Proxy({}, { get: function () { return 1; } }).x",
    "Reflect.ownKeys(doc)",
    "doc.tags.map(String)",
    "(1234.5).toLocaleString()",
    "new Intl.NumberFormat().format(1)",
    "new Error('x').stack",
    "String(new Error('x'))",
    "new Map([[1, 2]]).entries().next()",
    "BigInt(5) ** BigInt(50)",
    "toJSON(doc)",
    "isArray(doc)",
    "require('nothing')",
    "getRow()",
    "send('x')",
    "start({})",
    "provides('html', function () {})",
    "registerType('x', 'y')",
  ];
  /** @param ours - the other prototype that an error's chain may end at, beside that of the function's own realm. */
  const probing = (operation: string, ours: string): string => `function (doc) {
    var got = [];
    function probe(e) { if (got.length < 5000) got.push(e); }
    function burrow() { try { burrow(); } catch (e) { probe(e); } try { ${operation}; } catch (e) { probe(e); } }
    burrow();
    var foreign = [];
    for (var i = 0; i < got.length; i++) {
      var e = got[i];
      if (e === null || typeof e !== "object" || Array.isArray(e)) continue;
      var p = Object.getPrototypeOf(e);
      while (Object.getPrototypeOf(p) !== null) p = Object.getPrototypeOf(p);
      if (p !== Object.prototype && p !== ${ours}) foreign.push(e);
    }
    emit(foreign.length === 0 ? "done" : "ESCAPED", got.length > 0);
  }`;

  test("naively they are the host's, and seen to be", () => {
    const source = probing("sum([1, 2, 3])", "null");
    const naive = path.join(import.meta.dirname, "naive.js");
    const { status } = spawnSync(process.execPath, [naive, "--attack", source]);

    expect(status).toBe(ESCAPED_EXIT);
  });

  test.each(operations)("near the end of the stack: %s", (operation) => {
    const session = new Session();
    session.handle('["reset"]');
    const source = probing(operation, "Object.getPrototypeOf(doc)");

    expect(session.handle(JSON.stringify(["add_fun", source])).output).toBe("true\n");
    expect(session.mapDocument(DOC)).toBe('[[["done",true]]]');
  });
});

test("every object in reach belongs to the function's own realm or the documents'", () => {
  const session = new Session();
  session.handle('["reset"]');
  session.handle(
    '["add_lib",{"m":"exports.f = function () { return module; }; exports.self = this"}]',
  );
  // Walks everything that properties, accessors, prototypes and calls without arguments lead to.
  const source = `function (doc) {
    var roots = [doc, emit, log, sum, isArray, toJSON, require, provides, registerType, start, send, getRow, this, globalThis];
    roots.push(arguments, arguments.callee, require("views/lib/m"), require("views/lib/m").f(), doc.tags[Symbol.iterator]());
    var failing = [function () { null.x }, function () { doc.tags.push(1) }, function () { require("nope") }, function () { getRow() },
      function () { eval("1") }, function () { emit.constructor("1") }, function () { BigInt(1.5) }, function () { send(null) },
      function () { new Proxy({}, null) }, function () { JSON.parse("{") }, function () { toJSON(1n) }, function () { log(1n) },
      function () { emit.call.call(1) }, function () { decodeURI("%") }, function () { "x".repeat(-1) }, function () { Symbol() + 1 }];
    for (var i = 0; i < failing.length; i++) try { failing[i](); } catch (e) { roots.push(e); }
    var ends = [Object.prototype, Object.getPrototypeOf(Object.getPrototypeOf(emit)), null];
    var seen = new Set(), queue = roots, foreign = [], functions = 0;
    while (queue.length) {
      var v = queue.pop();
      if ((typeof v !== "object" && typeof v !== "function") || v === null || seen.has(v)) continue;
      seen.add(v);
      if (typeof v === "function") functions++;
      var end = v;
      while (Reflect.getPrototypeOf(end) !== null) end = Reflect.getPrototypeOf(end);
      if (end !== v && ends.indexOf(end) < 0) foreign.push(String(v));
      queue.push(Reflect.getPrototypeOf(v));
      Reflect.ownKeys(v).forEach(function (k) {
        var d = Reflect.getOwnPropertyDescriptor(v, k);
        queue.push(d.value, d.get, d.set);
        if (d.get) try { queue.push(Reflect.apply(d.get, v, [])); } catch (e) { queue.push(e); }
        if (typeof d.value === "function" && seen.size < 5000) try { queue.push(Reflect.apply(d.value, v, [])); } catch (e) { queue.push(e); }
      });
    }
    emit(foreign, functions);
  }`;
  expect(session.handle(JSON.stringify(["add_fun", source])).output).toBe("true\n");
  const [rows] = JSON.parse(session.mapDocument(DOC)) as [[string[], number][]];
  // The walk calls emit, too: its own row is the last.
  const [foreign, functions] = rows.at(-1) as [string[], number];

  expect(foreign).toEqual([]);
  expect(functions).toBeGreaterThan(500);
});
