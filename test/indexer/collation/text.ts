// What the collation tests share: the oracle, code points that this Node and our table both know, and JSON trees with a naive order.
import fc from "fast-check";
import { KeyEncoder, ByteBuffer, type CollationKind } from "../../../indexer/collation/index.js";
import { collation } from "../../../indexer/collation/versions.js";

/** As VIEWS §6 wants it: root order, all defaults. */
export const intl = new Intl.Collator("en", {
  usage: "sort",
  sensitivity: "variant",
  ignorePunctuation: false,
  numeric: false,
  caseFirst: "false",
});

const encoders = { root: new KeyEncoder("root"), raw: new KeyEncoder("raw") };

/** The key of canonical JSON text, and that it was consumed whole. */
export function keyOf(kind: CollationKind, json: string): Uint8Array {
  const src = Buffer.from(json);
  const sink = new ByteBuffer(16);
  const end = encoders[kind].encode(src, 0, sink);
  if (end !== src.length) throw new Error(`consumed ${end} of ${src.length} bytes of ${json}`);
  return sink.take();
}

export function stringKey(text: string): Uint8Array {
  return keyOf("root", JSON.stringify(text));
}

/** Code points that have a place of their own in our table, and that this Node knows too. In the order of our keys. */
export function knownCodePoints(): {
  readonly point: number;
  readonly text: string;
  readonly key: Uint8Array;
}[] {
  const { table } = collation(1);
  const unassignedLead = table.implicitPrimary(0x10ffff) >>> 24;
  const known: { point: number; text: string; key: Uint8Array }[] = [];
  for (let point = 0; point < 0x110000; point++) {
    if (point >= 0xd800 && point < 0xe000) continue;
    const text = String.fromCodePoint(point);
    if (/\p{Cn}/u.test(text)) continue;
    const listed =
      table.sequenceOf(point) >= 0 || (point >= 0xac00 && point <= 0xd7a3) || /\p{Co}/u.test(text);
    if (listed || table.implicitPrimary(point) >>> 24 < unassignedLead)
      known.push({ point, text, key: stringKey(text) });
  }
  return known.sort((a, b) => Buffer.compare(a.key, b.key));
}

/** A JSON value that keeps member order and repeats. */
export type Tree =
  | null
  | boolean
  | number
  | string
  | Tree[]
  | { readonly members: readonly (readonly [string, Tree])[] };

export function printed(tree: Tree): string {
  if (Array.isArray(tree)) return `[${tree.map(printed).join(",")}]`;
  if (tree !== null && typeof tree === "object") {
    return `{${tree.members.map(([name, value]) => `${JSON.stringify(name)}:${printed(value)}`).join(",")}}`;
  }
  return JSON.stringify(tree);
}

/** Any JSON value; strings are made of `characters`. */
export function trees(characters: readonly string[]): fc.Arbitrary<Tree> {
  const text = fc.string({ unit: fc.constantFrom(...characters), maxLength: 5 });
  const scalar = fc.oneof(
    fc.constantFrom(null, false, true, 0, 1, -1, 10, 255, 256, 0.5, -0.5, 1e21, 5e-324),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer(),
    text,
  );
  return fc.letrec<{ tree: Tree }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      scalar,
      fc.array(tie("tree"), { maxLength: 4 }),
      fc
        .uniqueArray(fc.tuple(text, tie("tree")), { maxLength: 4, selector: ([name]) => name })
        .map((members) => ({ members })),
    ),
  })).tree;
}

/** VIEWS §6 by the book. */
export function compareTrees(kind: CollationKind, a: Tree, b: Tree): number {
  const byType = typeRank(kind, a) - typeRank(kind, b);
  if (byType !== 0) return Math.sign(byType);
  if (typeof a === "number" && typeof b === "number") return Math.sign(a - b);
  if (typeof a === "string" && typeof b === "string") {
    return kind === "root"
      ? Math.sign(intl.compare(a, b))
      : Buffer.compare(Buffer.from(a), Buffer.from(b));
  }
  const left = parts(a);
  const right = parts(b);
  for (let i = 0; i < left.length && i < right.length; i++) {
    const order = compareTrees(kind, left[i] as Tree, right[i] as Tree);
    if (order !== 0) return order;
  }
  return Math.sign(left.length - right.length);
}

/** Elements, or names and values in turn. */
function parts(tree: Tree): readonly Tree[] {
  if (Array.isArray(tree)) return tree;
  return tree !== null && typeof tree === "object" ? tree.members.flat() : [];
}

function typeRank(kind: CollationKind, tree: Tree): number {
  let type: string = typeof tree;
  if (tree === null || tree === false || tree === true) type = String(tree);
  else if (Array.isArray(tree)) type = "array";
  const order =
    kind === "root"
      ? ["null", "false", "true", "number", "string", "array", "object"]
      : ["number", "false", "null", "true", "object", "array", "string"];
  return order.indexOf(type);
}

/** Runs of a property test: few by default, TEST_RUNS raises. */
export const RUNS = Number(process.env["TEST_RUNS"] ?? 1000);
