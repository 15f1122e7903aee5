// _first and _last (VIEWS §16): the value of the row with the lowest or highest (key, document id), by ICU order even
// in raw views. Of several values of one row CouchDB's folds, which meet them in descending order, leave the
// greatest to _first and the least to _last.
//
// A stored part is  place-length varint, place, value JSON; the place is root collation key + document id. Empty: no rows.

import { encodeKeyText } from "../collation/index.js";
import { writeVarint, varintLength } from "../views/row-value.js";
import { NumberReader } from "./numbers.js";
import { type KeyLayout, docIdOf, keyText, visitValues } from "./rows.js";
import { textOf } from "./term.js";
import type { Accumulator, LeafRows, ReduceOutcome } from "./types.js";

export class FirstLastAccumulator implements Accumulator {
  readonly #layout: KeyLayout;
  readonly #last: boolean;
  readonly #reader = new NumberReader();
  #place: Uint8Array | undefined;
  #value: Uint8Array = new Uint8Array(0);
  #candidate: Uint8Array = new Uint8Array(0);

  constructor(layout: KeyLayout, which: "_first" | "_last") {
    this.#layout = layout;
    this.#last = which === "_last";
  }

  reset(): void {
    this.#place = undefined;
  }

  addRows(slice: LeafRows): void {
    if (slice.length === 0) return;
    if (this.#layout.collation === "root") {
      // The tree has the order that is asked for; a partition before the key is the same in all rows that meet.
      const i = this.#last ? slice.length - 1 : 0;
      this.#addEntry(slice.key(i), slice.value(i));
      return;
    }
    for (let i = 0; i < slice.length; i++) {
      const key = slice.key(i);
      const entry = slice.value(i);
      const root = encodeKeyText("root", keyText(this.#layout, key, entry), this.#layout.version);
      this.#addEntry(Buffer.concat([root, docIdOf(this.#layout, key)]), entry);
    }
  }

  #addEntry(place: Uint8Array, entry: Uint8Array): void {
    if (!this.#wins(place)) return;
    let taken = false;
    visitValues(entry, (bytes, start, end) => {
      if (!taken || this.#last) this.#candidate = bytes.subarray(start, end);
      taken = true;
    });
    this.#take(place, this.#candidate);
  }

  #wins(place: Uint8Array): boolean {
    if (this.#place === undefined) return true;
    const order = Buffer.compare(place, this.#place);
    return this.#last ? order > 0 : order <= 0;
  }

  #take(place: Uint8Array, value: Uint8Array): void {
    this.#place = place;
    this.#value = value;
  }

  addPart(blob: Uint8Array, start: number, end: number): void {
    if (start === end) return;
    this.#reader.open(blob, start);
    const length = this.#reader.varint();
    const at = this.#reader.pos;
    const place = blob.subarray(at, at + length);
    if (this.#wins(place)) this.#take(place, blob.subarray(at + length, end));
  }

  part(): Uint8Array {
    const place = this.#place;
    if (place === undefined) return new Uint8Array(0);
    const head = varintLength(place.length);
    const bytes = new Uint8Array(head + place.length + this.#value.length);
    writeVarint(bytes, 0, place.length);
    bytes.set(place, head);
    bytes.set(this.#value, head + place.length);
    return bytes;
  }

  outcome(): ReduceOutcome {
    return { value: this.#place === undefined ? "null" : textOf(this.#value) };
  }

  failureOf(): undefined {
    return undefined;
  }
}
