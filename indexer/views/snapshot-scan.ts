// What differs between a file of documents and an index of an earlier state of it. The file is read whole (slices and hashes, in threads)
// into sorted runs of ids; merging them beside the id tree tells new, changed and vanished documents in one pass, however large both
// are. Of an id that occurs several times the last line counts.

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";

import {
  appendSegment,
  EntryBatch,
  Merger,
  RunFile,
  type Bytes,
  type SegmentRef,
  type TreeReader,
} from "../../btree/index.js";
import type { ThreadPool } from "../mapping/thread-pool.js";
import type { LineInput, ScanResult } from "../mapping/types.js";
import type { Chunk, FileRange, Source } from "../sources/index.js";
import { mapInOrder } from "./chunk-stream.js";
import type { GroupIndex } from "./group-index.js";
import { IDS_TREE } from "./group-reducers.js";
import { ID_HEADER_BYTES } from "./id-entry.js";
import { ByteCursor, writeVarint } from "./row-value.js";

const ORDINALS_A_CHUNK = 2 ** 24;
const STEP_ENTRIES = 8192;
const SPILL_BYTES = 8 * 2 ** 20;
const PIECES_BYTES = 4 * 2 ** 20;
const PIECES_MAX = 20_000;
const DELETIONS_MAX = 10_000;
const HASH_BYTES = 8;

/** A chunk of single lines of a file. */
export interface PiecesChunk extends Chunk {
  readonly data: FileRange;
  readonly pieces: Float64Array;
}

export interface SnapshotComparison {
  /** Documents in the file, repeats counted once. */
  readonly documents: number;
  unchanged(group: number): number;
  /** Ids that are gone, sorted, in batches. */
  deletions(group: number): Iterable<Bytes[]>;
  /** Lines to map, in file order. */
  changed(group: number): AsyncIterable<PiecesChunk>;
  /** Removes the intermediate files. */
  close(): void;
}

export interface ScanContext {
  readonly dir: string;
  readonly threads: ThreadPool;
  readonly input: (chunk: Chunk) => LineInput;
  readonly chunkBytes: number | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Reads the source whole and compares it with the id tree of each group. */
export async function compareSnapshot(
  groups: readonly GroupIndex[],
  source: Source,
  context: ScanContext,
): Promise<SnapshotComparison> {
  const folder = join(context.dir, `scan-${process.pid}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  try {
    const includeDesign = groups.some((group) => group.spec.includeDesign);
    const segments: SegmentRef[] = [];
    let file: FileRange | undefined;
    const feed = source.changes({
      until: "now",
      chunkBytes: context.chunkBytes,
      signal: context.signal,
    });
    const scans = mapInOrder<ScanResult>(feed, context.threads.threads + 1, 0, (chunk, number) =>
      context.threads.scan({
        kind: "scan",
        input: context.input(chunk),
        includeDesign,
        path: join(folder, `${number}.run`),
        ordinalBase: number * ORDINALS_A_CHUNK,
      }),
    );
    for await (const { chunk, result } of scans) {
      if (!("path" in chunk.data))
        throw new Error("viewmill bug: a snapshot source must offer file ranges");
      file = chunk.data;
      if (result.segment) segments.push(result.segment);
      context.signal?.throwIfAborted();
    }
    const differences: Difference[] = [];
    for (const [g, group] of groups.entries()) {
      const release = group.hold();
      const snapshot = group.store.snapshot();
      try {
        const difference = new Difference(join(folder, `group-${g}.run`), group.spec.includeDesign);
        await difference.compute(segments, snapshot.tree(IDS_TREE), context.signal);
        differences.push(difference);
      } finally {
        snapshot.release();
        release();
      }
    }
    const range = file;
    return {
      documents: differences[0]?.documents ?? 0,
      unchanged: (g) => differences[g]?.unchanged ?? 0,
      deletions: (g) => differences[g]?.deletions() ?? [],
      changed: (g) => piecesOf(range, differences[g]?.changed() ?? []),
      close: () => {
        rmSync(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

/** One group's differences, spilled to a run file: changed lines by offset, vanished ids. */
class Difference {
  documents = 0;
  unchanged = 0;
  readonly #path: string;
  readonly #includeDesign: boolean;
  readonly #changed: Spill;
  readonly #vanished: Spill;

  constructor(path: string, includeDesign: boolean) {
    this.#path = path;
    this.#includeDesign = includeDesign;
    this.#changed = new Spill(`${this.#path}.changed`);
    this.#vanished = new Spill(`${this.#path}.vanished`);
  }

  async compute(
    segments: readonly SegmentRef[],
    ids: TreeReader,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const indexed = new IdWalk(ids);
    const merger = new Merger(segments, {}, (kb, ks, ke, vb, vs, ve) => {
      const cursor = new ByteCursor(vb, vs + HASH_BYTES, ve);
      const start = cursor.varint();
      const length = cursor.varint();
      const order = this.#passVanished(indexed, kb, ks, ke);
      if (!this.#includeDesign && isDesignId(kb, ks, ke)) return;
      if (length === 0) {
        if (order === 0) this.#vanish(indexed);
        return;
      }
      this.documents++;
      if (order === 0 && sameHash(indexed.value, vb, vs)) this.unchanged++;
      else this.#changed.addLine(start, length);
      if (order === 0) indexed.next();
    });
    while (merger.step(STEP_ENTRIES)) {
      await setImmediate();
      signal?.throwIfAborted();
    }
    while (indexed.key) this.#vanish(indexed);
    this.#changed.end();
    this.#vanished.end();
  }

  *deletions(): Iterable<Bytes[]> {
    let batch: Bytes[] = [];
    for (const { key } of this.#vanished.entries()) {
      batch.push(key);
      if (batch.length === DELETIONS_MAX) {
        yield batch;
        batch = [];
      }
    }
    if (batch.length > 0) yield batch;
  }

  *changed(): Iterable<{ start: number; length: number }> {
    for (const { key, value } of this.#changed.entries())
      yield { start: readOffset(key), length: new ByteCursor(value, 0).varint() };
  }

  /** Everything indexed before this id is gone from the file; returns how the id compares with the next indexed one. */
  #passVanished(indexed: IdWalk, kb: Bytes, ks: number, ke: number): number {
    for (;;) {
      if (!indexed.key) return -1;
      const order = compareRange(indexed.key, kb, ks, ke);
      if (order >= 0) return order;
      this.#vanish(indexed);
    }
  }

  #vanish(indexed: IdWalk): void {
    if (indexed.key) this.#vanished.addId(indexed.key);
    indexed.next();
  }
}

/** Entries that are spilled as sorted segments and read back in order. */
class Spill {
  readonly #path: string;
  readonly #batch = new EntryBatch(1024);
  readonly #segments: SegmentRef[] = [];
  #run: RunFile | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  addLine(start: number, length: number): void {
    const batch = this.#batch;
    batch.ensure(16);
    const keyStart = batch.used;
    const view = new DataView(batch.bytes.buffer, batch.bytes.byteOffset);
    view.setUint32(keyStart, Math.floor(start / 2 ** 32));
    view.setUint32(keyStart + 4, start % 2 ** 32);
    const end = writeVarint(batch.bytes, keyStart + 8, length);
    batch.used = end;
    batch.push(keyStart, keyStart + 8, keyStart + 8, end, 0);
    this.#spillIfLarge();
  }

  addId(id: Bytes): void {
    const batch = this.#batch;
    batch.ensure(id.length);
    const start = batch.used;
    batch.bytes.set(id, start);
    batch.used = start + id.length;
    batch.push(start, batch.used, batch.used, batch.used, 0);
    this.#spillIfLarge();
  }

  end(): void {
    this.#spill();
    this.#run?.close();
  }

  *entries(): Iterable<{ key: Bytes; value: Bytes }> {
    if (this.#segments.length === 0) return;
    let page: { key: Bytes; value: Bytes }[] = [];
    const merger = new Merger(this.#segments, {}, (kb, ks, ke, vb, vs, ve) => {
      page.push({ key: kb.slice(ks, ke), value: vb.slice(vs, ve) });
    });
    try {
      for (let more = true; more;) {
        page = [];
        more = merger.step(STEP_ENTRIES);
        yield* page;
      }
    } finally {
      merger.close();
    }
  }

  #spillIfLarge(): void {
    if (this.#batch.used > SPILL_BYTES) this.#spill();
  }

  #spill(): void {
    if (this.#batch.length === 0) return;
    this.#run ??= RunFile.create(this.#path);
    this.#batch.sort();
    this.#segments.push(appendSegment(this.#run, this.#batch));
    this.#batch.clear();
  }
}

/** Walks an id tree, one entry at a time. */
class IdWalk {
  key: Bytes | undefined;
  value: Bytes = new Uint8Array(0);
  readonly #slices;
  #slice: { length: number; key(i: number): Bytes; value(i: number): Bytes } | undefined;
  #at = -1;

  constructor(ids: TreeReader) {
    this.#slices = ids.slices({});
    this.next();
  }

  next(): void {
    this.#at++;
    while (!this.#slice || this.#at >= this.#slice.length) {
      const step = this.#slices.next();
      if (step.done) {
        this.key = undefined;
        return;
      }
      this.#slice = step.value;
      this.#at = 0;
    }
    this.key = this.#slice.key(this.#at);
    this.value = this.#slice.value(this.#at);
  }
}

async function* piecesOf(
  range: FileRange | undefined,
  lines: Iterable<{ start: number; length: number }>,
): AsyncIterable<PiecesChunk> {
  if (!range) return;
  await Promise.resolve();
  let pieces: number[] = [];
  let bytes = 0;
  const chunk = (): PiecesChunk => ({
    format: "documents",
    data: range,
    pieces: Float64Array.from(pieces),
    lastSeq: "null",
  });
  for (const { start, length } of lines) {
    pieces.push(start, start + length);
    bytes += length;
    if (bytes >= PIECES_BYTES || pieces.length >= PIECES_MAX * 2) {
      yield chunk();
      pieces = [];
      bytes = 0;
    }
  }
  if (pieces.length > 0) yield chunk();
}

function readOffset(key: Bytes): number {
  const view = new DataView(key.buffer, key.byteOffset);
  return view.getUint32(0) * 2 ** 32 + view.getUint32(4);
}

function sameHash(entry: Bytes, vb: Bytes, vs: number): boolean {
  for (let i = 1; i < ID_HEADER_BYTES; i++) if (entry[i] !== vb[vs + i - 1]) return false;
  return true;
}

const DESIGN = Buffer.from("_design/");

function isDesignId(kb: Bytes, ks: number, ke: number): boolean {
  if (ke - ks < DESIGN.length) return false;
  for (let i = 0; i < DESIGN.length; i++) if (kb[ks + i] !== DESIGN[i]) return false;
  return true;
}

function compareRange(key: Bytes, kb: Bytes, ks: number, ke: number): number {
  return Buffer.compare(key, kb.subarray(ks, ke));
}
