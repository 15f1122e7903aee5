// LeafSlice over a decoded leaf: keys are made on demand, values are views.

import { NO_BYTES } from "./bytes.js";
import type { LeafNode } from "./leaf-node.js";
import type { NodeSource } from "./node-source.js";
import type { Bytes, ByteSpan, VisitedSlice } from "./types.js";

/** The key of the entry last visited, and the number of the slice it was visited on: other keys overwrite it. */
let keyBuffer: Bytes = new Uint8Array(256);
let visitedOn = 0;
let slices = 0;

export class NodeSlice implements VisitedSlice {
  readonly length: number;
  keyBytes: Bytes = NO_BYTES;
  keyLength = 0;
  keyShared = 0;
  suffixFrom = 0;
  valueBytes: Bytes = NO_BYTES;
  valueStart = 0;
  valueEnd = 0;
  readonly #leaf: LeafNode;
  readonly #source: NodeSource;
  readonly #from: number;
  readonly #reverse: boolean;
  readonly #span: { bytes: Bytes; start: number; end: number };
  #lastIndex = -2;
  readonly #number = ++slices;
  #visited = -2;
  #lastKey: Bytes | undefined;

  constructor(source: NodeSource, leaf: LeafNode, from: number, to: number, reverse = false) {
    this.#source = source;
    this.#leaf = leaf;
    this.#from = from;
    this.length = to - from;
    this.#reverse = reverse;
    this.#span = { bytes: leaf.bytes, start: 0, end: 0 };
  }

  key(i: number): Bytes {
    const at = this.#at(i);
    const last = this.#lastKey;
    // Walking forward, which is what most do, each key is made from the one before it.
    const key =
      last !== undefined && at === this.#lastIndex + 1
        ? this.#leaf.keys.keyAfter(at, last)
        : this.#leaf.keys.key(at);
    this.#lastIndex = at;
    this.#lastKey = key;
    return key;
  }

  visit(i: number): void {
    const at = this.#at(i);
    const leaf = this.#leaf;
    const { keys } = leaf;
    this.keyLength = keys.keyLength(at);
    if (keyBuffer.length < this.keyLength) {
      const longer = new Uint8Array(2 * this.keyLength);
      longer.set(keyBuffer);
      keyBuffer = longer;
    }
    this.keyBytes = keyBuffer;
    if (visitedOn === this.#number && at === this.#visited + 1) {
      this.keyShared = keys.shared(at);
      keys.ownInto(at, keyBuffer);
    } else {
      this.keyShared = 0;
      keys.keyInto(at, keyBuffer);
      visitedOn = this.#number;
    }
    this.#visited = at;
    if (leaf.isPointer(at)) {
      this.valueBytes = this.#source.value(leaf.pointer(at));
      this.valueStart = 0;
      this.valueEnd = this.valueBytes.length;
      this.suffixFrom = this.keyLength;
    } else {
      this.suffixFrom = keys.shared(at);
      this.valueBytes = leaf.bytes;
      this.valueStart = leaf.valueStart(at);
      this.valueEnd = leaf.valueEnd(at);
    }
  }

  value(i: number): Bytes {
    return this.#source.valueOf(this.#leaf, this.#at(i));
  }

  span(i: number): ByteSpan {
    const at = this.#at(i);
    const span = this.#span;
    const leaf = this.#leaf;
    if (leaf.isPointer(at)) {
      span.bytes = this.#source.valueOf(leaf, at);
      span.start = 0;
      span.end = span.bytes.length;
    } else {
      span.bytes = leaf.bytes;
      span.start = leaf.valueStart(at);
      span.end = leaf.valueEnd(at);
    }
    return span;
  }

  #at(i: number): number {
    if (!(i >= 0 && i < this.length))
      throw new RangeError(`entry ${i} of a slice of ${this.length}`);
    return this.#reverse ? this.#from + this.length - 1 - i : this.#from + i;
  }
}
