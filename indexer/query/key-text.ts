// The JSON text of a row's key: stored beside the value where the collation key does not tell it, else decoded from there.

import { type Bytes } from "../../btree/index.js";
import { decodeKey, keyEnd } from "../collation/index.js";
import { type CollationKind } from "../reducers/index.js";
import { ByteCursor, ROW_KEY_TEXT } from "../views/row-value.js";
import { textOf } from "./text.js";

const NOTHING = new Uint8Array(0);

/** Reads keys of one view, remembering the last: neighbours often share their key. */
export class KeyTexts {
  readonly #kind: CollationKind;
  readonly #version: number;
  readonly #start: number;
  #last: Bytes = NOTHING;
  #lastEnd = 0;
  #lastText: string | undefined;

  /**
   * @param version Of the root order.
   * @param start Where the collation key begins: after the partition, if there is one.
   */
  constructor(kind: CollationKind, version: number, start: number) {
    this.#kind = kind;
    this.#version = version;
    this.#start = start;
  }

  /** Index where the document id begins. */
  end(key: Bytes): number {
    const end = this.#lastEnd;
    if (end > this.#start && key.length >= end) {
      const last = this.#last;
      let i = this.#start;
      while (i < end && key[i] === last[i]) i++;
      // No collation key is the beginning of another, so equal bytes are the whole key.
      if (i === end) return end;
    }
    this.#last = key;
    this.#lastText = undefined;
    return (this.#lastEnd = keyEnd(this.#kind, key, this.#start));
  }

  /** Call `end(key)` first. `value` is the entry's. */
  text(key: Bytes, value: Bytes): string {
    if (((value[0] as number) & ROW_KEY_TEXT) !== 0) {
      const cursor = new ByteCursor(value, 1);
      const length = cursor.varint();
      return textOf(value, cursor.pos, cursor.pos + length);
    }
    return (this.#lastText ??= decodeKey(this.#kind, key, this.#start, key.length, this.#version));
  }
}
