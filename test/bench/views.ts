// The design documents that the benches build, and what a naive computation over a file says they must contain.

import { crc32 } from "node:zlib";

import { readLines } from "./lines.js";

/** A design document of the benches by its short name. */
export type Kind = "one" | "sum" | "js" | "three";

interface View {
  readonly map: string;
  readonly reduce: string;
}

export const KINDS: Readonly<Record<Kind, Readonly<Record<string, View>>>> = {
  one: { by_user: { map: "function (doc) { emit(doc.user, 1) }", reduce: "_count" } },
  sum: { by_user: { map: "function (doc) { emit(doc.user, 1) }", reduce: "_sum" } },
  js: {
    by_user: {
      map: "function (doc) { emit(doc.user, 1) }",
      reduce: "function (keys, values, rereduce) { return sum(values) }",
    },
  },
  three: {
    spent: { map: "function (doc) { emit(doc.user, doc.amount) }", reduce: "_sum" },
    by_time: { map: "function (doc) { emit(doc.ts, null) }", reduce: "_count" },
    by_tag: {
      map: "function (doc) { for (var i = 0; i < doc.tags.length; i++) emit(doc.tags[i], doc.amount) }",
      reduce: "_stats",
    },
  },
};

export function designDocument(kind: Kind): {
  readonly _id: string;
  readonly views: Readonly<Record<string, View>>;
} {
  return { _id: `_design/${kind}`, views: KINDS[kind] };
}

interface BenchDocument {
  readonly _id: string;
  readonly user: string;
  readonly ts: readonly number[];
  readonly amount: number;
  readonly tags: readonly string[];
}

type Emit = (key: unknown, value: unknown) => void;

/** The same maps, written by hand. */
const MAPS: Readonly<Record<string, (doc: BenchDocument, emit: Emit) => void>> = {
  by_user: (doc, emit) => {
    emit(doc.user, 1);
  },
  spent: (doc, emit) => {
    emit(doc.user, doc.amount);
  },
  by_time: (doc, emit) => {
    emit(doc.ts, null);
  },
  by_tag: (doc, emit) => {
    for (const tag of doc.tags) emit(tag, doc.amount);
  },
};

/** What a view holds: how many rows, a sum over them that does not depend on their order, and what every key reduces to. */
export interface ViewContent {
  rows: number;
  digest: number;
  /** Key JSON → numbers of the group: rows, sum, least, greatest, sum of squares. */
  readonly groups: Map<string, number[]>;
}

export interface Expected {
  readonly documents: number;
  readonly views: Readonly<Record<string, ViewContent>>;
  /** Bytes of key, id and value JSON of every row, plus id JSON and keys JSON (without punctuation) of every document with rows. */
  readonly dataBytes: number;
}

export function emptyContent(): ViewContent {
  return { rows: 0, digest: 0, groups: new Map() };
}

/** Adds a row to what a view holds. */
export function addRow(content: ViewContent, id: string, keyText: string, valueText: string): void {
  content.rows++;
  content.digest = (content.digest + crc32(`${keyText}\t${id}\t${valueText}`)) % 2 ** 48;
}

function addToGroup(content: ViewContent, keyText: string, value: number): void {
  const group = content.groups.get(keyText);
  if (group === undefined) {
    content.groups.set(keyText, [1, value, value, value, value * value]);
    return;
  }
  group[0] = (group[0] as number) + 1;
  group[1] = (group[1] as number) + value;
  group[2] = Math.min(group[2] as number, value);
  group[3] = Math.max(group[3] as number, value);
  group[4] = (group[4] as number) + value * value;
}

/** Parses the file line by line and computes everything in plain arrays and maps. Of a repeated id the last line counts. */
export function expectedOf(
  path: string,
  kind: Kind,
  latest?: ReadonlyMap<string, string>,
): Expected {
  const names = Object.keys(KINDS[kind]);
  const views: Record<string, ViewContent> = Object.fromEntries(
    names.map((name) => [name, emptyContent()]),
  );
  let documents = 0;
  let dataBytes = 0;
  for (const text of readLines(path)) {
    const row = JSON.parse(text) as
      BenchDocument | { readonly id: string; readonly doc: BenchDocument };
    let doc = "doc" in row ? row.doc : row;
    const newer = latest?.get(doc._id);
    if (newer !== undefined) doc = JSON.parse(newer) as BenchDocument;
    documents++;
    const idBytes = doc._id.length + 2;
    let keyBytes = 0;
    for (const name of names) {
      const content = views[name] as ViewContent;
      const seen = new Set<string>();
      MAPS[name]?.(doc, (key, value) => {
        const keyText = JSON.stringify(key);
        const valueText = JSON.stringify(value);
        addRow(content, doc._id, keyText, valueText);
        addToGroup(content, keyText, typeof value === "number" ? value : 1);
        dataBytes += Buffer.byteLength(keyText) + idBytes + valueText.length;
        if (!seen.has(keyText)) keyBytes += Buffer.byteLength(keyText);
        seen.add(keyText);
      });
    }
    if (keyBytes > 0) dataBytes += idBytes + keyBytes;
  }
  return { documents, views, dataBytes };
}

/** What a group must reduce to, as CouchDB prints it. */
export function reductionOf(reduce: string, group: readonly number[]): unknown {
  const [count = 0, sum = 0, min = 0, max = 0, sumsqr = 0] = group;
  if (reduce === "_count") return count;
  return reduce === "_stats" ? { sum, count, min, max, sumsqr } : sum;
}

/** Equal, but for the last digits of sums of fractions, which depend on the order of adding. */
export function nearlyEqual(a: unknown, b: unknown): boolean {
  if (typeof a === "number" && typeof b === "number")
    return Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => nearlyEqual(left[key], right[key]))
  );
}
