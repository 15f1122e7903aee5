// What `ChunkEncoder.addMapped` does to one reply, for many at a time: `encodeReplies` of kernels/assembly/replies.ts. It takes the ordinary ones, in
// order, and stops at the first that is left to JavaScript.

import type { EntryBatch } from "../../btree/index.js";
import { createKernel, MEMORY_START, type Kernel } from "../../kernels/index.js";
import { collation } from "../collation/index.js";
import type { DocumentColumns, GroupConfig } from "./types.js";

const VIEWS_MAX = 16;
const DOCUMENTS_MAX = 512;
const DOCUMENT_WORDS = 5;
const TEXT_BYTES_MAX = 256 * 1024;
/** Between the first document's id and the end of the last one's. */
const IDS_BYTES_MAX = 256 * 1024;
const REGION_BYTES = 192 * 1024;
const REGION_ENTRIES = 4096;
const SPAN_BYTES = 16;
const ORDINAL_BYTES = 8;
const TREE_WORDS = 8;
const UTF8_BYTES_A_CHARACTER_MAX = 3;
/** What may be read and written behind the end of something. */
const SLACK = 64;

const LF = 0x0a;

const ORDER_TABLE = MEMORY_START;
const TREES = ORDER_TABLE + 256;
const DOCUMENTS = TREES + (VIEWS_MAX + 1) * TREE_WORDS * 4;
const IDS = DOCUMENTS + DOCUMENTS_MAX * DOCUMENT_WORDS * 4;
const TEXT = IDS + IDS_BYTES_MAX + SLACK;
const REGIONS = TEXT + TEXT_BYTES_MAX + SLACK;
const TREE_BYTES = REGION_BYTES + SLACK + REGION_ENTRIES * (SPAN_BYTES + ORDINAL_BYTES);

export interface RepliedDocuments {
  readonly documents: DocumentColumns;
  /** Of the documents that replied, ascending: those in places [from, to). */
  readonly positions: readonly number[] | Uint32Array;
  readonly from: number;
  readonly to: number;
  readonly ordinalBase: number;
}

/** One a thread; it is lent to one user after the other. */
let kernel: Kernel | undefined;
let kernelViews = 0;
/** What was set up in it last. */
let owner: symbol | undefined;

/** Its memory is shared with all instances of a thread: what was loaded is there until any of them loads again. */
export class ReplyKernel {
  readonly #name = Symbol();
  readonly #views: number;
  readonly #collationVersion: number;
  #kernel: Kernel;
  /** Where the first reply that the last `encode` left begins. */
  end = 0;
  /** Rows that the last `encode` added. */
  rows = 0;

  private constructor(lent: Kernel, views: number, collationVersion: number) {
    this.#kernel = lent;
    this.#views = views;
    this.#collationVersion = collationVersion;
  }

  /** Undefined where there is no WebAssembly, or for a group whose keys it does not know. */
  static create(config: GroupConfig): ReplyKernel | undefined {
    const views = config.maps.length;
    if (views > VIEWS_MAX || config.partitioned) return undefined;
    if (config.collations.some((kind) => kind !== "root")) return undefined;
    const lent = lend(views);
    return lent && new ReplyKernel(lent, views, config.collationVersion);
  }

  /** Replies, as bytes in the kernel's memory; undefined when they have no room there. */
  load(replies: string): Buffer | undefined {
    if (replies.length * UTF8_BYTES_A_CHARACTER_MAX >= TEXT_BYTES_MAX) return undefined;
    const { bytes } = this.#borrow();
    const memory = Buffer.from(bytes.buffer, TEXT, TEXT_BYTES_MAX + SLACK);
    const length = memory.write(replies, "utf8");
    memory[length] = LF;
    return memory.subarray(0, length);
  }

  /**
   * Adds the rows of replies that begin at `start` of `src` and end with a LF each, or with the end of `src`.
   *
   * @param batches - where entries go.
   * @returns of how many documents.
   */
  encode(
    { src, start }: { readonly src: Uint8Array; readonly start: number },
    replied: RepliedDocuments,
    { views, ids }: { readonly views: readonly EntryBatch[]; readonly ids: EntryBatch },
  ): number {
    const { run, bytes, words } = this.#borrow();
    const n = putDocuments(words, bytes, replied);
    if (n === 0) return 0;
    let text = TEXT + start;
    if (src.buffer !== bytes.buffer) {
      const length = Math.min(src.length - start, TEXT_BYTES_MAX);
      bytes.set(src.subarray(start, start + length), TEXT);
      // A reply that is cut off here is not valid.
      bytes[TEXT + length] = LF;
      text = TEXT;
    }
    for (let tree = 0; tree <= this.#views; tree++) {
      const record = (TREES >>> 2) + tree * TREE_WORDS;
      words[record + 1] = 0;
      words[record + 2] = (views[tree] ?? ids).used;
      words[record + 5] = 0;
    }
    const done = run.encodeReplies(text, n, DOCUMENTS, IDS, replied.ordinalBase);
    if (done === 0) return 0;
    this.end = start + run.repliesEnd() - text;
    this.rows = 0;
    for (let tree = 0; tree <= this.#views; tree++) {
      const record = (TREES >>> 2) + tree * TREE_WORDS;
      const [region = 0, used = 0, , spans = 0, ordinals = 0, entries = 0] = words.subarray(
        record,
        record + TREE_WORDS,
      );
      if (entries === 0) continue;
      (views[tree] ?? ids).append(
        bytes.subarray(region, region + used),
        words.subarray(spans >>> 2, (spans >>> 2) + entries * 4),
        new Float64Array(bytes.buffer, ordinals, entries),
      );
      if (tree < this.#views) this.rows += entries;
    }
    return done;
  }

  #borrow(): Kernel {
    if (owner === this.#name) return this.#kernel;
    this.#kernel = lend(this.#views) ?? this.#kernel;
    owner = this.#name;
    const { run, bytes, words } = this.#kernel;
    const { asciiPrimary, quotePrimary, backslashPrimary, upperTertiary } = collation(
      this.#collationVersion,
    );
    bytes.set(asciiPrimary, ORDER_TABLE);
    run.setRootOrder(ORDER_TABLE, quotePrimary, backslashPrimary, upperTertiary);
    for (let tree = 0; tree <= this.#views; tree++) {
      const record = (TREES >>> 2) + tree * TREE_WORDS;
      const ordinals = REGIONS + tree * TREE_BYTES;
      const spans = ordinals + REGION_ENTRIES * ORDINAL_BYTES;
      words[record] = spans + REGION_ENTRIES * SPAN_BYTES;
      words[record + 3] = spans;
      words[record + 4] = ordinals;
    }
    run.setTrees(TREES, this.#views, REGION_BYTES, REGION_ENTRIES);
    return this.#kernel;
  }
}

function lend(views: number): Kernel | undefined {
  if (kernel === undefined || views > kernelViews) {
    kernel = createKernel(REGIONS + (views + 1) * TREE_BYTES + SLACK - MEMORY_START);
    kernelViews = views;
    owner = undefined;
  }
  return kernel;
}

/** Describes as many of the documents as have room; returns how many. */
function putDocuments(
  words: Uint32Array,
  bytes: Uint8Array,
  { documents, positions, from, to }: RepliedDocuments,
): number {
  const { ids, idStart, idEnd, hashLow, hashHigh } = documents;
  const first = idStart[positions[from] as number] as number;
  let end = first;
  let n = 0;
  let at = DOCUMENTS >>> 2;
  for (let k = from; k < to && n < DOCUMENTS_MAX; k++, n++) {
    const i = positions[k] as number;
    const idFrom = (idStart[i] as number) - first;
    const idTo = (idEnd[i] as number) - first;
    if (idFrom < 0 || idTo > IDS_BYTES_MAX) break;
    words[at++] = idFrom;
    words[at++] = idTo;
    words[at++] = hashLow[i] as number;
    words[at++] = hashHigh[i] as number;
    words[at++] = i;
    end = first + idTo;
  }
  bytes.set(ids.subarray(first, end), IDS);
  return n;
}
