// Strings of the root order that need more than the ASCII fast path: code points → collation elements (contractions, also
// discontiguous ones; Hangul by its jamo; implicit weights) → the three levels as bytes. As ICU with normalization off: the
// text's marks are taken in the order they stand in, and precomposed characters have the elements of their parts.
import { CodePoints } from "../json/index.js";
import type { ByteSink } from "./bytes.js";
import { IDEOGRAPH_MARK, type CollationTable, type Contraction } from "./table.js";
import { END, LEVEL, ROOT_TAGS } from "./tags.js";

/** A run of n common weights before another weight is written as RUN_LIMIT - n: more of them sort lower. Other weights are above. */
export const RUN_LIMIT = 0x80;
const RUN_MAX = RUN_LIMIT - 2;

const HANGUL_FIRST = 0xac00;
const HANGUL_COUNT = 11172;
const VOWELS = 21;
const FINALS = 28;
const LEADING_FIRST = 0x1100;
const VOWEL_FIRST = 0x1161;
/** One before the first: 0 stands for no final consonant. */
const FINAL_BASE = 0x11a7;

/** How many marks in a row are looked at for a contraction: far above any language's need, and a bound on hostile text. */
const MARKS_MAX = 128;

/** Writes `count` common weights that another weight follows, and ensures room for that one (two bytes). */
export function writeRunsBefore(count: number, sink: ByteSink): void {
  sink.ensure(3 + Math.floor(count / RUN_MAX));
  let left = count;
  while (left > RUN_MAX) {
    sink.bytes[sink.used++] = RUN_LIMIT - RUN_MAX;
    left -= RUN_MAX;
  }
  if (left > 0) sink.bytes[sink.used++] = RUN_LIMIT - left;
}

/** Writes a primary weight, its bytes from the top byte down; returns the index after it. */
function writeWeight(weight: number, bytes: Uint8Array, at: number): number {
  if (weight === 0) return at;
  bytes[at] = weight >>> 24;
  if ((weight & 0xffffff) === 0) return at + 1;
  bytes[at + 1] = (weight >>> 16) & 0xff;
  if ((weight & 0xffff) === 0) return at + 2;
  bytes[at + 2] = (weight >>> 8) & 0xff;
  if ((weight & 0xff) === 0) return at + 3;
  bytes[at + 3] = weight & 0xff;
  return at + 4;
}

export class RootStrings {
  /** Never: what is written here cannot be told from its bytes. */
  readonly exact = false;
  readonly #text = new CodePoints();
  readonly #table: CollationTable;
  /** Second- and third-level weights of the elements so far; 0 is the common weight. */
  #secondary = new Uint16Array(256);
  #tertiary = new Uint8Array(256);
  #elements = 0;
  /** Index of the code point to go on with. */
  #next = 0;

  constructor(table: CollationTable) {
    this.#table = table;
  }

  /** Encodes the JSON string whose opening quote is at `pos`; returns the index after it, or -1 when it is not canonical. */
  write(src: Uint8Array, pos: number, sink: ByteSink): number {
    const end = this.#text.read(src, pos);
    if (end < 0) return end;
    sink.ensure(1);
    sink.bytes[sink.used++] = ROOT_TAGS.STRING;
    this.#elements = 0;
    for (let i = 0; i < this.#text.length; i = this.#next) {
      const point = this.#text.points[i] as number;
      const sequence = this.#table.sequenceOf(point);
      this.#next = i + 1;
      if (sequence < 0) this.#unlisted(point, i, sink);
      else if (this.#table.begins[sequence] === 0) this.#put(sequence, sink);
      else this.#put(this.#contract(i, point), sink);
    }
    this.#levels(sink);
    return end;
  }

  /** Hangul, ideographs, unassigned; the two of these that begin contractions are noncharacters. */
  #unlisted(point: number, at: number, sink: ByteSink): void {
    const syllable = point - HANGUL_FIRST;
    if (syllable >= 0 && syllable < HANGUL_COUNT) {
      this.#put(
        this.#table.sequenceOf(LEADING_FIRST + Math.floor(syllable / (VOWELS * FINALS))),
        sink,
      );
      this.#put(
        this.#table.sequenceOf(VOWEL_FIRST + (Math.floor(syllable / FINALS) % VOWELS)),
        sink,
      );
      const final = syllable % FINALS;
      if (final > 0) this.#put(this.#table.sequenceOf(FINAL_BASE + final), sink);
      return;
    }
    const sequence = this.#table.contractionsOf(point) ? this.#contract(at, point) : -1;
    if (sequence >= 0) this.#put(sequence, sink);
    else this.#putImplicit(point, sink);
  }

  /**
   * The longest contraction that begins at `at`, as the sequence of its elements; `#next` is then behind it. First code points in
   * a row, then (UTS #10, S2.1) marks that nothing blocks from the ones already matched; what these skip moves behind them.
   */
  #contract(at: number, point: number): number {
    const table = this.#table;
    const points = this.#text.points;
    const length = this.#text.length;
    let best = table.contractionsOf(point) as Contraction;
    let next = at + 1;
    let node: Contraction | undefined = best;
    for (let i = next; i < length;) {
      node = node.next.get(points[i++] as number);
      if (!node) break;
      if (node.sequence >= 0) {
        best = node;
        next = i;
      }
    }
    let skippedClass = 0;
    const limit = Math.min(length, next + MARKS_MAX);
    for (let i = next; i < limit && best.next.size > 0; i++) {
      const mark = points[i] as number;
      const classes = table.classesOf(mark);
      if (classes === 0) break;
      const child = classes >> 8 > skippedClass ? best.next.get(mark) : undefined;
      if (child && child.sequence >= 0) {
        best = child;
        points.copyWithin(next + 1, next, i);
        points[next++] = mark;
      } else {
        skippedClass = classes & 0xff;
      }
    }
    this.#next = next;
    return best.sequence;
  }

  #put(sequence: number, sink: ByteSink): void {
    const { first, primary, secondary, tertiary } = this.#table;
    let e = first[sequence] as number;
    const end = first[sequence + 1] as number;
    let n = this.#elements;
    while (n + end - e > this.#secondary.length) this.#grow();
    sink.ensure((end - e) * 4);
    const bytes = sink.bytes;
    let at = sink.used;
    for (; e < end; e++) {
      this.#secondary[n] = secondary[e] as number;
      this.#tertiary[n++] = tertiary[e] as number;
      at = writeWeight(this.#resolved(primary[e] as number), bytes, at);
    }
    this.#elements = n;
    sink.used = at;
  }

  /** A code point without a place in the table. */
  #putImplicit(point: number, sink: ByteSink): void {
    if (this.#elements === this.#secondary.length) this.#grow();
    this.#secondary[this.#elements] = 0;
    this.#tertiary[this.#elements++] = 0;
    sink.ensure(4);
    sink.used = writeWeight(this.#table.implicitPrimary(point), sink.bytes, sink.used);
  }

  #resolved(primary: number): number {
    return primary >>> 24 === IDEOGRAPH_MARK
      ? this.#table.implicitPrimary(primary & 0xffffff)
      : primary;
  }

  /** The second and third level, each only if something in it or after it is not common. */
  #levels(sink: ByteSink): void {
    const n = this.#elements;
    const secondary = this.#secondary;
    const tertiary = this.#tertiary;
    let lastSecondary = n - 1;
    while (lastSecondary >= 0 && secondary[lastSecondary] === 0) lastSecondary--;
    let lastTertiary = n - 1;
    while (lastTertiary >= 0 && tertiary[lastTertiary] === 0) lastTertiary--;
    sink.ensure(3);
    if (lastSecondary >= 0 || lastTertiary >= 0) {
      sink.bytes[sink.used++] = LEVEL;
      let run = 0;
      for (let i = 0; i <= lastSecondary; i++) {
        const weight = secondary[i] as number;
        if (weight === 0) {
          run++;
          continue;
        }
        writeRunsBefore(run, sink);
        run = 0;
        sink.bytes[sink.used++] = weight >>> 8;
        if ((weight & 0xff) !== 0) sink.bytes[sink.used++] = weight & 0xff;
      }
      sink.ensure(2);
    }
    if (lastTertiary >= 0) {
      sink.bytes[sink.used++] = LEVEL;
      let run = 0;
      for (let i = 0; i <= lastTertiary; i++) {
        const weight = tertiary[i] as number;
        if (weight === 0) {
          run++;
          continue;
        }
        writeRunsBefore(run, sink);
        run = 0;
        sink.bytes[sink.used++] = weight;
      }
      sink.ensure(1);
    }
    sink.bytes[sink.used++] = END;
  }

  #grow(): void {
    const secondary = new Uint16Array(this.#secondary.length * 2);
    secondary.set(this.#secondary);
    this.#secondary = secondary;
    const tertiary = new Uint8Array(this.#tertiary.length * 2);
    tertiary.set(this.#tertiary);
    this.#tertiary = tertiary;
  }
}
