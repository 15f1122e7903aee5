// Documents are frozen only for functions that could tell. The proof must never claim too much: so it is checked against hand-made
// ways to change a document, and random functions must answer the same whether the document is frozen or not.
import fc from "fast-check";
import { describe, expect, test } from "@jest/globals";
import { Session } from "../../viewserver/index.js";
import { leavesNothing, needsFreeze } from "../../viewserver/purity.js";
import { prepare } from "../../viewserver/source.js";

function freezes(source: string): boolean {
  const prepared = prepare(source, "declared");
  if ("error" in prepared) throw new Error(prepared.error.message);
  return needsFreeze(prepared);
}

const RUNS = Number(process.env["TEST_RUNS"] ?? 500);

describe("common map functions are proved harmless", () => {
  test.each([
    "function(doc){ if (doc.user) emit(doc.user, 1); }",
    "function (doc) { emit([doc.type, doc.date], { a: doc.a, b: [doc.b] }); }",
    "doc => { for (const t of doc.tags ?? []) emit(t.toLowerCase(), doc?.x?.y) }",
    "function(doc){ var k = []; for (var i in doc.tags) { k.push(doc.tags[i]); emit(k, null) } }",
    "function(doc){ doc.tags.forEach(function (t) { emit([t, doc._id], 1) }) }",
    "function(doc){ var d = new Date(doc.at); emit([d.getFullYear(), d.getMonth() + 1, d.getDate()], parseInt(doc.n, 10)) }",
    "function(doc){ Object.keys(doc).sort().forEach(k => emit(k, doc[k])) }",
    "function(doc){ for (k in doc) emit(k, doc[k]) }",
    "function(doc){ var o = {}; o.a = doc.a; o.n = 0; o.n++; emit(doc._id, o) }",
    "function(doc){ function f(x) { return x && x.y } emit(f(doc), Math.max(doc.a, doc.b)) }",
    "function(doc){ emit(doc.tags.map(String).filter(Boolean).join(), { ...doc.o, x: 1 }) }",
    "function(doc){ if (doc.type === 'a' && isArray(doc.list)) { var n = 0; for (var i = 0; i < doc.list.length; i++) n += doc.list[i]; emit(n, sum(doc.list)) } }",
    "function(doc){ log(doc); emit(JSON.stringify(doc.o), doc.s.replace(/a/g, 'b').split(' ')) }",
    "function(doc){ switch (doc.t) { case 'a': emit(1); break; default: try { emit(doc.a.b) } catch (e) { emit(String(e)) } } }",
    "function(doc){ emit(typeof doc.a, doc instanceof Object) }",
    "var w = 3; function(doc){ emit(w, doc.a) }",
  ])("%s", (source) => {
    expect(freezes(source)).toBe(false);
  });
});

describe("whatever could change a document freezes it", () => {
  test.each([
    "function(doc){ doc.a = 1 }",
    "function(doc){ doc.a++ }",
    "function(doc){ doc.a ||= 1 }",
    "function(doc){ delete doc.a }",
    "function(doc){ doc.list.push(1) }",
    "function(doc){ doc?.list?.sort() }",
    "function(doc){ doc['list']['push'](1) }",
    "function(doc){ var d = doc; d.a = 1 }",
    "function(doc){ var o = {}; o = doc; o.a = 1 }",
    "function(doc){ var o = {}; if (doc.x) { [o] = [doc]; } o.a = 1 }",
    "function(doc){ var o = { d: doc }; o.d.a = 1 }",
    "function(doc){ let { o } = doc; o.a = 1 }",
    "function(doc){ var o = []; for (o of doc.list) o.a = 1 }",
    "function(doc){ for (doc.a of [1]); }",
    "function(doc){ for (doc.a in { x: 1 }); }",
    "function(doc){ [doc.a] = [1] }",
    "function(doc){ ({ x: doc.a } = { x: 1 }) }",
    "function(doc){ [...doc.list] = [1] }",
    "function(doc){ var p = doc.list.push; p.call(doc.list, 1) }",
    "function(doc){ [1].forEach(doc.list.push, doc.list) }",
    "function(doc){ var k = 'push'; [1].forEach(doc.list[k], doc.list) }",
    "function(doc){ var k = 'push'; doc.list[k](1) }",
    "function(doc){ toJSON(doc, doc.list['pu' + 'sh']) }",
    "function(doc){ JSON.stringify(doc, doc.list[doc.k]) }",
    "function(doc){ JSON.stringify(doc, function (k, v) { this.a = 1; return v }) }",
    "function(doc){ Object.assign(doc, { a: 1 }) }",
    "function(doc){ var f = Object.assign; f(doc, { a: 1 }) }",
    "function(doc){ Object.freeze(doc.o); emit(Object.isFrozen(doc)) }",
    "function(doc){ Reflect.set(doc, 'a', 1) }",
    "function(doc){ Array.prototype.push.call(doc.list, 1) }",
    "function(doc){ [].push.apply(doc.list, [1]) }",
    "function(doc){ doc.__defineGetter__('a', function () { return 1 }) }",
    "function(doc){ doc.__proto__ = null }",
    "function(doc){ var o = {}; for (var k in doc) o[k] = doc[k]; o.x = 1; emit(o) }",
    "function(doc){ var o = { __proto__: doc }; o.a = 1; emit(o.a) }",
    "function(doc){ eval('doc.a = 1') }",
    "function(doc){ with (doc) { a = 1 } }",
    "function(doc){ arguments[0].a = 1 }",
    "function(doc){ class A { constructor() { doc.a = 1 } } new A() }",
    "function(doc){ new Object(doc).a = 1 }",
    "function(doc){ var o = new Object(doc); o.a = 1 }",
    "function(doc){ require('views/lib/x')(doc) }",
    "function(doc){ (function (d) { d.a = 1 })(doc) }",
    "function(doc){ function f(d) { d.a = 1 } f(doc) }",
    "function(doc){ g = Object.assign; g(doc, {a: 1}) }",
    "function(doc){ x = []; x = doc.list; x.push(1) }",
    "function(doc){ emit = Object.assign; emit(doc, { a: 1 }) }",
    "function(doc){ Math.max = Object.assign; Math.max(doc, { a: 1 }) }",
    "function(doc){ var o = { set x(v) { v.a = 1 } }; o.x = doc }",
    "function(doc){ var o = { f() { return doc } }; o.f().a = 1 }",
    "function(doc){ `${doc}`; (x => x)`${doc.a = 1}` }",
    "function(doc){ function* g() { yield doc } for (const d of g()) d.a = 1 }",
    "function(doc){ var a = []; a.push(doc); a.pop().a = 1 }",
    "function(doc){ try { throw doc } catch (e) { e.a = 1 } }",
    "function(doc){ doc.list.map(function (x) { x.a = 1 }) }",
    "function(doc){ var m = new Map(); m.set(1, doc); m.get(1).a = 1 }",
    "function(doc){ Object.values(doc).sort()[0].a = 1 }",
    "function(doc = {}, o = doc){ o.a = 1 }",
    "function(doc){ var o = {}; function f() { o = doc } f(); o.a = 1 }",
    "(doc) => void (doc.a = 1)",
    "function(doc){ label: for (;;) { doc.a = 1; break label } }",
    "function(doc){ var Date = function (d) { return d }; var o = new Date(doc); o.a = 1 }",
    "function(doc){ var Object = { keys: function (d) { return d } }; Object.keys(doc.list).push(1) }",
  ])("%s", (source) => {
    expect(freezes(source)).toBe(true);
  });
});

describe("random functions", () => {
  // Small programs over the document, some of which change it. Mapping by a session that trusts the proof must give what
  // mapping with a frozen document gives, and leave the document alone for the function after it.
  const name = fc.constantFrom("doc", "o", "a", "x");
  const path = fc.oneof(
    name,
    fc
      .tuple(name, fc.constantFrom(".o", ".list", ".n", "[0]", ".o.p", ".list[0]", '["o"]', "?.o"))
      .map(([n, p]) => n + p),
  );
  const value = fc.oneof(
    path,
    fc.constantFrom(
      "1",
      '"s"',
      "[]",
      "{}",
      "[doc]",
      "{d: doc}",
      "new Array(2)",
      "Object.keys(doc)",
      "function (y) { return y }",
    ),
  );
  const statement = fc.oneof(
    fc.tuple(path, value).map(([p, v]) => `${p.replace("?.", ".")} = ${v};`),
    fc.tuple(name, value).map(([n, v]) => `${n === "doc" ? "x" : n} = ${v};`),
    fc.tuple(path, value).map(([p, v]) => `${p}.push(${v});`),
    fc.tuple(path, value).map(([p, v]) => `emit(${p}, ${v});`),
    path.map((p) => `delete ${p.replace("?.", ".")};`),
    path.map((p) => `for (var i in ${p}) x = ${p}[i];`),
    path.map((p) => `for (x of ${p}) emit(x, a);`),
    path.map((p) => `${p}.forEach(function (y) { x = y; emit(y, o); });`),
    fc
      .tuple(path, path)
      .map(([p, q]) => `(function (y) { ${p.includes("?") ? "x" : p} = y; })(${q});`),
    path.map((p) => `Object.assign(${p}, {z: 1});`),
    fc.tuple(path, path).map(([p, q]) => `[${p.replace("?.", ".")}] = [${q}];`),
  );
  const program = fc
    .array(statement, { minLength: 1, maxLength: 4 })
    .map(
      (statements) =>
        `function (doc) { var o = {}, a = [], x; ${statements.map((s) => `try { ${s} } catch (e) { emit("e"); }`).join(" ")} }`,
    );
  const DOC = '{"n":1,"list":[{"q":1},2],"o":{"p":{"r":1}}}';

  const session = new Session();
  function mapped(source: string, forceFreeze: boolean): string {
    session.handle('["reset"]');
    const added = session.handle(JSON.stringify(["add_fun", source])).output;
    if (added !== "true\n") return added;
    session.handle('["add_fun","function (doc) { emit(doc, null) }"]');
    // A function that provably needs it makes the session freeze for all.
    if (forceFreeze) session.handle('["add_fun","function (doc) { doc.zz = 1 }"]');
    const reply = session.mapDocument(DOC);
    session.takeLogs();
    return forceFreeze ? reply.replace(/,\[\]\]$/, "]") : reply;
  }

  test("answer the same whether the proof is trusted or the document frozen", () => {
    fc.assert(
      fc.property(program, (source) => {
        expect(mapped(source, false)).toBe(mapped(source, true));
      }),
      { numRuns: RUNS },
    );
  });
});

describe("reduce functions that leave nothing behind keep their realm", () => {
  test.each([
    [true, "function (k, v, r) { return sum(v) }"],
    [true, "function (k, v) { var m = {}; for (var i in v) m[v[i]] = 1; return m }"],
    [true, "function (k, v) { return Math.max.apply(null, v) }"],
    [false, "function (k, v) { g = 1; return g }"],
    [false, "function (k, v) { Array.prototype.x = 1; return 1 }"],
    [false, "var n = 0; function (k, v) { return n++ }"],
    [false, "function (k, v) { return this.n = (this.n || 0) + 1 }"],
    [false, "function (k, v) { return globalThis.n }"],
  ])("%s: %s", (leaves, source) => {
    expect(leavesNothing(source)).toBe(leaves);
  });

  test("what a reduce leaves in its globals is gone at the next command", () => {
    const session = new Session();
    const count = ["function (k, v) { n = typeof n === 'undefined' ? 1 : n + 1; return n }"];

    expect(session.reduce(count, "[]").results).toEqual(["1"]);
    expect(session.reduce(count, "[]").results).toEqual(["1"]);
  });
});
