// How a row's value lies in a view tree. The tree key is collationKey(key) + document id (UTF-8); the value is
//
//   flags u8 | [keyTextLength varint, key text]  if HAS_KEY_TEXT
//            | value JSON                          unless DUPS
//            | n varint, n × (length varint, JSON) if DUPS
//
// HAS_KEY_TEXT: the key's JSON text cannot be told from its collation key. DUPS: the document emitted this key n > 1 times;
// the values stand in Erlang term order (VIEWS §5).

/** Flag: the entry holds several values of one document and key. */
export const ROW_DUPS = 1;
/** Flag: the key's JSON text is stored. */
export const ROW_KEY_TEXT = 2;

/** Writes an unsigned varint (7 bits a byte, low first) at `pos`; returns the position after it. */
export function writeVarint(dst: Uint8Array, pos: number, value: number): number {
  while (value >= 0x80) {
    dst[pos++] = (value % 0x80) | 0x80;
    value = Math.floor(value / 0x80);
  }
  dst[pos++] = value;
  return pos;
}

export function varintLength(value: number): number {
  let n = 1;
  while (value >= 0x80) {
    value = Math.floor(value / 0x80);
    n++;
  }
  return n;
}

/** A position that moves through bytes. */
export class ByteCursor {
  pos: number;
  constructor(
    readonly bytes: Uint8Array,
    start: number,
    readonly end: number = bytes.length,
  ) {
    this.pos = start;
  }

  varint(): number {
    let scale = 1;
    let value = 0;
    for (;;) {
      if (this.pos >= this.end) throw new RangeError("varint runs past its record");
      const byte = this.bytes[this.pos++] as number;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
  }

  take(length: number): Uint8Array {
    if (this.pos + length > this.end) throw new RangeError("field runs past its record");
    const view = this.bytes.subarray(this.pos, this.pos + length);
    this.pos += length;
    return view;
  }
}

/** Rows an entry stands for; the `count` of every view tree's reducer. */
export function rowCount(bytes: Uint8Array, start: number, end: number): number {
  const flags = bytes[start] as number;
  if ((flags & ROW_DUPS) === 0) return 1;
  const cursor = new ByteCursor(bytes, start + 1, end);
  if (flags & ROW_KEY_TEXT) cursor.take(cursor.varint());
  return cursor.varint();
}

export interface RowValue {
  /** JSON text of the key where it is stored. */
  readonly keyText: Uint8Array | undefined;
  /** JSON texts of the values, in stored order. */
  readonly values: readonly Uint8Array[];
}

export function decodeRowValue(entry: Uint8Array): RowValue {
  const flags = entry[0] as number;
  const cursor = new ByteCursor(entry, 1);
  const keyText = flags & ROW_KEY_TEXT ? cursor.take(cursor.varint()) : undefined;
  if ((flags & ROW_DUPS) === 0) return { keyText, values: [entry.subarray(cursor.pos)] };
  const count = cursor.varint();
  const values: Uint8Array[] = [];
  for (let i = 0; i < count; i++) values.push(cursor.take(cursor.varint()));
  return { keyText, values };
}

export function encodeRowValue(row: RowValue): Uint8Array {
  const dups = row.values.length > 1;
  let size = 1;
  if (row.keyText) size += varintLength(row.keyText.length) + row.keyText.length;
  if (dups) size += varintLength(row.values.length);
  for (const value of row.values) size += value.length + (dups ? varintLength(value.length) : 0);
  const entry = new Uint8Array(size);
  entry[0] = (dups ? ROW_DUPS : 0) | (row.keyText ? ROW_KEY_TEXT : 0);
  let pos = 1;
  if (row.keyText) {
    pos = writeVarint(entry, pos, row.keyText.length);
    entry.set(row.keyText, pos);
    pos += row.keyText.length;
  }
  if (dups) pos = writeVarint(entry, pos, row.values.length);
  for (const value of row.values) {
    if (dups) pos = writeVarint(entry, pos, value.length);
    entry.set(value, pos);
    pos += value.length;
  }
  return entry;
}
