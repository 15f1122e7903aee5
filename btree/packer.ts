// Gathers the new content of neighbouring nodes and cuts it into nodes again: one if it fits, else pieces of about equal size
// (full ones where entries were only added at the end). The content lies in one oversized node in memory until then.

import { separator } from "./bytes.js";
import { invariant } from "./errors.js";
import { FRAME_BYTES, INNER_START, LEAF_START, type TreeFormat } from "./format.js";
import { decodeInner, type ChildRef, type InnerNode } from "./inner-node.js";
import { InnerWriter } from "./inner-writer.js";
import { LeafEditor } from "./leaf-edit.js";
import { decodeLeaf, type LeafNode } from "./leaf-node.js";
import { NodeSlice } from "./leaf-slice.js";
import { LeafWriter } from "./leaf-writer.js";
import { appendInner } from "./level-builder.js";
import type { NodeSource } from "./node-source.js";
import type { NodeSink } from "./record-log.js";
import type { ReductionQueue } from "./reductions.js";
import type { Bytes, Reducer, TreeOp } from "./types.js";
import { appendValue, writePointer } from "./value-record.js";

/** Below this share of the target size a node is merged with a neighbour. Pieces of a split have half at least. */
const UNDERFULL_SHARE = 0.4;
/** Content is cut before the end when it has grown to so many nodes. */
const EARLY_CUT_NODES = 16;

export interface PackerContext {
  readonly source: NodeSource;
  readonly sink: NodeSink;
  readonly format: TreeFormat;
  readonly reducer: Reducer;
  readonly queue: ReductionQueue;
}

export class LeafPacker {
  readonly editor: LeafEditor;
  readonly #context: PackerContext;
  #content: LeafWriter;
  #spare: LeafWriter;
  readonly #piece: LeafWriter;
  readonly #pointer = new Uint8Array(24);
  #low: Bytes = new Uint8Array(0);
  #refs: ChildRef[] = [];
  /** Of the entries gathered: rows they count for, bytes of the records they point to. */
  #rows = 0;
  #pointed = 0;

  constructor(context: PackerContext) {
    this.#context = context;
    this.editor = new LeafEditor(context.reducer, context.format.valueBytesMax);
    this.#content = new LeafWriter(context.format.leafBytes * 2);
    this.#spare = new LeafWriter(context.format.leafBytes * 2);
    this.#piece = new LeafWriter(context.format.leafBytes * 2);
  }

  /** Entries gathered and not yet cut off. */
  get count(): number {
    return this.#content.count;
  }

  get underfull(): boolean {
    return (
      this.count > 0 &&
      this.#refs.length === 0 &&
      this.#content.used < this.#context.format.leafBytes * UNDERFULL_SHARE
    );
  }

  /** Starts anew with content whose lower bound is `low`. */
  begin(low: Bytes): void {
    this.#low = low;
    this.#refs = [];
    this.#rows = 0;
    this.#pointed = 0;
    this.#content.reset();
    this.#piece.reset();
  }

  put(key: Bytes, value: Bytes): void {
    const { format, reducer, sink } = this.#context;
    const content = this.#content;
    const shared = content.sharedWithLast(key, 0, key.length);
    const rows = reducer.count(value, 0, value.length);
    this.#rows += rows;
    if (value.length > format.valueBytesMax) {
      const offset = appendValue(sink, value, 0, value.length);
      const length = writePointer(this.#pointer, rows, offset, value.length + FRAME_BYTES);
      content.put(shared, key, 0, key.length, this.#pointer, 0, length, true);
      this.#pointed += value.length + FRAME_BYTES;
    } else {
      content.put(shared, key, 0, key.length, value, 0, value.length, false);
    }
    if (content.used > format.leafBytes * EARLY_CUT_NODES) this.#cut(true, true);
  }

  /**
   * Makes the content of a leaf with operations applied, where nothing is gathered yet.
   *
   * @param record - of a leaf of `rows` rows without pointers.
   * @returns as `LeafEditor.edit`; nothing is gathered unless it is true.
   */
  edit(
    record: Bytes,
    rows: number,
    ops: readonly TreeOp[],
    shared: Uint32Array,
    from: number,
    to: number,
  ): boolean | undefined {
    const content = this.#content;
    const changed = this.editor.edit(record, ops, shared, from, to, content.bytes);
    if (changed !== true) return changed;
    content.take(this.editor.used, this.editor.count);
    this.#rows = rows + this.editor.rowsGained;
    return true;
  }

  putRange(leaf: LeafNode, from: number, to: number): void {
    this.#content.putRange(leaf, from, to);
    this.#rows += leaf.rows(from, to, this.#context.reducer);
    this.#pointed += leaf.pointedBytes(from, to);
  }

  /** Adds what has been gathered after all of `leaf`. */
  prepend(leaf: LeafNode, low: Bytes): void {
    const content = this.#content;
    const gathered = this.#decode(content);
    this.#content = this.#spare;
    this.#spare = content;
    this.#content.reset();
    this.#low = low;
    this.putRange(leaf, 0, leaf.count);
    this.#content.putRange(gathered, 0, gathered.count);
  }

  /** Writes what has been gathered and returns the nodes. @param appended - Entries were only added at the end. */
  finish(appended: boolean): ChildRef[] {
    if (this.count > 0) this.#cut(appended, false);
    return this.#refs;
  }

  /** Cuts full pieces off, or pieces of equal size; with `keepLast` the last piece stays as the content. */
  #cut(full: boolean, keepLast: boolean): void {
    const content = this.#content;
    const { leafBytes } = this.#context.format;
    if (content.used <= leafBytes) {
      this.#emit(content, this.#rows, this.#pointed);
      return;
    }
    const { reducer } = this.#context;
    const leaf = this.#decode(content);
    const total = content.used - LEAF_START;
    const room = leafBytes - LEAF_START;
    const target = full ? room : total / Math.ceil(total / room);
    let from = 0;
    while (from < leaf.count) {
      const to = cutAfter(leaf, from, target, full);
      if (to === leaf.count && keepLast) break;
      this.#piece.clear();
      this.#piece.putRange(leaf, from, to);
      this.#emit(this.#piece, leaf.rows(from, to, reducer), leaf.pointedBytes(from, to));
      if (to < leaf.count) this.#low = separator(leaf.keys.key(to - 1), leaf.keys.key(to));
      from = to;
    }
    if (!keepLast) return;
    this.#content = this.#spare;
    this.#spare = content;
    this.#content.reset();
    this.#rows = 0;
    this.#pointed = 0;
    this.putRange(leaf, from, leaf.count);
  }

  #emit(writer: LeafWriter, rows: number, pointed: number): void {
    const { queue, sink, source } = this.#context;
    const record = writer.record();
    const offset = sink.append(record);
    const size = record.length;
    const ref: ChildRef = {
      low: this.#low,
      offset,
      size,
      count: rows,
      bytes: size + pointed,
      reduction: undefined,
    };
    queue.addLeaf(ref, () => {
      // Only who reduces pays for a node in memory; others read it back when they need it.
      const leaf = decodeLeaf(record.slice(), size, writer.count);
      invariant(leaf !== undefined, "a leaf just written cannot be read");
      source.remember(offset, leaf);
      return new NodeSlice(source, leaf, 0, leaf.count);
    });
    this.#refs.push(ref);
  }

  #decode(writer: LeafWriter): LeafNode {
    const leaf = decodeLeaf(writer.bytes, writer.used, writer.count);
    invariant(leaf !== undefined, "leaf content just gathered cannot be read");
    return leaf;
  }
}

export class InnerPacker {
  readonly #context: PackerContext;
  readonly #height: number;
  #content: InnerWriter;
  #spare: InnerWriter;
  readonly #piece: InnerWriter;

  constructor(context: PackerContext, height: number) {
    this.#context = context;
    this.#height = height;
    this.#content = new InnerWriter(context.format.innerBytes * 2);
    this.#spare = new InnerWriter(context.format.innerBytes * 2);
    this.#piece = new InnerWriter(context.format.innerBytes * 2);
  }

  get count(): number {
    return this.#content.count;
  }

  get underfull(): boolean {
    const { count, used } = this.#content;
    return count === 1 || (count > 1 && used < this.#context.format.innerBytes * UNDERFULL_SHARE);
  }

  begin(): void {
    this.#content.clear();
  }

  put(ref: ChildRef): void {
    this.#content.put(ref);
  }

  putRange(node: InnerNode, from: number, to: number, low: Bytes): void {
    this.#content.putRange(node, from, to, low);
  }

  prepend(node: InnerNode, low: Bytes): void {
    const content = this.#content;
    const gathered = this.#decode(content);
    this.#content = this.#spare;
    this.#spare = content;
    this.#content.clear();
    this.#content.putRange(node, 0, node.count, low);
    this.#content.putRange(gathered, 0, gathered.count, content.low);
  }

  finish(): ChildRef[] {
    const content = this.#content;
    if (content.count === 0) return [];
    const { innerBytes } = this.#context.format;
    const total = content.used - INNER_START;
    const room = innerBytes - INNER_START;
    // At least two children a node, however large their reductions.
    const pieces = Math.min(Math.ceil(total / room), Math.floor(content.count / 2));
    if (pieces <= 1) return [this.#emit(content)];
    const node = this.#decode(content);
    const refs: ChildRef[] = [];
    let from = 0;
    for (let left = pieces; left > 0; left--) {
      let to = node.count;
      if (left > 1) {
        const end =
          node.keys.entryStart(from) +
          (node.keys.entryEnd(node.count - 1) - node.keys.entryStart(from)) / left;
        to = from + 2;
        while (to < node.count - 2 * (left - 1) && node.keys.entryEnd(to) <= end) to++;
      }
      this.#piece.clear();
      this.#piece.putRange(node, from, to, content.low);
      refs.push(this.#emit(this.#piece));
      from = to;
    }
    return refs;
  }

  #emit(writer: InnerWriter): ChildRef {
    const { queue, sink, source } = this.#context;
    const { ref, node } = appendInner(sink, queue, writer, this.#height, writer.low);
    source.remember(ref.offset, node);
    return ref;
  }

  #decode(writer: InnerWriter): InnerNode {
    const node = decodeInner(writer.bytes, writer.used, this.#height, writer.count);
    invariant(node !== undefined, "inner content just gathered cannot be read");
    return node;
  }
}

/** Index after the last entry of a piece of about `target` bytes that begins at `from`. */
function cutAfter(leaf: LeafNode, from: number, target: number, full: boolean): number {
  // The first entry of a leaf has its key whole.
  const start = leaf.keys.entryStart(from) - leaf.keys.shared(from);
  let to = from + 1;
  while (to < leaf.count) {
    const size = leaf.keys.entryEnd(to) - start;
    if (full ? size > target : leaf.keys.entryEnd(to - 1) - start >= target) break;
    to++;
  }
  return to;
}
