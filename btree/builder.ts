// Builds a tree from entries that come in key order, each node written once. Several builders, in several threads, may each
// build a partition of the key space; assembleForests (forest.ts) joins them.
//
// 1. add() encodes the entry into the leaf under way; a full leaf is appended and its reduction asked for.
// 2. Leaves wait, in order, for their reductions, then enter the level-1 node under way; full ones are appended likewise.
// 3. A partition ends as a forest: references to its level-1 nodes, or to its leaves when they are few.

import { NO_BYTES } from "./bytes.js";
import { saltSeed } from "./checksum.js";
import { invariant } from "./errors.js";
import type { Forest } from "./forest.js";
import { FRAME_BYTES, KEY_BYTES_MAX, type TreeFormat } from "./format.js";
import type { ChildRef } from "./inner-node.js";
import { TABLE_STRIDE } from "./key-table.js";
import { decodeLeaf, type LeafNode } from "./leaf-node.js";
import { NodeSlice } from "./leaf-slice.js";
import { LeafWriter } from "./leaf-writer.js";
import { LevelBuilder } from "./level-builder.js";
import { NodeSource } from "./node-source.js";
import type { NodeSink } from "./record-log.js";
import { ReductionQueue } from "./reductions.js";
import type { Bytes, MergedEntry, Reducer } from "./types.js";
import { appendValue, writePointer } from "./value-record.js";

/** A partition of at most so many leaves gets no inner node of its own. */
const BARE_LEAVES_MAX = 16;
/** Leaves whose reductions are out before add()'s caller should wait. */
const WAITING_LEAVES_MAX = 1024;

export class TreeBuilder {
  readonly #sink: NodeSink;
  readonly #reducer: Reducer;
  readonly #queue: ReductionQueue;
  readonly #source: NodeSource;
  readonly #leaf: LeafWriter;
  readonly #level1: LevelBuilder;
  readonly #leafBytes: number;
  readonly #valueBytesMax: number;
  readonly #pointer = new Uint8Array(24);
  /** Memory of leaves whose reductions have come. */
  readonly #copies: LeafCopy[] = [];
  /** Leaves in order, from #head on without a place in a parent yet. */
  #leaves: ChildRef[] = [];
  #low: Bytes = NO_BYTES;
  #leafRows = 0;
  #leafPointed = 0;
  #entries = 0;
  #rows = 0;
  #firstKey: Bytes = NO_BYTES;
  #bare = true;
  #finished = false;

  constructor(sink: NodeSink, format: TreeFormat, reducer: Reducer) {
    this.#sink = sink;
    this.#reducer = reducer;
    this.#queue = new ReductionQueue(reducer);
    this.#source = new NodeSource(undefined, sink, saltSeed(format.salt), undefined);
    this.#leaf = new LeafWriter(format.leafBytes * 2);
    this.#level1 = new LevelBuilder(sink, format, this.#queue, 1);
    this.#leafBytes = format.leafBytes;
    this.#valueBytesMax = format.valueBytesMax;
  }

  /** Entries added so far. */
  get entries(): number {
    return this.#entries;
  }

  /**
   * Adds the entry with the key kb[ks, ke) and the value vb[vs, ve). Copies what it needs.
   * @throws BtreeError BTREE_KEY_ORDER unless the key is greater than the last one.
   */
  add(kb: Bytes, ks: number, ke: number, vb: Bytes, vs: number, ve: number): void {
    const leaf = this.#leaf;
    let shared = leaf.sharedWithLast(kb, ks, ke);
    const rows = this.#reducer.count(vb, vs, ve);
    const pointer = ve - vs > this.#valueBytesMax;
    if (pointer) {
      const size = FRAME_BYTES + ve - vs;
      const offset = appendValue(this.#sink, vb, vs, ve);
      ve = writePointer(this.#pointer, rows, offset, size);
      vb = this.#pointer;
      vs = 0;
      if (this.#overflows(ke - ks - shared, ve)) this.#endLeaf(kb, ks, shared);
      this.#leafPointed += size;
    } else if (this.#overflows(ke - ks - shared, ve - vs)) {
      this.#endLeaf(kb, ks, shared);
    }
    if (this.#entries === 0) {
      this.#firstKey = kb.slice(ks, ke);
      shared = 0;
    }
    leaf.put(shared, kb, ks, ke, vb, vs, ve, pointer);
    this.#leafRows += rows;
    this.#entries++;
  }

  /**
   * Adds an entry of a merge, whose key is greater than the last one's and shares exactly `shared` bytes with it: 0 for the first, -1
   * when that is not known.
   */
  addSuccessor(entry: MergedEntry, shared: number): void {
    const { keyLength, buffer, valueStart, valueEnd } = entry;
    const valueLength = valueEnd - valueStart;
    const plain = shared >= 0 && valueLength <= this.#valueBytesMax && keyLength <= KEY_BYTES_MAX;
    if (!plain || this.#entries === 0) {
      this.add(entry.key, 0, keyLength, buffer, valueStart, valueEnd);
      return;
    }
    const rows = this.#reducer.count(buffer, valueStart, valueEnd);
    if (this.#overflows(keyLength - shared, valueLength)) this.#endLeaf(entry.key, 0, shared);
    this.#leaf.putSuccessor(shared, entry);
    this.#leafRows += rows;
    this.#entries++;
  }

  /**
   * Adds a leaf whose entries, all greater than those before, somebody else encoded: `leaf` begins with room for a leaf's head. Not to be
   * mixed with the methods that add entries.
   *
   * @param content - what the leaf holds: entries, rows, bytes of the records it points to; the first key of the partition.
   * @param low - what tells the next leaf's first key from this one's last; undefined when there is none.
   */
  addLeaf(
    leaf: Bytes,
    content: {
      readonly count: number;
      readonly rows: number;
      readonly pointed: number;
      readonly firstKey: Bytes;
    },
    low: Bytes | undefined,
  ): void {
    this.#leaf.adopt(leaf, content.count);
    if (this.#entries === 0) this.#firstKey = content.firstKey;
    this.#entries += content.count;
    this.#leafRows = content.rows;
    this.#leafPointed = content.pointed;
    if (low === undefined) return;
    this.#writeLeaf();
    this.#low = low;
  }

  /** Appends a value too long for a leaf; `dst` is given what stands for it there. Returns the length of that, and of the record. */
  addValue(
    rows: number,
    vb: Bytes,
    vs: number,
    ve: number,
    dst: Bytes,
  ): { readonly pointer: number; readonly size: number } {
    const size = FRAME_BYTES + ve - vs;
    return { pointer: writePointer(dst, rows, appendValue(this.#sink, vb, vs, ve), size), size };
  }

  /** True when so many reductions are out that the caller should await `drain()` before it adds more. */
  get needsDrain(): boolean {
    return this.#queue.windowFull || this.#leaves.length > WAITING_LEAVES_MAX;
  }

  async drain(): Promise<void> {
    this.#queue.send();
    await this.#queue.drain();
    this.#advance();
  }

  /** Ends the partition. The sink is not flushed. The builder is used up. */
  async finishPartition(): Promise<Forest> {
    invariant(!this.#finished, "finishPartition was called twice");
    this.#finished = true;
    const lastKey = this.#leaf.lastKey.slice();
    if (this.#leaf.count > 0) this.#writeLeaf();
    await this.#queue.settle();
    const bare = this.#bare && this.#leaves.length <= BARE_LEAVES_MAX;
    let children = this.#leaves;
    if (!bare) {
      this.#bare = false;
      this.#advance();
      children = this.#level1.finish();
      await this.#queue.settle();
    }
    return {
      height: bare ? 0 : 1,
      children,
      entries: this.#entries,
      rows: this.#rows,
      firstKey: this.#firstKey,
      lastKey,
    };
  }

  #overflows(suffix: number, valueLength: number): boolean {
    return this.#leaf.used + suffix + valueLength + 3 > this.#leafBytes && this.#leaf.count > 0;
  }

  /** Ends the leaf before the key kb[ks…), which shares `shared` bytes with the last one in it. */
  #endLeaf(kb: Bytes, ks: number, shared: number): void {
    this.#writeLeaf();
    this.#low = kb.slice(ks, ks + shared + 1);
  }

  #writeLeaf(): void {
    const leaf = this.#leaf;
    const record = leaf.record();
    const offset = this.#sink.append(record);
    const size = record.length;
    const ref: ChildRef = {
      low: this.#low,
      offset,
      size,
      count: this.#leafRows,
      bytes: size + this.#leafPointed,
      reduction: undefined,
    };
    const count = leaf.count;
    // Reductions are asked for later, with those of other leaves: the content must outlive the writer's buffer.
    if (this.#queue.wantsLeaves) {
      const copy = this.#copies.pop() ?? new LeafCopy();
      const node = copy.take(record, count);
      this.#queue.addLeaf(
        ref,
        () => new NodeSlice(this.#source, node, 0, count),
        () => this.#copies.push(copy),
      );
    } else this.#queue.addLeaf(ref);
    this.#leaves.push(ref);
    this.#rows += this.#leafRows;
    this.#leafRows = 0;
    this.#leafPointed = 0;
    leaf.clear();
    if (this.#leaves.length > BARE_LEAVES_MAX) this.#advance();
  }

  /** Moves the leaves whose reductions are known, in order, into their parents. */
  #advance(): void {
    if (this.#bare && this.#leaves.length <= BARE_LEAVES_MAX) return;
    this.#bare = false;
    let done = 0;
    for (const ref of this.#leaves) {
      if (ref.reduction === undefined) break;
      this.#level1.add(ref);
      done++;
    }
    if (done > 0) this.#leaves = this.#leaves.slice(done);
  }
}

/** Memory for a leaf that waits for its reduction, used again: thousands of short-lived buffers are dear to the collector. */
class LeafCopy {
  #bytes: Bytes = NO_BYTES;
  #table = new Uint16Array(0);

  take(record: Bytes, count: number): LeafNode {
    const { length } = record;
    if (length > this.#bytes.length || this.#bytes.length > 4 * length)
      this.#bytes = new Uint8Array(length);
    if (count * TABLE_STRIDE > this.#table.length)
      this.#table = new Uint16Array(count * TABLE_STRIDE * 2);
    this.#bytes.set(record);
    const node = decodeLeaf(this.#bytes, length, count, this.#table);
    invariant(node !== undefined, "a leaf just written cannot be read");
    return node;
  }
}
