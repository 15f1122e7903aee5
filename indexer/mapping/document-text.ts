// The text of each document of a chunk as its map functions are to see it: whole, or cut down to the members they can see.

import { Projector } from "./projector.js";
import type { Slices } from "../sources/index.js";

/** Cutting down is given up when more than this share of the bytes is wanted anyway. */
const WANTED_SHARE_MAX = 0.6;
const SAMPLE_DOCUMENTS = 64;
/** Shorter pieces are copied byte by byte. */
const LONG_PIECE = 64;

const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export class DocumentText {
  readonly #slices: Slices;
  readonly #docs: Buffer;
  /** The same buffer as words, and where the documents begin in it. */
  readonly #words: Uint32Array;
  readonly #shift: number;
  #projector: Projector | undefined;
  #block = "";
  #base = 0;
  #sampled = 0;
  #bytes = 0;
  #wanted = 0;
  /** Documents gathered so far: a JSON list without its end. */
  #list = Buffer.allocUnsafe(8 * 1024);
  #listed = 0;
  /** All bytes of it, or-ed. */
  #listHigh = 0;

  /** @param members - names of the members that the functions can see; undefined for whole documents. */
  constructor(slices: Slices, members: ReadonlySet<string> | undefined) {
    this.#slices = slices;
    this.#docs = Buffer.from(slices.docs.buffer, slices.docs.byteOffset, slices.docs.byteLength);
    const { buffer, byteOffset } = this.#docs;
    this.#words = new Uint32Array(buffer, 0, buffer.byteLength >>> 2);
    this.#shift = byteOffset;
    this.#projector = members && new Projector(members);
  }

  /** Documents [start, end) are asked for next. */
  enter(start: number, end: number): void {
    const { docStart, docEnd } = this.#slices;
    this.#base = docStart[start] as number;
    // Latin-1 makes one character of each byte, so what is ASCII is a slice of the block's string; other text is decoded.
    this.#block = this.#docs.toString("latin1", this.#base, docEnd[end - 1]);
  }

  /** As the functions are to see it. */
  get(i: number): string {
    const from = this.#slices.docStart[i] as number;
    const to = this.#slices.docEnd[i] as number;
    const projector = this.#projector;
    if (!projector?.project(this.#docs, from, to)) return this.#slice(from, to);
    if (this.#sampled < SAMPLE_DOCUMENTS) this.#sample(projector, to - from);
    const { count } = projector;
    if (count === 1)
      return `{${this.#slice(projector.from[0] as number, projector.to[0] as number)}}`;
    let text = "{";
    for (let k = 0; k < count; k++) {
      if (k > 0) text += ",";
      text += this.#slice(projector.from[k] as number, projector.to[k] as number);
    }
    return `${text}}`;
  }

  /** Whether documents are cut down: only these can be gathered, because cutting proves that they are JSON. */
  get gathers(): boolean {
    return this.#projector !== undefined;
  }

  /** Gathers a document, as the functions are to see it, for {@link takeList}. False when it has to go by itself. */
  gather(i: number): boolean {
    const from = this.#slices.docStart[i] as number;
    const to = this.#slices.docEnd[i] as number;
    const projector = this.#projector;
    if (!projector?.project(this.#docs, from, to)) return false;
    if (this.#sampled < SAMPLE_DOCUMENTS) this.#sample(projector, to - from);
    let p = this.#listed;
    // The pieces and what joins them are not longer than the document.
    if (p + to - from + 2 > this.#list.length) this.#growList(to - from + 2);
    const list = this.#list;
    const docs = this.#docs;
    let high = this.#listHigh;
    list[p] = p === 0 ? OPEN_BRACKET : COMMA;
    list[p + 1] = OPEN_BRACE;
    p += 2;
    const { count } = projector;
    for (let k = 0; k < count; k++) {
      if (k > 0) list[p++] = COMMA;
      let at = projector.from[k] as number;
      const end = projector.to[k] as number;
      if (end - at > LONG_PIECE) {
        if (!this.#isAscii(this.#shift + at, this.#shift + end)) high |= 0x80;
        p += docs.copy(list, p, at, end);
      } else
        while (at < end) {
          const byte = docs[at++] as number;
          high |= byte;
          list[p++] = byte;
        }
    }
    list[p++] = CLOSE_BRACE;
    this.#listed = p;
    this.#listHigh = high;
    return true;
  }

  /** JSON text of the list of documents gathered since the last call. */
  takeList(): string {
    this.#list[this.#listed++] = CLOSE_BRACKET;
    const text = this.#list.toString(this.#listHigh < 0x80 ? "latin1" : "utf8", 0, this.#listed);
    this.#listed = 0;
    this.#listHigh = 0;
    return text;
  }

  #slice(from: number, to: number): string {
    return this.#isAscii(this.#shift + from, this.#shift + to)
      ? this.#block.slice(from - this.#base, to - this.#base)
      : this.#docs.toString("utf8", from, to);
  }

  #growList(more: number): void {
    const larger = Buffer.allocUnsafe((this.#listed + more) * 2);
    larger.set(this.#list.subarray(0, this.#listed));
    this.#list = larger;
  }

  #sample(projector: Projector, length: number): void {
    this.#sampled++;
    this.#bytes += length;
    for (let k = 0; k < projector.count; k++)
      this.#wanted += (projector.to[k] as number) - (projector.from[k] as number);
    if (this.#sampled === SAMPLE_DOCUMENTS && this.#wanted > this.#bytes * WANTED_SHARE_MAX)
      this.#projector = undefined;
  }

  /**
   * Looks for a byte above 0x7F in bytes [from, to), a word at a time; the words at the ends reach into the neighbours, so that a text
   * is at worst decoded the longer way.
   */
  #isAscii(from: number, to: number): boolean {
    const words = this.#words;
    const end = (to + 3) >>> 2;
    if (end > words.length) return false;
    let any = 0;
    for (let i = from >>> 2; i < end; i++) any |= words[i] as number;
    return (any & 0x80808080) === 0;
  }
}

const HEAD = Buffer.from('["map_doc",');

/** A thread prepares one chunk after the other: the buffer in which lines are put together is kept. */
let scratch = new Uint8Array(0);

/**
 * `["map_doc",…]` lines of documents cut down to the wanted members; undefined when that is not worth it or not possible for one of them.
 *
 * @param mapped - positions of the documents.
 * @param lineEnds - is given the offset after the LF of each line.
 */
export function projectedLines(
  slices: Slices,
  mapped: Uint32Array,
  members: ReadonlySet<string>,
  lineEnds: Uint32Array,
): Uint8Array | undefined {
  const projector = new Projector(members);
  const { docs } = slices;
  let bytes = 0;
  for (const i of mapped)
    bytes += (slices.docEnd[i] as number) - (slices.docStart[i] as number) + HEAD.length + 4;
  const limit = Math.floor(bytes * WANTED_SHARE_MAX);
  if (scratch.length < limit) scratch = new Uint8Array(limit);
  const lines = scratch;
  let p = 0;
  for (let n = 0; n < mapped.length; n++) {
    const i = mapped[n] as number;
    if (!projector.project(docs, slices.docStart[i] as number, slices.docEnd[i] as number))
      return undefined;
    // Bytes past the end of the buffer are dropped: the limit is looked at below.
    for (let at = 0; at < HEAD.length; at++) lines[p++] = HEAD[at] as number;
    for (let k = 0; k < projector.count; k++) {
      lines[p++] = k > 0 ? 0x2c : 0x7b;
      const to = projector.to[k] as number;
      for (let from = projector.from[k] as number; from < to; from++)
        lines[p++] = docs[from] as number;
    }
    if (projector.count === 0) lines[p++] = 0x7b;
    lines[p++] = 0x7d;
    lines[p++] = 0x5d;
    lines[p++] = 0x0a;
    if (p > limit) return undefined;
    lineEnds[n] = p;
  }
  return lines.slice(0, p);
}
