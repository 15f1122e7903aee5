// Encoding many replies at once must do with each exactly what encoding it by itself does.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { EntryBatch } from "../../../btree/index.js";
import {
  ChunkEncoder,
  emptyRef,
  NO_FAILURES,
  refTo,
} from "../../../indexer/mapping/chunk-encoder.js";
import { ReplyEncoder } from "../../../indexer/mapping/reply-encoder.js";
import { ReplyKernel } from "../../../indexer/mapping/reply-kernel.js";
import type {
  DocumentColumns,
  EntrySet,
  GroupConfig,
  GroupSegments,
} from "../../../indexer/mapping/types.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 300);

function configOf(views: number): GroupConfig {
  const each = <T>(value: T): T[] => new Array<T>(views).fill(value);
  return {
    key: `test-${views}`,
    strict: false,
    lib: undefined,
    maps: each("function (doc) {}"),
    collations: each("root" as const),
    collationVersion: 1,
    reduces: each([]),
    labels: each("test/view"),
    includeDesign: false,
    partitioned: false,
    partitionedIds: false,
    limits: { reduceLimit: true, threshold: 5000, ratio: 2 },
  };
}

function columns(ids: readonly string[]): DocumentColumns {
  const texts = ids.map((id) => Buffer.from(id));
  const idStart = new Uint32Array(ids.length);
  const idEnd = new Uint32Array(ids.length);
  let at = 3;
  for (const [i, text] of texts.entries()) {
    idStart[i] = at;
    at += text.length;
    idEnd[i] = at;
  }
  return {
    ids: Buffer.concat([Buffer.from("---"), ...texts]),
    idStart,
    idEnd,
    hashLow: Uint32Array.from(ids, (_, i) => 0xfedc_ba98 - i),
    hashHigh: Uint32Array.from(ids, (_, i) => 0x7654_3210 + i),
  };
}

const ORDINAL_BASE = 2 ** 40;

function oneByOne(config: GroupConfig, documents: DocumentColumns, replies: readonly string[]) {
  const encoder = new ChunkEncoder(config);
  const ref = emptyRef();
  const src = Buffer.from(replies.map((reply) => `${reply}\n`).join(""));
  let start = 0;
  for (const i of replies.keys()) {
    refTo(ref, documents, i, ORDINAL_BASE);
    start = encoder.addMapped(ref, src, start, NO_FAILURES) + 1;
  }
  return content(encoder.finish({ kind: "memory" }, ORDINAL_BASE));
}

/** @param loaded - the replies go to the kernel as text, as those of a thread's own session do. */
function together(
  config: GroupConfig,
  documents: DocumentColumns,
  replies: readonly string[],
  loaded: boolean,
) {
  const encoder = new ChunkEncoder(config);
  const replyEncoder = new ReplyEncoder(encoder, config);
  const text = replies.map((reply) => `${reply}\n`).join("");
  const src = loaded ? replyEncoder.load(text) : Buffer.from(text);
  const positions = [...replies.keys()];
  replyEncoder.add(src, 0, {
    documents,
    positions,
    from: 0,
    to: replies.length,
    ordinalBase: ORDINAL_BASE,
  });
  return content(encoder.finish({ kind: "memory" }, ORDINAL_BASE));
}

function content(segments: GroupSegments) {
  const { mapped, failed, rows } = segments;
  return {
    mapped,
    failed,
    rows,
    ids: entries(segments.ids),
    errors: entries(segments.errors),
    views: segments.views.map(entries),
  };
}

function entries(set: EntrySet | undefined): string[] {
  if (!set) return [];
  if (!("spans" in set)) throw new Error("a segment where entries in memory were asked for");
  const batch = new EntryBatch();
  batch.import(set);
  return Array.from({ length: batch.length }, (_, i) => {
    const hex = (from: number, to: number): string =>
      Buffer.from(batch.bytes.subarray(from, to)).toString("hex");
    return [
      batch.ordinal(i) - ORDINAL_BASE,
      batch.flags(i),
      hex(batch.keyStart(i), batch.keyEnd(i)),
      hex(batch.valueStart(i), batch.valueEnd(i)),
    ].join(" ");
  });
}

/** How many of the replies the kernel takes before it leaves one to JavaScript. */
function takenByKernel(
  config: GroupConfig,
  documents: DocumentColumns,
  replies: readonly string[],
): number {
  const kernel = ReplyKernel.create(config);
  if (!kernel) throw new Error("there is no kernel: run `npm run build` first");
  const src = kernel.load(replies.map((reply) => `${reply}\n`).join(""));
  if (!src) throw new Error("the replies have no room in the kernel");
  const to = replies.length;
  const positions = [...replies.keys()];
  return kernel.encode(
    { src, start: 0 },
    { documents, positions, from: 0, to, ordinalBase: ORDINAL_BASE },
    { ids: new EntryBatch(), views: config.maps.map(() => new EntryBatch()) },
  );
}

const pieces = fc.constantFrom(
  ...'{}[],:" \\0123456789.-+eEaZ'.split(""),
  '"a":',
  '"\\u0061"',
  '"\\n"',
  '"\\""',
  '"\\\\"',
  "true",
  "fals",
  "null",
  "é",
  "\u0001",
);
const plainText = fc.string({
  unit: fc.constantFrom("a", "b", "z", "X", "Y", " ", "0", "9", "-", "_", "~", "/", "'", '"', "\\"),
  maxLength: 40,
});
const numbers = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer({ min: -1e6, max: 1e6 }).map((n) => n / 100),
  fc.constantFrom(0, -0, 1e15, 1e14, 999999999999999, 0.000001, 9e-7, 123456789012, 1e21, 2 ** 53),
);
const scalars = fc.oneof(
  numbers,
  plainText,
  fc.constantFrom(null, true, false, "", "É", "日本", "a\nb"),
);
const values = fc.oneof(
  scalars,
  fc.array(scalars, { maxLength: 5 }),
  fc.jsonValue({ maxDepth: 3 }),
);
/** Few different ones, so that a document emits a key twice now and then. */
const rowsOf = fc.array(fc.tuple(fc.oneof(values, fc.constantFrom("a", 1, [1, "a"])), values), {
  maxLength: 5,
});
const manyRows = fc.array(fc.tuple(fc.constantFrom("a", "b", 7), numbers), { maxLength: 40 });
const replyText = (views: number): fc.Arbitrary<string> =>
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc
        .array(fc.oneof({ weight: 5, arbitrary: rowsOf }, manyRows), {
          minLength: views,
          maxLength: views,
        })
        .map((rows) => JSON.stringify(rows)),
    },
    fc.array(pieces, { maxLength: 20 }).map((parts) => parts.join("")),
    fc.array(pieces, { maxLength: 8 }).map((parts) => `[[[${parts.join("")},1]]]`),
    fc.array(pieces, { maxLength: 8 }).map((parts) => `[[["a",${parts.join("")}]]]`),
    fc.constantFrom(
      '["error","bad","no"]',
      "",
      "[]",
      "[[]]",
      `[[["a",1.50]]]`,
      `[[[1.50,"a"]]]`,
      `[[[-0,0]]]`,
      `[[["a",{"b":1,"b":2}]]]`,
      `[[["a",{"b":1,"c":{"b":2}}]]]`,
      `[[["${"x".repeat(20_000)}",1]]]`,
      `[[[${"[".repeat(40)}${"]".repeat(40)},1]]]`,
      `[[["${"aB".repeat(400)}",1]]]`,
      `[[["${"a".repeat(300)}B${"c".repeat(130)}D",1]]]`,
    ),
  );
const id = fc.oneof(
  fc.string({ minLength: 1, maxLength: 12 }),
  fc.constantFrom("x".repeat(300), "é", "y".repeat(256)),
);
const batches = fc
  .integer({ min: 1, max: 4 })
  .chain((views) =>
    fc.tuple(
      fc.constant(views),
      fc.array(fc.tuple(id, replyText(views)), { minLength: 1, maxLength: 12 }),
    ),
  );

describe("replies encoded at once", () => {
  test.each([true, false])("make the entries that each makes alone (as text: %s)", (loaded) => {
    fc.assert(
      fc.property(batches, ([views, documents]) => {
        const config = configOf(views);
        const where = columns(documents.map(([name]) => name));
        const replies = documents.map(([, reply]) => reply);
        expect(together(config, where, replies, loaded)).toEqual(oneByOne(config, where, replies));
      }),
      { numRuns: RUNS },
    );
  });

  test("more of them than have room are encoded in pieces", () => {
    const config = configOf(2);
    const names = Array.from({ length: 3000 }, (_, i) => `document ${i}`);
    const replies = names.map((name, i) =>
      JSON.stringify([[[`${name} ${"k".repeat(i % 100)}`, i]], i % 7 === 0 ? [] : [[i / 8, null]]]),
    );
    expect(together(config, columns(names), replies, false)).toEqual(
      oneByOne(config, columns(names), replies),
    );
  });

  test("ordinary ones are not left to JavaScript", () => {
    const replies = [
      '[[["u1",9146.84]],[[[2022,8,19,16],null]],[["tag-135",{"a":[1,"x"],"b":{"a":2}}],["Tag",true]]]',
      '[[],[[-12.5,"a b"]],[[null,0],[false,1],[true,-1]]]',
      '[[["a\\"b\\\\c",1e-7]],[[[],[]]],[[123456789012345,{}]]]',
    ];
    const where = columns(["a", "b", "c"]);
    expect(takenByKernel(configOf(3), where, replies)).toBe(3);
  });

  test("one that is no JSON is the failure of its document, and of no other", () => {
    const replies = ['[[["a",1]]]', '[[["a",oops]]]', '[[["b",2]]]'];
    const got = together(configOf(1), columns(["a", "b", "c"]), replies, true);
    expect(got).toMatchObject({ mapped: 3, failed: 1, rows: 2 });
    expect(got.errors).toHaveLength(1);
  });

  test("the first that is not ordinary ends a call", () => {
    const replies = ['[[["a",1]]]', '[[["é",1]]]', '[[["a",1]]]'];
    expect(takenByKernel(configOf(1), columns(["a", "b", "c"]), replies)).toBe(1);
  });
});
