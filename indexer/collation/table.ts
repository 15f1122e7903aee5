// A collation table in memory, unpacked from its generated module when the first string beyond ASCII comes (a few milliseconds), the
// order of ideographs when the first ideograph comes. Weights are handed out here exactly as COLLATION.md lays them down.
import { inflateRawSync } from "node:zlib";
import { invariant } from "../errors.js";

const FIRST_LEAD = 0x02;
const FIRST_TRAIL = 0x02;
const TRAILS = 254;
/** Code points are looked up in two steps: `blockOf[point >> BLOCK_BITS]`, then their place in that block. */
const BLOCK_BITS = 7;
const BLOCK_SIZE = 1 << BLOCK_BITS;
const CODE_POINTS = 0x110000;

/** What a generated module exports; see there. */
export interface TableSource {
  readonly ASCII_PRIMARIES: string;
  readonly ASCII_UPPER_TERTIARY: number;
  readonly TABLE: string;
  readonly IDEOGRAPHS: string;
}

/** Below this, a secondary rank takes one byte; above, two. */
const ONE_BYTE_SECONDARIES = 110;
const SECONDARY_LEAD = 0x80 + ONE_BYTE_SECONDARIES;

/** A primary of this lead byte stands for the ideograph in its lower 24 bits, whose weight is looked up when it is needed. */
export const IDEOGRAPH_MARK = 0x01;

/** What follows a code point in contractions that begin with it. */
export interface Contraction {
  /** The sequence of elements of the text up to here, or -1 when only a longer one is a contraction. */
  sequence: number;
  readonly next: Map<number, Contraction>;
}

interface Group {
  readonly firstRank: number;
  readonly count: number;
  readonly width: number;
  readonly firstLead: number;
}

/** Sequence number `s` has the elements `first[s]` to `first[s + 1]`. */
export class CollationTable {
  readonly first: Uint32Array;
  /** Weight bytes of each element from the top byte down; 0 for none. */
  readonly primary: Int32Array;
  /** Likewise, top byte first; 0 for the common weight. */
  readonly secondary: Uint16Array;
  /** 0 for the common weight. */
  readonly tertiary: Uint8Array;
  /** By sequence number: 1 when the code point begins a contraction. */
  readonly begins: Uint8Array;
  readonly #blockOf = new Uint16Array(CODE_POINTS >> BLOCK_BITS);
  /** 1 + sequence number, or 0. */
  #blocks = new Uint16Array(BLOCK_SIZE * 512);
  readonly #contractions = new Map<number, Contraction>();
  readonly #classes = new Map<number, number>();
  readonly #groups: Group[] = [];
  readonly #source: TableSource;
  #ideographs: Map<number, number> | undefined;

  constructor(source: TableSource) {
    this.#source = source;
    const [layout, ranges, contractions, counts, primaries, secondaries, tertiaries, classes] =
      streams(source.TABLE, 8);
    invariant(
      layout &&
        ranges &&
        contractions &&
        counts &&
        primaries &&
        secondaries &&
        tertiaries &&
        classes,
      "the collation table lacks a stream",
    );
    this.#readGroups(layout);
    const singles = this.#readRanges(ranges);
    const points = readContractions(contractions);
    const sequences = singles + points.length;
    this.first = new Uint32Array(sequences + 1);
    for (let s = 0; s < sequences; s++)
      this.first[s + 1] = (this.first[s] as number) + counts.unsigned();
    const elements = this.first[sequences] as number;
    this.primary = new Int32Array(elements);
    this.secondary = new Uint16Array(elements);
    this.tertiary = new Uint8Array(elements);
    this.#readElements(primaries, secondaries, tertiaries);
    this.begins = new Uint8Array(sequences);
    points.forEach((text, i) => {
      this.#addContraction(text, singles + i);
    });
    for (let next = 0; !classes.done;) {
      const point = next + classes.unsigned();
      const lead = classes.unsigned();
      this.#classes.set(point, (lead << 8) | classes.unsigned());
      next = point + 1;
    }
  }

  /** Sequence number of a code point, -1 when the table does not list it. */
  sequenceOf(point: number): number {
    const block = this.#blockOf[point >> BLOCK_BITS] as number;
    return (this.#blocks[block * BLOCK_SIZE + (point & (BLOCK_SIZE - 1))] as number) - 1;
  }

  contractionsOf(point: number): Contraction | undefined {
    return this.#contractions.get(point);
  }

  /** Canonical combining classes of a mark: of its first part in the upper byte, of its last in the lower. 0: not a mark. */
  classesOf(point: number): number {
    return point < 0x300 ? 0 : (this.#classes.get(point) ?? 0);
  }

  /** Primary weight of a code point the table does not list: an ideograph, or by its number above all of them. 0x110000 is below the latter. */
  implicitPrimary(point: number): number {
    this.#ideographs ??= readIdeographs(this.#source.IDEOGRAPHS);
    const rank = this.#ideographs.get(point);
    const groups = this.#groups;
    if (rank !== undefined) return weightIn(groups.at(-3) as Group, rank);
    return weightIn(groups.at(-2) as Group, point === CODE_POINTS ? 0 : point + 1);
  }

  #readGroups(layout: Stream): void {
    let firstRank = 0;
    let firstLead = FIRST_LEAD;
    for (let n = layout.unsigned(); n > 0; n--) {
      const count = layout.unsigned();
      const width = layout.unsigned();
      this.#groups.push({ firstRank, count, width, firstLead });
      // Ideographs and unassigned code points, the third and second group from the end, are not ranked.
      if (n !== 3 && n !== 2) firstRank += count;
      firstLead += Math.ceil(count / TRAILS ** (width - 1));
    }
  }

  #readRanges(ranges: Stream): number {
    let sequence = 0;
    let blocks = 1;
    for (let point = 0; !ranges.done;) {
      point += ranges.unsigned();
      for (let n = ranges.unsigned(); n > 0; n--, point++) {
        let block = this.#blockOf[point >> BLOCK_BITS] as number;
        if (block === 0) {
          block = blocks++;
          this.#blockOf[point >> BLOCK_BITS] = block;
        }
        const at = block * BLOCK_SIZE + (point & (BLOCK_SIZE - 1));
        if (at >= this.#blocks.length) {
          const bigger = new Uint16Array(this.#blocks.length * 2);
          bigger.set(this.#blocks);
          this.#blocks = bigger;
        }
        this.#blocks[at] = ++sequence;
      }
    }
    return sequence;
  }

  #readElements(primaries: Stream, secondaries: Stream, tertiaries: Stream): void {
    const groups = this.#groups;
    const last = groups.at(-1) as Group;
    const ranks = last.firstRank + last.count;
    const weights = new Int32Array(ranks);
    for (const group of groups) {
      if (group === groups.at(-2) || group === groups.at(-3)) continue;
      for (let i = 0; i < group.count; i++) weights[group.firstRank + i] = weightIn(group, i);
    }
    let value = 0;
    for (let e = 0; e < this.primary.length; e++) {
      value += primaries.signed();
      if (value > ranks) this.primary[e] = (IDEOGRAPH_MARK << 24) | (value - ranks - 1);
      else if (value > 0) this.primary[e] = weights[value - 1] as number;
      const rank = secondaries.unsigned();
      if (rank > ONE_BYTE_SECONDARIES)
        this.secondary[e] = (SECONDARY_LEAD << 8) | (rank - ONE_BYTE_SECONDARIES - 1 + FIRST_TRAIL);
      else if (rank > 0) this.secondary[e] = (0x80 + rank - 1) << 8;
      const third = tertiaries.unsigned();
      if (third > 0) this.tertiary[e] = 0x80 + third - 1;
    }
  }

  #addContraction(text: readonly number[], sequence: number): void {
    const [point, ...rest] = text;
    invariant(point !== undefined, "an empty contraction");
    let node = this.#contractions.get(point);
    if (!node) {
      const alone = this.sequenceOf(point);
      node = { sequence: alone, next: new Map() };
      this.#contractions.set(point, node);
      if (alone >= 0) this.begins[alone] = 1;
    }
    for (const follower of rest) {
      let child: Contraction | undefined = node.next.get(follower);
      if (!child) {
        child = { sequence: -1, next: new Map() };
        node.next.set(follower, child);
      }
      node = child;
    }
    node.sequence = sequence;
  }
}

/** The `index`-th weight of a group, its bytes from the top byte down. */
function weightIn(group: Group, index: number): number {
  let weight = 0;
  let rest = index;
  for (let i = group.width - 1; i > 0; i--) {
    weight |= (FIRST_TRAIL + (rest % TRAILS)) << (24 - 8 * i);
    rest = Math.floor(rest / TRAILS);
  }
  return weight | ((group.firstLead + rest) << 24);
}

function readContractions(stream: Stream): number[][] {
  const all: number[][] = [];
  let before: number[] = [];
  for (let n = stream.unsigned(); n > 0; n--) {
    const text = before.slice(0, stream.unsigned());
    for (let left = stream.unsigned(); left > 0; left--) text.push(stream.unsigned());
    all.push(text);
    before = text;
  }
  return all;
}

function readIdeographs(packed: string): Map<number, number> {
  const [starts, lengths] = streams(packed, 2);
  invariant(starts && lengths, "the order of ideographs lacks a stream");
  const ranks = new Map<number, number>();
  let point = 0;
  while (!starts.done) {
    point += starts.signed();
    for (let n = lengths.unsigned(); n > 0; n--) ranks.set(point++, ranks.size);
  }
  return ranks;
}

/** A run of varints. */
class Stream {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  unsigned(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#bytes[this.#at++] as number;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  signed(): number {
    const value = this.unsigned();
    return (value & 1) === 0 ? value >>> 1 : -(value >>> 1) - 1;
  }
}

/** Unpacks base64 of deflated streams, each preceded by its length. */
function streams(packed: string, count: number): Stream[] {
  const bytes = inflateRawSync(Buffer.from(packed, "base64"));
  const found: Stream[] = [];
  for (let i = 0, at = 0; i < count; i++) {
    const length = bytes.readUInt32LE(at);
    found.push(new Stream(bytes.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  return found;
}
