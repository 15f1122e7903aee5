// Random, mutated and malicious lines for the tests that feed them to a session and to the program.

/** How many lines one run is worth, and where its randomness starts. */
export const LINES = Number(process.env["TEST_LINES"] ?? 50_000);
export const SEED = Number(process.env["TEST_SEED"] ?? 20_241_130);

export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }
  /** 0 … n - 1. */
  below(n: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * n);
  }
  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

export const FUNCTIONS = [
  "function(doc){ emit(doc.a, doc.b) }",
  "function(doc){ for (var k in doc) emit(k, doc[k]); log(doc) }",
  "function(doc){ doc.a = 1; emit(doc, [doc]) }",
  "function(doc){ throw doc.a }",
  "function(doc){ throw ['error', 'a'] }",
  "function(doc){ emit(require('views/lib/m').v, 1) }",
  "function(doc){ log('a\\nb'); log('[\"log\",\"x\"]'); emit() }",
  "function(doc){ emit(1, { toJSON: function () { return doc.a } }) }",
  "function(doc){",
  "function(){ return arguments.length }",
  "async function(doc){}",
  "1",
];

const COMMANDS: readonly unknown[] = [
  ["map_doc", { _id: "x", a: 1, b: [1, { c: null }] }],
  ["map_doc", { _id: "é\u2028", a: "fatal_error" }],
  ["map_doc", null],
  ["map_doc", 5],
  ["map_doc"],
  ["map_doc", { a: ["x"] }, 7],
  ["reduce", ["function(k, v) { return sum(v) }"], [[["a", "b"], 1]]],
  ["reduce", ["function(k, v) { return sum(v) }"], [1, null]],
  ["reduce", "x", {}],
  ["reduce"],
  ["rereduce", ["function(k, v) { return v }"], [1, [2]], "db/_design/d/_view/v"],
  ["rereduce", [null], []],
  ["add_lib", { m: "exports.v = 1" }],
  ["add_lib", 3],
  ["add_fun", null],
  [
    "ddoc",
    "new",
    "_design/t",
    { shows: { s: "function(d, r){ return d }" }, filters: { f: "function(d){ return d.a }" } },
  ],
  ["ddoc", "_design/t", ["shows", "s"], [{ a: 1 }, {}]],
  ["ddoc", "_design/t", ["filters", "f"], [[{ a: 1 }, { a: 0 }], {}]],
  ["ddoc", "_design/t", ["filters", "f"], [null]],
  ["ddoc", "_design/t", ["shows"], []],
  ["ddoc", "_design/t", ["updates", "s"], []],
  ["ddoc", "_design/t", "shows", 1],
  ["ddoc", "_design/t"],
  ["ddoc", "_design/none", ["shows", "s"], []],
  ["ddoc"],
  ["ddoc", "new"],
  ["reset", { reduce_limit: true, reduce_limit_threshold: 10, reduce_limit_ratio: 2 }],
  ["reset", null],
  ["list_row", {}],
  ["list_end"],
  ["log", "x"],
  [null],
  [[]],
  [],
  {},
  "x",
  7,
  null,
  true,
];

export function randomValue(r: Random, depth: number): unknown {
  switch (r.below(depth > 3 ? 5 : 8)) {
    case 0:
      return null;
    case 1:
      return r.below(2) === 1;
    case 2:
      return r.of([0, -0, 1, -1.5, 1e21, 2 ** 53 + 1, 1e-7]);
    case 3:
    case 4:
      return r.of([
        "",
        "a",
        "map_doc",
        "\u0000",
        "\ud800",
        "😀",
        "\u2028",
        "__proto__",
        "constructor",
        "fatal",
        "error",
        "x".repeat(500),
      ]);
    case 5:
      return Array.from({ length: r.below(4) }, () => randomValue(r, depth + 1));
    default: {
      const o: Record<string, unknown> = {};
      for (let i = r.below(4); i > 0; i--) {
        Object.defineProperty(
          o,
          r.of(["_id", "a", "b", "__proto__", "toJSON", "constructor", "length", "0"]),
          {
            value: randomValue(r, depth + 1),
            enumerable: true,
            configurable: true,
          },
        );
      }
      return o;
    }
  }
}

export function randomLine(r: Random): string {
  const kind = r.below(100);
  if (kind < 2) return '["reset"]';
  if (kind < 4) return JSON.stringify(["add_fun", r.of(FUNCTIONS)]);
  if (kind < 50) return JSON.stringify(["map_doc", randomValue(r, 0)]);
  let line = JSON.stringify(r.of(COMMANDS));
  if (kind < 75) return line;
  // Mutations: a character dropped, doubled, replaced, or the end cut off.
  for (let n = 1 + r.below(3); n > 0 && line.length > 1; n--) {
    const at = r.below(line.length);
    switch (r.below(4)) {
      case 0:
        line = line.slice(0, at) + line.slice(at + 1);
        break;
      case 1:
        line = line.slice(0, at) + line.charAt(at) + line.slice(at);
        break;
      case 2:
        line =
          line.slice(0, at) +
          r.of(['"', "[", "]", "{", "}", ",", ":", "\\", "\u0000", "0", " ", "é"]) +
          line.slice(at + 1);
        break;
      default:
        line = line.slice(0, at + 1);
    }
  }
  return line;
}
