// Map functions that use up time or memory, or make their own rows unprintable.
import type { Attack } from "./attacks.js";

export interface Bomb extends Attack {
  /** What it costs in a view server: the rows of its document and function, the process it runs in, or time until it is killed from outside. */
  readonly here: "document" | "process" | "time";
}

const kills = (name: string, body: string): Bomb => ({
  name,
  body,
  naive: "kills",
  here: "document",
});
const aborts = (name: string, body: string, here: Bomb["here"] = "process"): Bomb => ({
  name,
  body,
  naive: "aborts",
  here,
});
const hangs = (name: string, body: string): Bomb => ({ name, body, naive: "hangs", here: "time" });

export const bombs: readonly Bomb[] = [
  kills("a string beyond V8's limit", 'var s = "x"; while (true) s += s;'),
  kills("a string of many repetitions", '"x".repeat(1e9);'),
  kills("an array of a length that cannot be", "new Array(-1);"),
  kills("a buffer that cannot be", "new ArrayBuffer(1e15);"),
  kills("recursion without end", "(function f() { f(); })();"),
  kills(
    "an array nested deeper than the stack",
    "var a = []; for (var i = 0; i < 1e5; i++) a = [a]; emit(a, 1);",
  ),
  kills("a cycle", "var o = {}; o.o = o; emit(o, 1);"),
  kills("a number that JSON does not know", "emit(1n, 1);"),
  kills("a getter that calls itself", "emit({ get a() { return this.a; } }, 1);"),
  kills("a getter that throws", "emit({ get a() { throw 1; } }, 1);"),
  kills(
    "a toJSON that calls itself",
    "var o = { toJSON: function () { return JSON.stringify(o); } }; emit(o, 1);",
  ),
  kills("a toJSON that throws", "emit({ toJSON: function () { throw 1; } }, 1);"),
  kills(
    "a proxy that throws when it is printed",
    "emit(new Proxy({}, { ownKeys: function () { throw new Error('no'); } }), 1);",
  ),
  kills("JSON text that cannot be parsed", 'JSON.parse("[".repeat(1e6));'),
  kills(
    "an exception that cannot be described",
    "throw new Proxy({}, { get: function () { throw 1; } });",
  ),
  aborts("rows without end", "for (var i = 0; ; i++) emit([i, i, i, i], null);", "document"),
  aborts(
    "rows without end, errors swallowed",
    "for (var i = 0; i < 1e9; i++) try { emit([i, i, i, i], null); } catch (e) { if (i > 1e6) break; }",
    "document",
  ),
  aborts(
    "arrays that fill the heap",
    "var a = []; while (true) a.push(new Array(1e5).fill(a.length));",
  ),
  aborts("rows that double", "var a = [1]; while (true) a = [a, a, new Array(1e5).fill(1)];"),
  aborts(
    "a Map that fills the heap",
    "var m = new Map(); for (var i = 0; ; i++) m.set(i, new Array(1e5).fill(i));",
  ),
  hangs("an endless loop", "while (true) ;"),
  hangs("a regular expression that backtracks for ever", '/^(a+)+$/.test("a".repeat(60) + "b");'),
  hangs(
    "a proxy without end",
    "var p = new Proxy({}, { getPrototypeOf: function () { return p; } }); while (p = Object.getPrototypeOf(p)) ;",
  ),
];
