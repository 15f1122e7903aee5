// LeafSlice over a decoded leaf: keys are made on demand, values are views.

import type { LeafNode } from "./leaf-node.js";
import type { NodeSource } from "./node-source.js";
import type { Bytes, ByteSpan, LeafSlice } from "./types.js";

export class NodeSlice implements LeafSlice {
  readonly length: number;
  readonly #leaf: LeafNode;
  readonly #source: NodeSource;
  readonly #from: number;
  readonly #reverse: boolean;
  readonly #span: { bytes: Bytes; start: number; end: number };
  #lastIndex = -2;
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
