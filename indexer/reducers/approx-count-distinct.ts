// _approx_count_distinct (VIEWS §16): HyperLogLog over the keys of rows, 2048 registers, SHA-1 of Erlang's external
// terms. Estimates are CouchDB's to the digit; the layout of the registers is ours.
//
// A stored part is  SPARSE (varint (gap·8 + min(rank,7)) [varint rank-7 if 7])…  |  DENSE floor, 1024 bytes of two
// 4-bit offsets from the floor, then one byte for each register whose offset is 15 or more.

import { keyEnd } from "../collation/index.js";
import { ROW_KEY_TEXT, writeVarint } from "../views/row-value.js";
import { estimateBias } from "./hll-bias.js";
import { TermWriter } from "./erlang.js";
import { NumberReader } from "./numbers.js";
import { type KeyLayout, keyText } from "./rows.js";
import { DepthError } from "./term.js";
import { sha1 } from "./sha1.js";
import type { Accumulator, LeafRows, ReduceOutcome } from "./types.js";

const BITS = 11;
const REGISTERS = 1 << BITS;
const ALPHA = 0.7213 / (1 + 1.079 / REGISTERS);
/** Up to here linear counting is the better estimate. */
const LINEAR_MAX = 1800;

const SPARSE = 0;
const DENSE = 1;
const DENSE_BYTES = 2 + REGISTERS / 2;
const NIBBLE_MAX = 15;
/** Ranks end at 54: 53 zero bits and one. */
const RANK_BITS = 53;

/** Of the first 64 bits of a hash, 11 choose the register; the zeros that lead the other 53 give the rank, 1 to 54. */
export function rankOfHash(high: number, low: number): number {
  const rest = (high << BITS) | (low >>> (32 - BITS));
  if (rest !== 0) return 1 + Math.clz32(rest);
  return 33 + Math.min(Math.clz32(low << BITS), RANK_BITS - 32);
}

export class DistinctAccumulator implements Accumulator {
  readonly #layout: KeyLayout;
  readonly #writer = new TermWriter();
  readonly #reader = new NumberReader();
  readonly #registers = new Uint8Array(REGISTERS);
  /** Registers that are not zero, so that a small set costs little. */
  readonly #touched = new Uint16Array(REGISTERS);
  #touchedCount = 0;
  #lastKey: Uint8Array = new Uint8Array(0);
  #lastEnd = 0;
  readonly #digest = new Int32Array(5);

  constructor(layout: KeyLayout) {
    this.#layout = layout;
  }

  reset(): void {
    for (let i = 0; i < this.#touchedCount; i++) {
      this.#registers[this.#touched[i] as number] = 0;
    }
    this.#touchedCount = 0;
    this.#lastEnd = 0;
  }

  addRows(slice: LeafRows): void {
    for (let i = 0; i < slice.length; i++) {
      const key = slice.key(i);
      const entry = slice.value(i);
      if (this.#isLast(key, entry)) continue;
      this.#addKey(keyText(this.#layout, key, entry));
    }
  }

  /** Whether a key has the very text of the last one hashed, so that it need not be hashed. */
  #isLast(key: Uint8Array, entry: Uint8Array): boolean {
    // Where the text is stored, keys of equal bytes may differ.
    if ((entry[0] as number) & ROW_KEY_TEXT) return false;
    const { collation, keyStart } = this.#layout;
    const start = keyStart(key);
    const last = this.#lastKey;
    let at = start;
    while (at < this.#lastEnd && key[at] === last[at]) at++;
    // No collation key is the beginning of another, so equal bytes are the whole key.
    if (at > start && at === this.#lastEnd) return true;
    this.#lastKey = key;
    this.#lastEnd = keyEnd(collation, key, start);
    return false;
  }

  /** Counts a key, given as JSON text. */
  #addKey(text: string): void {
    this.#encode(text);
    sha1(this.#writer.bytes, this.#writer.length, this.#digest);
    const high = this.#digest[0] as number;
    const low = this.#digest[1] as number;
    this.#raise(high >>> (32 - BITS), rankOfHash(high, low));
  }

  /** Writes the bytes to be hashed. */
  #encode(text: string): void {
    try {
      this.#writer.encode(text);
    } catch (error) {
      if (!(error instanceof DepthError)) throw error;
      // Its text tells such a key from others just as well.
      this.#writer.encode(JSON.stringify(text));
    }
  }

  #raise(index: number, rank: number): void {
    const old = this.#registers[index] as number;
    if (rank <= old) return;
    if (old === 0) this.#touched[this.#touchedCount++] = index;
    this.#registers[index] = rank;
  }

  addPart(blob: Uint8Array, start: number, end: number): void {
    if (blob[start] === DENSE) {
      this.#addDense(blob, start);
      return;
    }
    const reader = this.#reader;
    reader.open(blob, start + 1);
    let index = -1;
    while (reader.pos < end) {
      const code = reader.varint();
      index += (code >>> 3) + 1;
      const rank = code & 7;
      this.#raise(index, rank === 7 ? 7 + reader.varint() : rank);
    }
  }

  #addDense(blob: Uint8Array, start: number): void {
    const floor = blob[start + 1] as number;
    let exception = start + DENSE_BYTES;
    for (let i = 0; i < REGISTERS; i++) {
      const pair = blob[start + 2 + (i >> 1)] as number;
      const nibble = (i & 1) === 0 ? pair & 15 : pair >> 4;
      const rank = nibble === NIBBLE_MAX ? (blob[exception++] as number) : floor + nibble;
      if (rank > 0) this.#raise(i, rank);
    }
  }

  part(): Uint8Array {
    const sparse = this.#sparse();
    return sparse ?? this.#dense();
  }

  #sparse(): Uint8Array | undefined {
    if (this.#touchedCount * 2 > DENSE_BYTES) return undefined;
    const indexes = this.#touched.slice(0, this.#touchedCount).sort();
    const bytes = new Uint8Array(1 + this.#touchedCount * 4);
    bytes[0] = SPARSE;
    let pos = 1;
    let previous = -1;
    for (const index of indexes) {
      const rank = this.#registers[index] as number;
      pos = writeVarint(bytes, pos, (index - previous - 1) * 8 + Math.min(rank, 7));
      if (rank >= 7) pos = writeVarint(bytes, pos, rank - 7);
      previous = index;
    }
    return pos > DENSE_BYTES ? undefined : bytes.slice(0, pos);
  }

  #dense(): Uint8Array {
    const registers = this.#registers;
    let floor = 255;
    for (const rank of registers) if (rank < floor) floor = rank;
    const bytes = new Uint8Array(DENSE_BYTES + REGISTERS);
    bytes[0] = DENSE;
    bytes[1] = floor;
    let exception = DENSE_BYTES;
    for (let i = 0; i < REGISTERS; i++) {
      const rank = registers[i] as number;
      const nibble = Math.min(rank - floor, NIBBLE_MAX);
      if (nibble === NIBBLE_MAX) bytes[exception++] = rank;
      const at = 2 + (i >> 1);
      bytes[at] = (bytes[at] as number) | (nibble << ((i & 1) * 4));
    }
    return bytes.slice(0, exception);
  }

  outcome(): ReduceOutcome {
    return { value: String(this.#estimate()) };
  }

  failureOf(): undefined {
    return undefined;
  }

  #estimate(): number {
    const zeros = REGISTERS - this.#touchedCount;
    const linear = zeros > 0 ? REGISTERS * Math.log(REGISTERS / zeros) : Number.POSITIVE_INFINITY;
    if (linear <= LINEAR_MAX) return Math.round(linear);
    let sum = 0;
    for (const rank of this.#registers) sum += 2 ** -rank;
    const raw = (ALPHA * REGISTERS * REGISTERS) / sum;
    const corrected = raw <= 5 * REGISTERS ? raw - estimateBias(raw) : raw;
    return Math.round(corrected);
  }
}
