// A row of a view tree in another version of the root order: its key made anew from its JSON text.

import { ByteBuffer, decodeKey, KeyEncoder, keyEnd, type ByteSink } from "../collation/index.js";
import { decodeRowValue, encodeRowValue, ROW_KEY_TEXT } from "./row-value.js";
import { partitionEnd } from "./partitions.js";

const NOTHING = new Uint8Array(0);

/** Reusable, not re-entrant. */
export class RowRenewer {
  readonly #from: number;
  readonly #to: number;
  readonly #partitioned: boolean;
  readonly #encoder: KeyEncoder;
  readonly #sink = new ByteBuffer();
  /** The last key whose text was not stored, and what became of it: neighbours often share their key. */
  #last: Uint8Array = NOTHING;
  #lastMade: Uint8Array = NOTHING;
  #lastText: Uint8Array | undefined;

  /**
   * @param from - version of the root order that the rows are kept in.
   * @param to - the one they are to be kept in.
   * @param partitioned - a partition stands before each collation key, and stays as it is.
   */
  constructor(from: number, to: number, partitioned: boolean) {
    this.#from = from;
    this.#to = to;
    this.#partitioned = partitioned;
    this.#encoder = new KeyEncoder("root", to);
  }

  /** Index where the document id begins in a tree key. */
  idStart(treeKey: Uint8Array): number {
    return keyEnd("root", treeKey, this.#keyStart(treeKey));
  }

  /**
   * Appends the new key of a row to `sink`, with the partition and without the document id.
   *
   * @param key - the old one, likewise, or with the document id. Of a dropped row, the document id will do.
   * @param value - the row's value, which may hold the key's text, and does in a dropped row.
   * @returns the row's new value.
   */
  renew(key: Uint8Array, value: Uint8Array, sink: ByteSink): Uint8Array {
    const start = this.#keyStart(key);
    if ((value[0] as number) & ROW_KEY_TEXT) {
      const row = decodeRowValue(value);
      const exact = this.#encode(key, start, row.keyText as Uint8Array, sink);
      return exact ? encodeRowValue({ ...row, keyText: undefined }) : value;
    }
    const end = keyEnd("root", key, start);
    const old = key.subarray(0, end);
    if (Buffer.compare(old, this.#last) !== 0) {
      const text = Buffer.from(decodeKey("root", key, start, end, this.#from));
      this.#sink.clear();
      const exact = this.#encode(key, start, text, this.#sink);
      this.#last = old.slice();
      this.#lastMade = this.#sink.take();
      this.#lastText = exact ? undefined : text;
    }
    append(sink, this.#lastMade);
    return this.#lastText === undefined
      ? value
      : encodeRowValue({ ...decodeRowValue(value), keyText: this.#lastText });
  }

  /**
   * Of two rows of one document whose keys collate equally in the new order, one stays: whose key has the higher bytes (VIEWS §5).
   *
   * @param key - their new key.
   * @param a - the value of one, `b` of the other.
   * @returns the value of that one, and the other as a dropped row.
   */
  settle(
    key: Uint8Array,
    a: Uint8Array,
    b: Uint8Array,
  ): { readonly kept: Uint8Array; readonly dropped: Uint8Array } {
    const [textA, textB] = [this.#textOf(key, a), this.#textOf(key, b)];
    return Buffer.compare(textA, textB) >= 0
      ? { kept: a, dropped: withText(b, textB) }
      : { kept: b, dropped: withText(a, textA) };
  }

  #textOf(key: Uint8Array, value: Uint8Array): Uint8Array {
    const { keyText } = decodeRowValue(value);
    if (keyText) return keyText;
    return Buffer.from(decodeKey("root", key, this.#keyStart(key), key.length, this.#to));
  }

  /** Returns whether the text can be told from the key. */
  #encode(key: Uint8Array, start: number, text: Uint8Array, sink: ByteSink): boolean {
    append(sink, key.subarray(0, start));
    this.#encoder.encode(text, 0, sink);
    return this.#encoder.exact;
  }

  #keyStart(key: Uint8Array): number {
    return this.#partitioned ? partitionEnd(key) : 0;
  }
}

function withText(value: Uint8Array, keyText: Uint8Array): Uint8Array {
  return encodeRowValue({ ...decodeRowValue(value), keyText });
}

function append(sink: ByteSink, bytes: Uint8Array): void {
  sink.ensure(bytes.length);
  sink.bytes.set(bytes, sink.used);
  sink.used += bytes.length;
}
