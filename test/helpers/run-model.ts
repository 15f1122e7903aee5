// A naive model of the external sort: feeds as plain arrays, merged by sorting everything in memory.

import {
  CANCEL,
  encodeSegment,
  type EncodeSegmentOptions,
  EntryBatch,
  mergeSegments,
  type MergeOptions,
  RunFile,
  type SegmentRef,
} from "../../btree/index.js";

/** One entry of a feed; `cancels` makes it a cancel. */
export interface ModelEntry {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly ordinal: number;
  readonly cancels: boolean;
}

/** What a merge said, as text that can be compared. */
export interface Outcome {
  readonly kept: string[];
  /** Sorted: their order among themselves is not promised. */
  readonly superseded: string[];
}

export function batchOf(entries: readonly ModelEntry[]): EntryBatch {
  const batch = new EntryBatch(16);
  for (const { key, value, ordinal, cancels } of entries) {
    batch.ensure(key.length + value.length);
    const start = batch.used;
    batch.bytes.set(key, start);
    batch.bytes.set(value, start + key.length);
    batch.used += key.length + value.length;
    batch.push(
      start,
      start + key.length,
      start + key.length,
      batch.used,
      ordinal,
      cancels ? CANCEL : 0,
    );
  }
  return batch;
}

/** Writes one segment for each feed. */
export function writeSegments(
  path: string,
  feeds: readonly (readonly ModelEntry[])[],
  options?: EncodeSegmentOptions,
): SegmentRef[] {
  const file = RunFile.create(path);
  try {
    return feeds.map((feed) => {
      const batch = batchOf(feed);
      batch.sort();
      return file.append(encodeSegment(batch, options));
    });
  } finally {
    file.close();
  }
}

export function merged(refs: readonly SegmentRef[], options: MergeOptions = {}): Outcome {
  const kept: string[] = [];
  const superseded: string[] = [];
  mergeSegments(
    refs,
    {
      ...options,
      onSuperseded: (kb, ks, ke, vb, vs, ve, ordinal) => {
        superseded.push(entryText(kb.subarray(ks, ke), vb.subarray(vs, ve), ordinal));
      },
    },
    (kb, ks, ke, vb, vs, ve, ordinal) => {
      kept.push(entryText(kb.subarray(ks, ke), vb.subarray(vs, ve), ordinal));
    },
  );
  return { kept, superseded: superseded.sort() };
}

/** The same by the rule itself: of each key the highest ordinal counts, a cancel before rows, later rows before earlier ones. */
export function modelMerge(
  feeds: readonly (readonly ModelEntry[])[],
  range: { readonly gte?: Uint8Array | undefined; readonly lt?: Uint8Array | undefined } = {},
): Outcome {
  const byKey = new Map<string, ModelEntry[]>();
  for (const entry of feeds.flat()) {
    const name = entry.key.toString("hex");
    byKey.set(name, [...(byKey.get(name) ?? []), entry]);
  }
  const kept: string[] = [];
  const superseded: string[] = [];
  const inRange = [...byKey.values()]
    .filter(([first]) => first !== undefined && isIn(first.key, range))
    .sort(([a], [b]) => Buffer.compare(a?.key ?? Buffer.alloc(0), b?.key ?? Buffer.alloc(0)));
  for (const entries of inRange) {
    let best: ModelEntry | undefined;
    for (const entry of entries) {
      if (
        best === undefined ||
        entry.ordinal > best.ordinal ||
        (entry.ordinal === best.ordinal && (entry.cancels || !best.cancels))
      ) {
        best = entry;
      }
    }
    for (const entry of entries) {
      if (entry.cancels) continue;
      (entry === best ? kept : superseded).push(entryText(entry.key, entry.value, entry.ordinal));
    }
  }
  return { kept, superseded: superseded.sort() };
}

export function entryText(key: Uint8Array, value: Uint8Array, ordinal: number): string {
  return `${Buffer.from(key).toString("hex")}=${Buffer.from(value).toString("hex")}@${ordinal}`;
}

function isIn(
  key: Buffer,
  range: { readonly gte?: Uint8Array | undefined; readonly lt?: Uint8Array | undefined },
): boolean {
  return (
    (range.gte === undefined || Buffer.compare(key, range.gte) >= 0) &&
    (range.lt === undefined || Buffer.compare(key, range.lt) < 0)
  );
}

/** A generator of 32-bit numbers that depends on its seed alone. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state ^ (state >>> 15)) >>> 0;
  };
}
