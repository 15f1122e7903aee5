// Answers recorded from a running CouchDB, and how they are compared: numbers to 12 significant digits, member order ignored except
// inside `key`.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { fixturePath } from "./fixtures.js";

export interface GoldenQuery {
  readonly ddoc: string;
  readonly view: string;
  /** Query string, encoded. */
  readonly query: string;
  readonly body?: unknown;
  readonly status: number;
  readonly answer: unknown;
}

export interface GoldenStep {
  readonly changes: readonly unknown[];
  readonly queries: readonly GoldenQuery[];
}

export interface GoldenCase {
  readonly name: string;
  readonly steps: readonly GoldenStep[];
}

export function goldenViewCases(): GoldenCase[] {
  const dir = fixturePath("golden/views");
  return readdirSync(dir)
    .sort()
    .map((file) => ({
      name: file.replace(/\.json$/, ""),
      ...(JSON.parse(readFileSync(join(dir, file), "utf8")) as { steps: GoldenStep[] }),
    }));
}

/** Equal as JSON values. A recorded `"<text>"` stands for any text. */
export function sameAnswer(a: unknown, b: unknown, ordered = false): boolean {
  if (a === "<text>") return typeof b === "string" && b !== "";
  if (typeof a === "number" && typeof b === "number")
    return a === b || Math.abs(a - b) <= 1e-11 * Math.max(Math.abs(a), Math.abs(b));
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((x, i) => sameAnswer(x, b[i], ordered));
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  const names = Object.keys(left);
  const others = Object.keys(right);
  if (names.length !== others.length) return false;
  if (ordered && names.some((name, i) => name !== others[i])) return false;
  return names.every(
    (name) => name in right && sameAnswer(left[name], right[name], ordered || name === "key"),
  );
}
