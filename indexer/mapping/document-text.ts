// The text of each document of a chunk as its map functions are to see it: whole, or cut down to the members they can see.

import type { Slices } from "../sources/index.js";
import { BlockProjection } from "./block-projection.js";
import { Projector } from "./projector.js";

/** Cutting down is given up when more than this share of the bytes is wanted anyway. */
export const WANTED_SHARE_MAX = 0.6;
const SAMPLE_DOCUMENTS = 64;
/** Shorter pieces are copied byte by byte. */
const LONG_PIECE = 64;

const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

const NO_POSITIONS = new Uint32Array(0);
/** In a list, a comma stands before each document but the first. */
const LIST_FRAME = { head: ",", tail: "" };

export class DocumentText {
  readonly #slices: Slices;
  readonly #docs: Buffer;
  /** The same buffer as words, and where the documents begin in it. */
  readonly #words: Uint32Array;
  readonly #shift: number;
  #projector: Projector | undefined;
  readonly #projection: BlockProjection | undefined;
  /** Positions of the documents that were projected together; empty when they were not. */
  #together: Uint32Array = NO_POSITIONS;
  /** How many of them have been asked for. */
  #met = 0;
  /** What was written for those that were gathered since the last list; nothing while the end is 0. */
  #from = 0;
  #to = 0;
  /** What was written for them, if it is ASCII. */
  #written: string | undefined;
  #block: string | undefined;
  #base = 0;
  #end = 0;
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
    this.#projection = members && BlockProjection.create(members, LIST_FRAME);
  }

  /**
   * Documents [start, end) are asked for next.
   *
   * @param gathered - positions of those that `gather` will be called for, in this order; it may stay with the first ones. None when it will
   * not be called.
   */
  enter(start: number, end: number, gathered: Uint32Array): void {
    const { docStart, docEnd } = this.#slices;
    this.#base = docStart[start] as number;
    this.#end = docEnd[end - 1] as number;
    this.#block = undefined;
    this.#projectTogether(gathered);
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
    const met = this.#met;
    if (this.#together[met] === i) {
      this.#met = met + 1;
      const projection = this.#projection as BlockProjection;
      const start = projection.start(met);
      if (start === 0) return false;
      if (this.#to === 0) this.#from = start;
      this.#to = projection.end(met);
      return true;
    }
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
    if (this.#to > 0) return this.#takeTogether();
    this.#list[this.#listed++] = CLOSE_BRACKET;
    const text = this.#list.toString(this.#listHigh < 0x80 ? "latin1" : "utf8", 0, this.#listed);
    this.#listed = 0;
    this.#listHigh = 0;
    return text;
  }

  #projectTogether(positions: Uint32Array): void {
    this.#together = NO_POSITIONS;
    this.#met = this.#to = 0;
    const projection = this.#projection;
    if (this.#projector === undefined || projection === undefined || positions.length === 0) return;
    const { docStart, docEnd } = this.#slices;
    if (!projection.project(this.#docs, docStart, docEnd, positions)) return;
    if (this.#sampled < SAMPLE_DOCUMENTS) {
      this.#sampled += positions.length;
      for (const i of positions) this.#bytes += (docEnd[i] as number) - (docStart[i] as number);
      this.#wanted += projection.length;
      if (this.#sampled >= SAMPLE_DOCUMENTS && this.#wanted > this.#bytes * WANTED_SHARE_MAX) {
        this.#projector = undefined;
        return;
      }
    }
    this.#together = positions;
    this.#written = projection.ascii ? projection.written.toString("latin1") : undefined;
  }

  /** What was written for documents in a row stands in a row. */
  #takeTogether(): string {
    const from = this.#from;
    const to = this.#to;
    this.#to = 0;
    if (this.#written !== undefined) return `[${this.#written.slice(from, to)}]`;
    const written = (this.#projection as BlockProjection).written;
    return `[${written.toString("utf8", from, to)}]`;
  }

  #slice(from: number, to: number): string {
    if (!this.#isAscii(this.#shift + from, this.#shift + to))
      return this.#docs.toString("utf8", from, to);
    // Latin-1 makes one character of each byte, so what is ASCII is a slice of the block's string; other text is decoded.
    this.#block ??= this.#docs.toString("latin1", this.#base, this.#end);
    return this.#block.slice(from - this.#base, to - this.#base);
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
