// The rows that a custom reduce sees, as the text `[[[key,id],value],…]`: put together from bytes, decoded once. For a function that
// never looks at keys, `[[null,value],…]`, or only `[value,…]`.

import { decodeKey, keyEnd } from "../collation/index.js";
import { ByteCursor, ROW_KEY_TEXT } from "../views/row-value.js";
import { type KeyLayout, visitValues } from "./rows.js";
import type { LeafRows } from "./types.js";

const COMMA = 0x2c;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = 0x5b;
const CLOSE = 0x5d;

/** Above this a copy by the engine beats a loop. */
const LOOP_MAX = 48;

class RowsWriter {
  readonly #layout: KeyLayout;
  #bytes = Buffer.allocUnsafe(16 * 1024);
  #used = 0;
  /** `[[key,id],` of the row under way, in `#bytes`. */
  #headStart = 0;
  #headEnd = 0;

  constructor(layout: KeyLayout) {
    this.#layout = layout;
  }

  start(): void {
    this.#used = 0;
    this.#byte(OPEN);
  }

  finish(): string {
    // The last comma gives way; without rows there is none.
    if (this.#used > 1) this.#used--;
    this.#byte(CLOSE);
    return this.#bytes.toString("utf8", 0, this.#used);
  }

  row(slice: LeafRows, i: number): void {
    const key = slice.key(i);
    const entry = slice.value(i);
    const start = this.#layout.keyStart(key);
    this.#headStart = this.#used;
    this.#headEnd = 0;
    this.#byte(OPEN);
    this.#byte(OPEN);
    if ((entry[0] as number) & ROW_KEY_TEXT) {
      const cursor = new ByteCursor(entry, 1);
      const length = cursor.varint();
      this.#copy(entry, cursor.pos, cursor.pos + length);
    } else {
      const { collation, version } = this.#layout;
      this.#text(decodeKey(collation, key, start, key.length, version));
    }
    this.#byte(COMMA);
    this.#id(key, keyEnd(this.#layout.collation, key, start));
    this.#byte(CLOSE);
    this.#byte(COMMA);
    visitValues(entry, this.#value);
  }

  /** The first value follows its head; others repeat the head. */
  readonly #value = (bytes: Uint8Array, start: number, end: number): void => {
    if (this.#headEnd === 0) this.#headEnd = this.#used;
    else this.#copy(this.#bytes, this.#headStart, this.#headEnd);
    this.#copy(bytes, start, end);
    this.#byte(CLOSE);
    this.#byte(COMMA);
  };

  #id(key: Uint8Array, start: number): void {
    for (let i = start; i < key.length; i++) {
      const c = key[i] as number;
      if (c < 0x20 || c === QUOTE || c === BACKSLASH) {
        this.#text(JSON.stringify(Buffer.from(key.subarray(start)).toString()));
        return;
      }
    }
    this.#byte(QUOTE);
    this.#copy(key, start, key.length);
    this.#byte(QUOTE);
  }

  #ensure(n: number): void {
    const size = this.#used + n;
    if (size <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(size, 2 * this.#bytes.length));
    larger.set(this.#bytes.subarray(0, this.#used));
    this.#bytes = larger;
  }

  #byte(value: number): void {
    this.#ensure(1);
    this.#bytes[this.#used++] = value;
  }

  #text(text: string): void {
    this.#ensure(3 * text.length);
    this.#used += this.#bytes.write(text, this.#used, "utf8");
  }

  #copy(src: Uint8Array, start: number, end: number): void {
    const length = end - start;
    // Copying from this very buffer: it may grow, the old one stays as it was.
    this.#ensure(length);
    const dst = this.#bytes;
    if (length > LOOP_MAX) dst.set(src.subarray(start, end), this.#used);
    else for (let i = 0; i < length; i++) dst[this.#used + i] = src[start + i] as number;
    this.#used += length;
  }
}

/**
 * The rows of slices in ascending order, or descending when `reverse`. The values of one document and key come last
 * first either way.
 */
export function rowsText(layout: KeyLayout, slices: readonly LeafRows[], reverse: boolean): string {
  const writer = new RowsWriter(layout);
  writer.start();
  eachRow(slices, reverse, (slice, i) => {
    writer.row(slice, i);
  });
  return writer.finish();
}

const NO_KEY = Buffer.from("[null,");
const NOTHING = new Uint8Array(0);
/** Kept from call to call: nothing waits while a text is put together. */
let values = Buffer.allocUnsafeSlow(16 * 1024);

/** The same rows without keys and ids: `[[null,value],…]`, or `[value,…]` when they are `bare`. */
export function valuesText(slices: readonly LeafRows[], reverse: boolean, bare: boolean): string {
  const head = bare ? NOTHING : NO_KEY;
  values[0] = OPEN;
  let used = 1;
  const put = (bytes: Uint8Array, start: number, end: number): void => {
    const size = used + head.length + end - start + 3;
    if (size > values.length) {
      const larger = Buffer.allocUnsafeSlow(2 * size);
      larger.set(values.subarray(0, used));
      values = larger;
    }
    for (let i = 0; i < head.length; i++) values[used++] = head[i] as number;
    if (end - start > LOOP_MAX) {
      values.set(bytes.subarray(start, end), used);
      used += end - start;
    } else for (let i = start; i < end; i++) values[used++] = bytes[i] as number;
    if (!bare) values[used++] = CLOSE;
    values[used++] = COMMA;
  };
  eachRow(slices, reverse, (slice, i) => {
    const { bytes, start, end } = slice.span(i);
    // One value, and no text of the key before it.
    if (bytes[start] === 0) put(bytes, start + 1, end);
    else visitValues(bytes.subarray(start, end), put);
  });
  // The last comma gives way; without rows there is none.
  if (used > 1) used--;
  values[used++] = CLOSE;
  return values.toString("utf8", 0, used);
}

function eachRow(
  slices: readonly LeafRows[],
  reverse: boolean,
  visit: (slice: LeafRows, i: number) => void,
): void {
  if (!reverse) {
    for (const slice of slices) for (let i = 0; i < slice.length; i++) visit(slice, i);
    return;
  }
  for (let s = slices.length - 1; s >= 0; s--) {
    const slice = slices[s] as LeafRows;
    for (let i = slice.length - 1; i >= 0; i--) visit(slice, i);
  }
}
