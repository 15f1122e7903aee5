// _top_N and _bottom_N (VIEWS §16): up to N values, best first, by ICU order of values even in raw views; of values
// that compare equal the one met first stays.
//
// A stored part is the JSON texts, each after its length as a varint.

import { encodeKeyText } from "../collation/index.js";
import { writeVarint, varintLength } from "../views/row-value.js";
import { NumberReader, parsePlainNumber } from "./numbers.js";
import { visitValues } from "./rows.js";
import { textOf } from "./term.js";
import type { Accumulator, LeafRows, ReduceOutcome } from "./types.js";

interface Ranked {
  /** Root collation key of the value. */
  readonly key: Uint8Array;
  readonly text: Uint8Array;
  /** The value if it is a plain number, else NaN. */
  readonly number: number;
}

export class RankAccumulator implements Accumulator {
  readonly #size: number;
  /** 1 when the lowest is the best, -1 when the highest is. */
  readonly #direction: 1 | -1;
  readonly #version: number;
  readonly #reader = new NumberReader();
  #best: Ranked[] = [];

  /** @param version - of the root order. */
  constructor(which: "_top_" | "_bottom_", size: number, version: number) {
    this.#version = version;
    this.#size = size;
    this.#direction = which === "_top_" ? -1 : 1;
  }

  reset(): void {
    this.#best = [];
  }

  addRows(slice: LeafRows): void {
    for (let i = 0; i < slice.length; i++) visitValues(slice.value(i), this.#add);
  }

  addPart(blob: Uint8Array, start: number, end: number): void {
    let at = start;
    while (at < end) {
      this.#reader.open(blob, at);
      const length = this.#reader.varint();
      at = this.#reader.pos + length;
      this.#add(blob, at - length, at);
    }
  }

  readonly #add = (bytes: Uint8Array, start: number, end: number): void => {
    const best = this.#best;
    const number = parsePlainNumber(bytes, start, end);
    const worst = best[this.#size - 1];
    // A full list of numbers turns most numbers away without a collation key.
    if (worst !== undefined && (number - worst.number) * this.#direction >= 0) return;
    const text = bytes.subarray(start, end);
    const key = encodeKeyText("root", text, this.#version);
    let low = 0;
    let high = best.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const order = Buffer.compare(key, (best[middle] as Ranked).key) * this.#direction;
      if (order === 0) return;
      if (order < 0) high = middle;
      else low = middle + 1;
    }
    if (low === this.#size) return;
    best.splice(low, 0, { key, text, number });
    if (best.length > this.#size) best.pop();
  };

  part(): Uint8Array {
    let size = 0;
    for (const { text } of this.#best) size += varintLength(text.length) + text.length;
    const bytes = new Uint8Array(size);
    let at = 0;
    for (const { text } of this.#best) {
      at = writeVarint(bytes, at, text.length);
      bytes.set(text, at);
      at += text.length;
    }
    return bytes;
  }

  outcome(): ReduceOutcome {
    return { value: `[${this.#best.map(({ text }) => textOf(text)).join(",")}]` };
  }

  failureOf(): undefined {
    return undefined;
  }
}
