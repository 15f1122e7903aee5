// Inner nodes, level by level: each is written once its children and their reductions are known.

import { NO_BYTES } from "./bytes.js";
import { invariant } from "./errors.js";
import type { TreeFormat } from "./format.js";
import { decodeInner, type ChildRef, type InnerNode } from "./inner-node.js";
import { InnerWriter } from "./inner-writer.js";
import type { NodeSink } from "./record-log.js";
import type { ReductionQueue } from "./reductions.js";
import type { Bytes, TreeRoot } from "./types.js";

/** Builds the nodes of one level of inner nodes, left to right. */
export class LevelBuilder {
  readonly #writer: InnerWriter;
  readonly #nodes: ChildRef[] = [];

  constructor(
    readonly sink: NodeSink,
    readonly format: TreeFormat,
    readonly queue: ReductionQueue,
    readonly height: number,
  ) {
    this.#writer = new InnerWriter(format.innerBytes * 2);
  }

  add(ref: ChildRef): void {
    const writer = this.#writer;
    // At least two children a node, however large their reductions, so that each level is at most half as long as the one below.
    if (writer.count >= 2 && writer.used + writer.sizeOf(ref) > this.format.innerBytes) this.#end();
    writer.put(ref);
  }

  finish(): ChildRef[] {
    if (this.#writer.count > 0) this.#end();
    return this.#nodes;
  }

  #end(): void {
    const writer = this.#writer;
    this.#nodes.push(appendInner(this.sink, this.queue, writer, this.height, writer.low).ref);
    writer.clear();
  }
}

/** Appends the writer's node and asks for its reduction. */
export function appendInner(
  sink: NodeSink,
  queue: ReductionQueue,
  writer: InnerWriter,
  height: number,
  low: Bytes,
): { ref: ChildRef; node: InnerNode } {
  const record = writer.record(height).slice();
  const offset = sink.append(record);
  const node = decodeInner(record, record.length, height, writer.count);
  invariant(node !== undefined, "an inner node just written cannot be read");
  const ref: ChildRef = {
    low,
    offset,
    size: record.length,
    count: node.rowsTotal,
    bytes: record.length + node.bytesBelow(),
    reduction: undefined,
  };
  queue.addInner(ref, () => node.reductions());
  return { ref, node };
}

/** Puts levels above `refs`, nodes of one height in key order, until one is left. Yields where it must wait for reductions. */
export function* growingRoot(
  sink: NodeSink,
  format: TreeFormat,
  queue: ReductionQueue,
  refs: readonly ChildRef[],
  height: number,
): Generator<Promise<void>, TreeRoot | undefined> {
  let nodes = refs;
  while (nodes.length > 1) {
    height++;
    const level = new LevelBuilder(sink, format, queue, height);
    for (const ref of nodes) level.add(ref);
    nodes = level.finish();
    yield* queue.settling();
  }
  const root = nodes[0];
  if (root === undefined) return undefined;
  return {
    offset: root.offset,
    size: root.size,
    height,
    count: root.count,
    reduction: root.reduction ?? NO_BYTES,
    bytes: root.bytes,
  };
}
