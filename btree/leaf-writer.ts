// Encodes one leaf after the other: entries come in key order, one by one or as a range of an existing leaf, whose bytes are
// copied whole but for the first two entries. See leaf-node.ts for the encoding.

import { copyBytes, copyWords, viewOf, WORD_SLACK, writeVarint } from "./bytes.js";
import { frameRecord } from "./checksum.js";
import { BtreeError, invariant } from "./errors.js";
import { FRAME_BYTES, KEY_BYTES_MAX, KIND_LEAF, LEAF_START, NODE_ENTRIES_MAX } from "./format.js";
import {
  HEADER_POINTER,
  HEADER_SAME_SHARED,
  HEADER_SAME_VALUE,
  HEADER_SUFFIX_LONG,
  decodeLeaf,
  type LeafNode,
} from "./leaf-node.js";
import type { Bytes, MergedEntry } from "./types.js";

/** Header, three varints of at most 5 bytes, and what a copy by words may write beyond its end. */
const ENTRY_OVERHEAD_MAX = 16 + WORD_SLACK;

const UNKNOWN = -2;

export class LeafWriter {
  bytes: Bytes;
  #words: DataView;
  used = LEAF_START;
  count = 0;
  #last: Bytes = new Uint8Array(256);
  /** -1 before the first key of all; UNKNOWN after `putSuccessor` and `take`, until it is needed. */
  #lastLength = -1;
  #lastShared = 0;
  #lastValueLength = 0;

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity);
    this.#words = viewOf(this.bytes);
  }

  /** Begins the next leaf. The last key is kept, for order and separator. */
  clear(): void {
    this.used = LEAF_START;
    this.count = 0;
    this.#lastShared = 0;
    this.#lastValueLength = 0;
  }

  /** Takes over a leaf's content; its bytes begin with room for the head. */
  adopt(leaf: Bytes, count: number): void {
    this.clear();
    this.#ensure(leaf.length - this.used);
    this.bytes.set(leaf.subarray(LEAF_START), LEAF_START);
    this.used = leaf.length;
    this.count = count;
    this.#lastLength = UNKNOWN;
  }

  /** The content, which stands in `bytes` already, is that of a leaf: so many bytes, the head included. */
  take(used: number, count: number): void {
    this.used = used;
    this.count = count;
    this.#lastLength = count > 0 ? UNKNOWN : -1;
  }

  /** Forgets the last key too. */
  reset(): void {
    this.clear();
    this.#lastLength = -1;
  }

  /** A view of the last key that was written. */
  get lastKey(): Bytes {
    if (this.#lastLength === UNKNOWN) this.#restoreLast();
    return this.#last.subarray(0, Math.max(0, this.#lastLength));
  }

  /**
   * Bytes that a key shares with the last one.
   * @throws BtreeError BTREE_KEY_ORDER when it is not greater.
   */
  sharedWithLast(kb: Bytes, ks: number, ke: number): number {
    if (this.#lastLength === UNKNOWN) this.#restoreLast();
    const last = this.#last;
    const lastLength = this.#lastLength;
    const keyLength = ke - ks;
    const limit = keyLength < lastLength ? keyLength : lastLength;
    let shared = 0;
    while (shared < limit && last[shared] === kb[ks + shared]) shared++;
    if (shared === limit) {
      if (shared === keyLength && lastLength >= 0) throw keyOrder();
      return shared;
    }
    if ((kb[ks + shared] as number) < (last[shared] as number)) throw keyOrder();
    return shared;
  }

  /** Writes an entry whose key shares `shared` bytes with the last one. */
  put(
    shared: number,
    kb: Bytes,
    ks: number,
    ke: number,
    vb: Bytes,
    vs: number,
    ve: number,
    pointer: boolean,
  ): void {
    const keyLength = ke - ks;
    if (keyLength > KEY_BYTES_MAX)
      throw new BtreeError("BTREE_LIMIT", `a key of ${keyLength} bytes exceeds ${KEY_BYTES_MAX}`);
    if (keyLength > this.#last.length) this.#growLast(keyLength);
    // In a leaf the first key stands whole; what it shares with the leaf before is known from #last all the same.
    const last = this.#last;
    const from = this.count === 0 ? 0 : shared;
    this.#emit(from, kb, ks + from, ke, vb, vs, ve, pointer);
    const end = ks + keyLength;
    if (keyLength - shared < 48) {
      for (let i = ks + shared, at = shared; i < end; i++) last[at++] = kb[i] as number;
    } else {
      last.set(kb.subarray(ks + shared, end), shared);
    }
    this.#lastLength = keyLength;
  }

  /**
   * Writes an entry of a merge, whose key shares exactly `shared` bytes with the last one and is greater, as the merge knows. Mostly the
   * rest of the key and the value are one piece of the entry's buffer and are copied as such; the key is neither looked at nor kept.
   */
  putSuccessor(shared: number, entry: MergedEntry): void {
    const { keyLength, valueStart, valueEnd } = entry;
    const from = this.count === 0 ? 0 : shared;
    const suffix = keyLength - from;
    const pos = this.#putHeader(from, suffix, valueEnd - valueStart, false);
    const valueAt = pos + suffix;
    const end = valueAt + valueEnd - valueStart;
    if (from >= entry.suffixFrom) {
      copyWords(entry.bufferWords, valueStart - suffix, valueEnd, this.#words, pos);
    } else {
      copyWords(entry.keyWords, from, keyLength, this.#words, pos);
      copyWords(entry.bufferWords, valueStart, valueEnd, this.#words, valueAt);
    }
    this.used = end;
    this.count++;
    this.#lastLength = UNKNOWN;
  }

  /** Writes the entries [from, to) of a leaf. */
  putRange(leaf: LeafNode, from: number, to: number): void {
    if (from >= to) return;
    const keys = leaf.keys;
    const first = keys.key(from);
    this.put(
      this.sharedWithLast(first, 0, first.length),
      first,
      0,
      first.length,
      leaf.bytes,
      leaf.valueStart(from),
      leaf.valueEnd(from),
      leaf.isPointer(from),
    );
    if (from + 1 === to) return;
    // The second one's header may refer to what the first one shares, which has changed; from the third on nothing has.
    const second = from + 1;
    const table = keys.table;
    this.#emit(
      keys.shared(second),
      leaf.bytes,
      table[second * 4] as number,
      table[second * 4 + 2] as number,
      leaf.bytes,
      leaf.valueStart(second),
      leaf.valueEnd(second),
      leaf.isPointer(second),
    );
    const start = keys.entryEnd(second);
    const end = keys.entryEnd(to - 1);
    this.#ensure(end - start);
    copyBytes(leaf.bytes, start, end, this.bytes, this.used);
    this.used += end - start;
    this.count += to - second - 1;
    const lastIndex = to - 1;
    this.#lastShared = keys.shared(lastIndex);
    this.#lastValueLength = leaf.valueEnd(lastIndex) - leaf.valueStart(lastIndex);
    this.#lastLength = keys.keyLength(lastIndex);
    this.#growLast(this.#lastLength);
    keys.keyInto(lastIndex, this.#last);
  }

  /** The finished record, framed but not sealed: a view until the next entry. */
  record(): Bytes {
    invariant(this.count > 0 && this.count <= NODE_ENTRIES_MAX, `a leaf of ${this.count} entries`);
    this.bytes[FRAME_BYTES] = this.count & 0xff;
    this.bytes[FRAME_BYTES + 1] = this.count >>> 8;
    frameRecord(this.bytes, 0, this.used, KIND_LEAF);
    return this.bytes.subarray(0, this.used);
  }

  #emit(
    shared: number,
    kb: Bytes,
    ss: number,
    se: number,
    vb: Bytes,
    vs: number,
    ve: number,
    pointer: boolean,
  ): void {
    let pos = this.#putHeader(shared, se - ss, ve - vs, pointer);
    const { bytes } = this;
    copyBytes(kb, ss, se, bytes, pos);
    pos += se - ss;
    copyBytes(vb, vs, ve, bytes, pos);
    this.used = pos + ve - vs;
    this.count++;
  }

  /** Makes room for an entry and writes all but its bytes; returns where these belong. */
  #putHeader(shared: number, suffix: number, valueLength: number, pointer: boolean): number {
    if (this.used + suffix + valueLength + ENTRY_OVERHEAD_MAX > this.bytes.length) {
      this.#ensure(suffix + valueLength + ENTRY_OVERHEAD_MAX);
    }
    const bytes = this.bytes;
    let pos = this.used;
    let header = 0;
    if (shared === this.#lastShared) header = HEADER_SAME_SHARED;
    if (valueLength === this.#lastValueLength) header |= HEADER_SAME_VALUE;
    if (pointer || suffix >= HEADER_SUFFIX_LONG) {
      bytes[pos] = header | (pointer ? HEADER_POINTER : HEADER_SUFFIX_LONG);
      pos = writeVarint(bytes, pos + 1, suffix);
    } else {
      bytes[pos++] = header | suffix;
    }
    if (shared !== this.#lastShared) {
      this.#lastShared = shared;
      if (shared < 0x80) bytes[pos++] = shared;
      else pos = writeVarint(bytes, pos, shared);
    }
    if (valueLength !== this.#lastValueLength) {
      this.#lastValueLength = valueLength;
      if (valueLength < 0x80) bytes[pos++] = valueLength;
      else pos = writeVarint(bytes, pos, valueLength);
    }
    return pos;
  }

  /** Finds the last key in the leaf under way. */
  #restoreLast(): void {
    const leaf = decodeLeaf(this.bytes, this.used, this.count);
    invariant(leaf !== undefined && leaf.count > 0, "the last key of a leaf is asked for too late");
    const length = leaf.keys.keyLength(leaf.count - 1);
    this.#growLast(length);
    leaf.keys.keyInto(leaf.count - 1, this.#last);
    this.#lastLength = length;
    this.#lastShared = leaf.keys.shared(leaf.count - 1);
    this.#lastValueLength = leaf.valueEnd(leaf.count - 1) - leaf.valueStart(leaf.count - 1);
  }

  #ensure(more: number): void {
    if (this.used + more <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(this.used + more, this.bytes.length * 2));
    grown.set(this.bytes.subarray(0, this.used));
    this.bytes = grown;
    this.#words = viewOf(grown);
  }

  #growLast(length: number): void {
    if (length <= this.#last.length) return;
    const grown = new Uint8Array(Math.max(length, this.#last.length * 2));
    grown.set(this.#last);
    this.#last = grown;
  }
}

function keyOrder(): BtreeError {
  return new BtreeError("BTREE_KEY_ORDER", "keys must be handed over in strictly ascending order");
}
