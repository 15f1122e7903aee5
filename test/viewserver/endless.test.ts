// A function is watched unless it provably ends. The proof must never claim too much, and should know what most views look like.
import { describe, expect, test } from "@jest/globals";
import { Session } from "../../viewserver/index.js";
import { provablyEnds } from "../../viewserver/endless.js";
import { ParentWatch, WATCHED_AGE_MS } from "../../viewserver/parent-watch.js";
import { prepare } from "../../viewserver/source.js";

function ends(source: string): boolean {
  const prepared = prepare(source, "declared");
  if ("error" in prepared) throw new Error(prepared.error.message);
  return provablyEnds(prepared);
}

describe("what most views look like ends", () => {
  test.each([
    "function(doc){ if (doc.user) emit(doc.user, 1); }",
    "function (doc) { emit([doc.type, doc.date], { a: doc.a, b: [doc.b] }); }",
    "(doc) => { if (doc.type === 'order' && doc?.paid) emit([doc.day.slice(0, 7), doc.user], doc.total) }",
    "function(doc){ for (var i in doc.tags) emit(doc.tags[i], null) }",
    "doc => { for (const t of doc.tags ?? []) emit(t.toLowerCase(), doc.x) }",
    "function(doc){ doc.tags.forEach(function (t) { emit([t, doc._id], 1) }); doc.items.forEach(i => emit(i.sku)) }",
    "function(doc){ Object.keys(doc).sort().forEach(k => emit(k, doc[k])) }",
    "function(doc){ var d = new Date(doc.at); emit([d.getFullYear(), d.getMonth() + 1], parseInt(doc.n, 10)) }",
    "function(doc){ emit(doc.tags.map(String).filter(Boolean).join(), { ...doc.o, x: 1 }) }",
    "function named(doc){ log(doc); emit(doc._id, `${doc.a}-${doc.b}`) }",
    "function(keys, values, rereduce){ return sum(values) }",
    "function(k, v, r){ var s = 0; v.forEach(x => { s += x }); return { s: s, n: v.length } }",
    "function(doc){ (function () { emit(doc.a) })() }",
    "function(doc){ if (Array.isArray(doc.l)) emit(Math.max.apply(null, doc.l), Object.values(doc.o)) }",
    "function(k, v, r){ var o = {}; v.forEach(x => { o[x.k] = (o[x.k] || 0) + x.n }); o.n = v.length; return o }",
    "function(doc){ var a = []; a[0] = doc.x; a[1] = doc.y; emit(a) }",
  ])("%s", (source) => {
    expect(ends(source)).toBe(true);
  });
});

describe("what might go on for ever does not", () => {
  test.each([
    "function(doc){ while (true) ; }",
    "function(doc){ do {} while (doc.a) }",
    "function(doc){ for (;;) ; }",
    "function(doc){ for (var i = 0; i < doc.n; i++) emit(i) }",
    "function(doc){ var a = [1]; for (const x of a) a.push(x) }",
    "function(doc){ var a = [1]; for (const x of a) a[a.length] = x }",
    "function(doc){ var a = [1]; for (const x of a) [a[a.length]] = [x] }",
    "function(doc){ var a = [1]; for (a[a.length] of a) ; }",
    "function(doc){ var a = [1]; for (const x of a) for (a[a.length] in doc) ; }",
    "function(doc){ var m = new Map([[1, 1]]); for (const [k] of m.entries()) { m.delete(k); m.set(k, 1) } }",
    "function(doc){ var a = [0]; for (const x of a) a[x]++ }",
    "function(doc){ doc.a.forEach(x => doc.a.forEach(y => doc.a.forEach(z => emit(x, y)))) }",
    "function(doc){ for (var a in doc) for (var b in doc) emit(a, b) }",
    "function(doc){ for (var a in doc) doc.l.forEach(x => emit(x)) }",
    "function(doc){ doc.l.forEach(x => { for (const y of x) emit(y) }) }",
    "function f(doc){ try { f(doc) } catch (e) {} f(doc) }",
    "function emit(doc){ try { emit(doc) } catch (e) {} emit(doc) }",
    "function(doc){ function g() { try { g() } catch (e) {} g() } g() }",
    "function(doc){ (function g() { try { g() } catch (e) {} g() })() }",
    "function(doc){ var g = function () { [1, 2].forEach(g) }; [1].forEach(g) }",
    "function(doc){ [1].forEach(function g() { [1, 2].map(g) }) }",
    "function(doc){ arguments.callee(doc) }",
    "function(doc){ var o = { toString: function () { return o + o } }; emit(o + '') }",
    "function(doc){ var o = {}; o.toString = function () { return o + o }; emit(o + '') }",
    "function(doc){ var o = { get a() { return o.a } }; emit(o.a) }",
    "function(doc){ var o = { [Symbol.iterator]: Array }; for (const x of o) emit(x) }",
    "function(doc){ /^(a+)+$/.test(doc.s) }",
    "function(doc){ emit(doc.s.match('^(a+)+$')) }",
    "function(doc){ emit(doc.s.search('^(a+)+$')) }",
    "function(doc){ emit(doc.s['match']('^(a+)+$')) }",
    "function(doc){ var { match } = ''; emit(match.call(doc.s, '^(a+)+$')) }",
    "function(doc){ emit(new RegExp(doc.r).test(doc.s)) }",
    "function(doc){ emit(RegExp(doc.r)[Symbol.replace](doc.s, '')) }",
    "function(doc){ emit(['(a+)+$'].map(RegExp)) }",
    "function(doc){ require('views/lib/m').f(doc) }",
    "function(doc){ eval('for(;;);') }",
    "function(doc){ this.x(doc) }",
    "function(doc){ class A { static { for (;;) ; } } }",
    "function*(doc){ yield 1 }",
    "function(doc){ with (doc) emit(a) }",
    "function(doc){ doc.s.replace('a', () => { for (;;) ; }) }",
    "function(doc){ doc.l.sort(function () { for (;;) ; }) }",
    "function(doc){ new Proxy(doc, { get: () => 1 }).x }",
    "function(doc){ Array.from({ length: 1e15 }, x => x) }",
    "function(doc){ JSON.stringify(doc, () => { for (;;) ; }) }",
    "var go = () => { for (;;) ; }; function(doc){ [1].map(go) }",
    "for (;;) ; function(doc){}",
    // Collections and iterators see what is added while they are gone through.
    "function(doc){ var m = new Map([[1, 1]]); m.forEach((v, k) => { m.delete(k); m.set(k, v) }) }",
    "function(doc){ var s = new Set([1]); s.forEach(x => { s.delete(x); s.add(x) }) }",
    "function(doc){ var a = [1]; a.values().forEach(x => { a.push(x) }) }",
    "function(doc){ var a = [1]; a.entries().find(x => { a.push(x) }) }",
    "function(doc){ var a = [1], i = a.keys(); for (const k of i) a.push(k) }",
    // Functions beside the one that is called, which nobody is seen to call.
    "var o = {}; o.get = function () { try { o.get() } catch (e) {} o.get() }; (function(doc){ o.get() })",
    "o = {}; o.toString = function () { try { o + '' } catch (e) {} o + '' }; (function(doc){ o + '' })",
    "Array.prototype.map = function () { for (;;) ; }; (function(doc){ doc.l.map(x => x) })",
    "Object.defineProperty(Object.prototype, 'x', { get: function () { for (;;) ; } }); (function(doc){ emit(doc.x) })",
    // It ends, but nobody would live to see it.
    "function(doc){ var a = []; for (var k in doc) a = [a, a]; a.flat(1 / 0) }",
    "function(doc){ var a = []; a.length = 4294967295; a.find(x => a.includes(1)) }",
    "function(doc){ var a = []; a[4294967294] = 1; a.find(x => a.includes(2)) }",
    "function(doc){ var a = []; a[doc.n] = 1; a.find(x => a.includes(2)) }",
    "function(doc){ var a = {}; a = []; a[doc.n] = 1; a.find(x => a.includes(2)) }",
    "function(doc){ Array(4294967295).find(x => Array(4294967295).includes(1)) }",
    "function(doc){ new Array(4294967295).find(x => 0) }",
    "function(doc){ doc.l.map(Array).find(a => a.find(x => 0)) }",
    "function(doc){ 'a'.repeat(268435456).indexOf('b' + doc.s) }",
    "function(doc){ ''.padEnd(268435456, 'a').indexOf('b' + doc.s) }",
    "function(doc){ doc.l.forEach(x => BigInt(2) ** BigInt(x)) }",
    "function(doc){ emit(String(2n ** 1000000000n)) }",
    "function(doc){ doc.l.forEach(x => Math.max.apply(null, doc)) }",
    // Ways to call what cannot be seen.
    "function(doc){ var t = s => s; t`x` }",
    "function(doc){ label: while (true) continue label }",
    "function(doc){ [..._ => { for (;;) ; }] }",
    "function(doc, f = () => { for (;;) ; }){ f() }",
    "function(doc){ var { a = () => { for (;;) ; } } = doc; a() }",
    "function(doc){ Object.prototype.toString = emit }",
    "function(doc){ doc.l.sort((a, b) => { for (;;) ; }) }",
    "function(doc){ doc.l.toSorted(function c(a, b) { return [1].map(c) }) }",
  ])("%s", (source) => {
    const prepared = prepare(source, "declared");
    expect("error" in prepared || !provablyEnds(prepared)).toBe(true);
  });
});

test("a server that has worked for long is watched whatever it runs, once", () => {
  let starts = 0;
  const watch = new ParentWatch(() => starts++);
  const after = (ageMs: number): number => {
    watch.aged(ageMs);
    return starts;
  };

  expect(after(WATCHED_AGE_MS - 1)).toBe(0);
  expect(after(WATCHED_AGE_MS)).toBe(1);
  expect(after(WATCHED_AGE_MS * 2)).toBe(1);
  watch.mayNotEnd();
  expect(starts).toBe(1);
});

describe("a session tells once that a function may not end", () => {
  const told = (...lines: unknown[]): number => {
    let times = 0;
    const session = new Session({ mayNotEnd: () => times++ });
    for (const line of lines) session.handle(JSON.stringify(line));
    return times;
  };

  test("before it is evaluated, and not for one that ends", () => {
    let times = 0;
    const session = new Session({ mayNotEnd: () => times++ });
    session.handle('["add_fun","function(doc){ emit(doc.a, 1) }"]');
    session.handle('["reduce",["function(k,v){ return sum(v) }"],[[["a","b"],1]]]');
    session.handle('["map_doc",{"a":1}]');
    const before = times;
    session.handle('["add_fun","throw new Error(\\"x\\"); for (;;) ; "]');

    expect(before).toBe(0);
    expect(times).toBe(1);
  });

  test("for map, reduce and design document functions alike", () => {
    const loop = "function(){ while (true) { break } }";
    expect(told(["add_fun", loop], ["add_fun", loop])).toBe(1);
    expect(told(["reduce", [loop], []])).toBe(1);
    expect(
      told(
        ["ddoc", "new", "_design/t", { shows: { s: loop } }],
        ["ddoc", "_design/t", ["shows", "s"], [{}, {}]],
      ),
    ).toBe(1);
  });
});
