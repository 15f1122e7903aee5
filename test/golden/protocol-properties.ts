// What must hold where a protocol case says it in words: for both ways of answering, and for the session and the program alike.

import { expect } from "@jest/globals";

/** What a server said. */
export interface Told {
  readonly mode: "stock" | "lenient";
  /** Its lines, parsed. */
  readonly lines: readonly unknown[];
  readonly exit: unknown;
  readonly stderr: string;
}

const LOG = ["log", expect.any(String)];
const LOG_OF_X = ["log", expect.stringContaining("doc._id x")];

/** Emits what has no JSON: the engines fail the command, we can do with skipping the document. */
function unprintable(emptied: readonly string[]) {
  return ({ mode, lines, exit }: Told): void => {
    const skipped = mode === "lenient";
    expect(lines).toEqual([
      true,
      true,
      ...emptied.flatMap((id) =>
        skipped
          ? [["log", expect.stringContaining(`doc._id ${id}`)], [[]]]
          : [["error", "TypeError", {}]],
      ),
      true,
    ]);
    expect(exit).toBe(0);
  };
}

export const protocolProperties: Readonly<Record<string, (told: Told) => void>> = {
  "p-blank-line": ({ lines, exit, stderr }) => {
    expect({ lines, exit, stderr }).toEqual({ lines: [true], exit: 0, stderr: "" });
  },

  "p-invalid-json": ({ mode, lines, exit, stderr }) => {
    const clear = ["error", "invalid_json", expect.any(String)];
    expect(lines).toEqual(mode === "stock" ? [true] : [true, clear]);
    expect(exit).toBe(1);
    expect(stderr).toContain('not JSON: ["map_doc", {bad');
  },

  "p-not-an-array": ({ lines, exit }) => {
    expect(lines).toEqual([true, ["error", "TypeError", {}], true]);
    expect(exit).toBe(0);
  },

  "p-add-fun-syntax": ({ lines, exit }) => {
    const source = expect.stringContaining("function(doc){ emit(");
    expect(lines).toEqual([true, ["error", "compilation_error", source], true, [[["a", 1]]]]);
    expect(exit).toBe(0);
  },

  "p-throw-null": ({ mode, lines, exit }) => {
    const skipped = [["log", expect.stringContaining("null")], [[]]];
    const failed = [["error", "TypeError", {}]];
    expect(lines).toEqual([true, true, ...(mode === "lenient" ? skipped : failed), true]);
    expect(exit).toBe(0);
  },

  "p-throw-fatal-array": ({ lines, exit }) => {
    expect(lines).toEqual([true, true, ["error", "my_key", "my reason"]]);
    expect(exit).toBe(255);
  },

  "p-cyclic": unprintable(["x", "y"]),
  "p-bigint": unprintable(["x"]),

  "p-recursion": ({ lines, exit }) => {
    expect(lines).toEqual([true, true, LOG_OF_X, [[]], [[[1, 1]]]]);
    expect(exit).toBe(0);
  },

  "p-invalid-utf8-in": ({ lines }) => {
    expect(lines).toEqual([true, true, [[[4, "a\ufffd\ufffdb"]]], true]);
  },

  "p-reduce-null-results": ({ lines }) => {
    expect(lines).toEqual([true, LOG, [true, [null, null, null, 1]]]);
  },

  "p-reduce-limit-on": ({ lines }) => {
    const sizes = expect.stringMatching(/input size: 10487 output size: 6193/);
    const passed = Array.from({ length: 20 }, (_, i) => `payload number ${i}`);
    expect(lines).toEqual([true, ["error", "reduce_overflow_error", sizes], [true, [passed]]]);
  },

  "p-lib-missing": ({ lines }) => {
    expect(lines).toEqual([true, true, LOG_OF_X, [[]], true]);
  },

  "p-lib-reset-clears": ({ lines }) => {
    expect(lines).toEqual([true, true, true, true, LOG_OF_X, [[]]]);
  },

  "p-globals-isolated-by-reset": ({ lines }) => {
    const [, , x, y, , , z] = lines;
    expect(lines).toHaveLength(7);
    expect([x, y, z]).toEqual([[[[1, 1]]], [[[2, 1]]], [[["undefined", 1]]]]);
  },

  "p-sandbox-globals": ({ lines }) => {
    const absent = "undefined";
    const seen = [absent, absent, absent, absent, "object", absent, absent];
    // The realms have no promises: nothing could wait for them.
    const there = ["function", "function", absent, "function", "function"];
    expect(lines).toEqual([true, true, [[[[...seen, ...there], 1]]]]);
  },

  "p-sandbox-tamper": ({ lines }) => {
    expect(lines).toEqual([true, true, [[["k", 1]]], [[["k", 1]]]]);
  },

  "p-getrow-in-map": ({ lines }) => {
    expect(lines).toEqual([true, true, LOG, [[]], true]);
  },

  "p-many-emits": ({ lines }) => {
    expect(lines).toEqual([true, true, [Array.from({ length: 100_000 }, (_, i) => [i, null])]]);
  },

  "p-ddoc-unknown": ({ lines, exit }) => {
    const text = "uncached design doc: _design/none";
    expect(lines).toEqual([true, ["error", "query_protocol_error", text]]);
    expect(exit).toBe(255);
  },

  "p-ddoc-missing-function": ({ lines, exit }) => {
    const error = ["error", "TypeError", expect.anything()];
    expect(lines).toEqual([true, true, error, error, true]);
    expect(exit).toBe(0);
  },
};
