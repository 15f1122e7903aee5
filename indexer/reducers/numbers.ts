// Numbers in stored parts, and numbers straight from JSON text: the two hot spots of _sum and _stats.

import { writeVarint } from "../views/row-value.js";

/** Powers of ten that are exact doubles. */
const POW10 = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));

/** Significant digits that surely stay below 2^53. */
const DIGITS_MAX = 15;

/**
 * The number whose plain JSON text is `bytes[start..end)`, correctly rounded; NaN for anything else and for the
 * rare forms (exponents, more than 15 digits) that a real parser must see.
 */
export function parsePlainNumber(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  const negative = bytes[at] === 0x2d;
  if (negative) at++;
  if (at >= end || end - at > DIGITS_MAX + 1) return Number.NaN;
  let value = 0;
  let point = -1;
  do {
    const digit = (bytes[at] as number) - 0x30;
    if (digit >= 0 && digit <= 9) value = value * 10 + digit;
    else if (digit === -2 && point < 0) point = at;
    else return Number.NaN;
  } while (++at < end);
  if (point >= 0) value /= POW10[end - point - 1] as number;
  else if (value > 999_999_999_999_999) return Number.NaN;
  return negative ? -value : value;
}

/** The numbers of a flat list of plain numbers `[n,…]` in `bytes[start..end)`; undefined for anything else. */
export function parsePlainList(
  bytes: Uint8Array,
  start: number,
  end: number,
): number[] | undefined {
  if (bytes[start] !== 0x5b || end - start < 3) return undefined;
  const numbers: number[] = [];
  for (let from = start + 1; from < end;) {
    let to = from;
    while (to < end - 1 && bytes[to] !== 0x2c) to++;
    const value = parsePlainNumber(bytes, from, to);
    if (Number.isNaN(value)) return undefined;
    numbers.push(value);
    from = to + 1;
  }
  return numbers;
}

const VARINT_MAX = 2 ** 51;
const scratch = new DataView(new ArrayBuffer(8));

/** Whether a number is stored as a varint rather than as a double. */
export function isCompact(value: number): boolean {
  return Number.isInteger(value) && value <= VARINT_MAX && value >= -VARINT_MAX;
}

/** Bytes that `writeNumber` may need. */
export const NUMBER_BYTES_MAX = 8;

/** Writes a number as `isCompact` says; returns the position after it. */
export function writeNumber(dst: Uint8Array, pos: number, value: number): number {
  if (isCompact(value)) return writeVarint(dst, pos, value < 0 ? -2 * value - 1 : 2 * value);
  scratch.setFloat64(0, value);
  for (let i = 0; i < 8; i++) dst[pos + i] = scratch.getUint8(i);
  return pos + 8;
}

/** Reads what `writeNumber` wrote, moving through bytes. */
export class NumberReader {
  bytes: Uint8Array = new Uint8Array(0);
  pos = 0;

  open(bytes: Uint8Array, pos: number): void {
    this.bytes = bytes;
    this.pos = pos;
  }

  varint(): number {
    let scale = 1;
    let value = 0;
    for (;;) {
      const byte = this.bytes[this.pos++];
      if (byte === undefined) throw new RangeError("varint runs past its record");
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
  }

  number(compact: boolean): number {
    if (compact) {
      const zigzag = this.varint();
      return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
    }
    if (this.pos + 8 > this.bytes.length) throw new RangeError("double runs past its record");
    for (let i = 0; i < 8; i++) scratch.setUint8(i, this.bytes[this.pos + i] as number);
    this.pos += 8;
    return scratch.getFloat64(0);
  }
}
