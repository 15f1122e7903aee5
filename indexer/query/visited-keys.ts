// Keys of entries that are visited one after the other: where each ends, its JSON text and its value, made once for neighbours that share it.

import { type VisitedSlice } from "../../btree/index.js";
import { decodeKey, keyEnd } from "../collation/index.js";
import { type CollationKind } from "../reducers/index.js";
import { ByteCursor, ROW_KEY_TEXT } from "../views/row-value.js";
import { textOf } from "./text.js";

export class VisitedKeys {
  readonly #kind: CollationKind;
  readonly #version: number;
  readonly #start: number;
  #end = 0;
  #text: string | undefined;
  /** A string or number, which rows may share; undefined when the key must be parsed for each. */
  #plain: unknown;

  /**
   * @param version Of the root order.
   * @param start Where the collation key begins: after the partition, if there is one.
   */
  constructor(kind: CollationKind, version: number, start: number) {
    this.#kind = kind;
    this.#version = version;
    this.#start = start;
  }

  /** Index where the document id begins. To be called for each entry that is visited, before anything else. */
  end(entry: VisitedSlice): number {
    // No collation key is the beginning of another, so equal bytes are the whole key.
    if (this.#end > 0 && entry.keyShared >= this.#end) return this.#end;
    this.#text = undefined;
    this.#plain = undefined;
    return (this.#end = keyEnd(this.#kind, entry.keyBytes, this.#start));
  }

  /** Stored beside the value where the collation key does not tell it, else decoded from there. */
  text(entry: VisitedSlice): string {
    const { valueBytes, valueStart } = entry;
    if (((valueBytes[valueStart] as number) & ROW_KEY_TEXT) !== 0) {
      const cursor = new ByteCursor(valueBytes, valueStart + 1, entry.valueEnd);
      const length = cursor.varint();
      return textOf(valueBytes, cursor.pos, cursor.pos + length);
    }
    const { keyBytes, keyLength } = entry;
    return (this.#text ??= decodeKey(this.#kind, keyBytes, this.#start, keyLength, this.#version));
  }

  /** The key, parsed. */
  value(entry: VisitedSlice): unknown {
    // A row with a text of its own has another key than its neighbours, for all that collates equally.
    const own = ((entry.valueBytes[entry.valueStart] as number) & ROW_KEY_TEXT) !== 0;
    if (!own && this.#plain !== undefined) return this.#plain;
    const text = this.text(entry);
    // Between the quotes of a string without escapes is the string.
    const value: unknown =
      text.startsWith('"') && !text.includes("\\") ? text.slice(1, -1) : JSON.parse(text);
    if (!own && (typeof value === "string" || typeof value === "number")) this.#plain = value;
    return value;
  }
}
