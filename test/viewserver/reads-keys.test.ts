// Whether a reduce function looks at keys. To say yes is slow; to say no of one that does is wrong.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { readsKeys, Session } from "../../viewserver/index.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 500);

const WITHOUT_KEYS = [
  "function (keys, values, rereduce) { return sum(values) }",
  "function (keys, values) { var t = 0; for (var i = 0; i < values.length; i++) t += values[i]; return t }",
  "function (k, v, r) { if (r) return sum(v); return v.length }",
  "(keys, values, rereduce) => rereduce ? sum(values) : values.length",
  "function reduce(keys, values) { return Math.max.apply(null, values) }",
  "function (keys, values) { return values.reduce(function (a, b) { return a + b }, 0) }",
  "function (keys, values) { function f(keys) { return keys + 1 } return f(values.length) }",
  "function (keys, values) { return values.map(function (keys) { return keys }).length }",
  "function (keys, values) { var o = { keys: 1 }; return o.keys + values.length }",
  "function (keys, values) { var m = {}; for (var v of values) m[v] = (m[v] || 0) + 1; return m }",
  "function () { return 1 }",
  "function (keys, values) { return values.sort()[0] }",
];

const WITH_KEYS = [
  "function (keys, values) { return keys.length }",
  "function (keys, values) { return keys === null ? sum(values) : values.length }",
  "function (keys, values) { return typeof keys }",
  "function (keys, values) { return !keys }",
  "function (keys, values) { return sum(keys) }",
  "function (keys, values) { var f = function () { return keys }; return f() }",
  "function (keys, values = keys) { return values }",
  "function (keys, values, rereduce, n = keys.length) { return n }",
  "function (keys, keys) { return keys }",
  "function (...all) { return all[0] }",
  "function ([first], values) { return first }",
  "function (keys = 1, values) { return 1 }",
  "function (keys, values) { return arguments[0] }",
  "function (keys, values) { return arguments.length }",
  "function (keys, values) { keys = values; return 1 }",
  "function (keys, values) { var keys; return keys }",
  "function (keys, values) { return { keys } }",
  "function (keys, values) { return eval('keys') }",
  "function (keys, values) { return new Function('return 1')() }",
  "function (keys, values) { return (function () { return eval }()('keys')) }",
  "function r(keys, values) { return r.arguments[0] }",
  "function r(keys, values) { var x = 'argu' + 'ments'; return r[x][0] }",
  "function (keys, values) { var x = 'call' + 'er'; function g() { return g[x] } return g() }",
  "function (keys, values) { with (values) { return 1 } }",
  "function (keys, values) { return this.keys }",
  "var n = 0; function f(keys, values) { return n++ }",
  "function (keys, values) { return unknown(values) }",
  "function (keys, values) { return values.constructor.constructor('return 1')() }",
  "function (",
  "_sum",
];

describe("a reduce function", () => {
  test.each(WITHOUT_KEYS)("that never looks at keys: %s", (source) => {
    expect(readsKeys(source)).toBe(false);
  });

  test.each(WITH_KEYS)("that may look at keys: %s", (source) => {
    expect(readsKeys(source)).toBe(true);
  });

  test("that never looks at keys answers the same without them", () => {
    const rows = fc.array(fc.tuple(fc.tuple(fc.jsonValue(), fc.string()), fc.jsonValue()));
    const sessions = WITHOUT_KEYS.map((source) => ({ source, session: new Session() }));
    fc.assert(
      fc.property(rows, fc.constantFrom(...sessions), (list, { source, session }) => {
        const without = list.map(([, value]) => [null, value]);
        expect(session.reduce([source], JSON.stringify(without))).toEqual(
          session.reduce([source], JSON.stringify(list)),
        );
      }),
      { numRuns: 100 },
    );
  });

  test("put together at random: what is said not to look at keys does not touch them", () => {
    let proved = 0;
    fc.assert(
      fc.property(functions, (source) => {
        if (readsKeys(source)) return;
        proved++;
        const [touched, withKeys] = run(source, true);
        expect(touched).toBe(false);
        expect(withKeys).toEqual(run(source, false)[1]);
      }),
      { numRuns: RUNS },
    );
    expect(proved).toBeGreaterThan(RUNS / 20);
  });
});

/** Expressions and statements with and without ways to `keys`. */
const expression = fc.letrec<{ e: string }>((tie) => ({
  e: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(
      "values",
      "values.length",
      "0",
      "rereduce",
      "x",
      "o",
      "'a'",
      "[]",
      "{ keys: 1 }.keys",
    ),
    fc.constantFrom("keys", "arguments", "f", "r", "g"),
    fc.constantFrom("'argu' + 'ments'", "'call' + 'er'"),
    tie("e").map((e) => `sum(${e})`),
    tie("e").map((e) => `f(${e})`),
    tie("e").map((e) => `g(${e})`),
    tie("e").map((e) => `[].concat(${e})`),
    tie("e").map((e) => `[1].map(${e})`),
    tie("e").map((e) => `values.map(function (keys) { return ${e} })`),
    tie("e").map((e) => `(function (a) { return ${e} })(values)`),
    tie("e").map((e) => `(() => ${e})()`),
    tie("e").map((e) => `(x = ${e})`),
    tie("e").map((e) => `(o.k = ${e})`),
    tie("e").map((e) => `typeof ${e}`),
    fc.tuple(tie("e"), tie("e")).map(([a, b]) => `(${a})[${b}]`),
    fc.tuple(tie("e"), tie("e")).map(([a, b]) => `((${a}) || (${b}))`),
    fc.tuple(tie("e"), tie("e")).map(([a, b]) => `[${a}, ${b}]`),
  ),
})).e;

const functions = fc
  .record({
    name: fc.constantFrom("", "r", "keys"),
    parameters: fc.constantFrom(
      "keys, values, rereduce",
      "keys, values",
      "",
      "keys, values = keys",
      "_, values, rereduce",
      "values, keys",
    ),
    body: fc.array(
      fc.oneof(
        expression.map((e) => `x = ${e};`),
        expression.map((e) => `var y = ${e};`),
        expression.map((e) => `if (${e}) return ${e};`),
        expression.map((e) => `function f(a) { return ${e} }`),
        expression.map((e) => `var g = function (keys) { return ${e} };`),
        expression.map((e) => `var f = ${e};`),
        expression.map((e) => `{ let keys = ${e}; x = keys; }`),
        expression.map((e) => `for (var k in ${e}) x = k;`),
      ),
      { maxLength: 4 },
    ),
    last: expression,
  })
  .map(
    ({ name, parameters, body, last }) =>
      `function ${name}(${parameters}) { var x = 1, o = {}; ${body.join(" ")} return ${last} }`,
  );

/** Calls the function with keys that notice when they are looked at, or without any. */
function run(source: string, withKeys: boolean): [touched: boolean, result: unknown] {
  let touched = false;
  const notice = (): never => {
    touched = true;
    throw new Error("touched");
  };
  const traps = Object.fromEntries(
    Object.getOwnPropertyNames(Reflect).map((name) => [name, notice]),
  ) as ProxyHandler<object>;
  const keys = withKeys ? new Proxy([], traps) : null;
  const values = [3, 1, 2];
  let result: unknown;
  let text: string | undefined;
  try {
    // eslint-disable-next-line @typescript-eslint/no-implied-eval -- functions made here, sloppy as those of views are
    const make = new Function("sum", `return (${source})`) as (
      sum: (list: unknown) => unknown,
    ) => (keys: unknown, values: unknown, rereduce: boolean) => unknown;
    result = make((list) => (Array.isArray(list) ? list.length : 0))(keys, values, false);
    // Handed out whole, keys would be printed.
    text = JSON.stringify(result);
  } catch (error) {
    text = (error as Error).name;
  }
  return [touched, text];
}
