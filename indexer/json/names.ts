// Finds repeated member names while objects are scanned. Names are compared as the bytes between their quotes, which decides
// equality for canonical text; text that escapes differently is rewritten before anybody relies on the answer.

/** An object with more members than this gets a hash set; below it, a mask and a few comparisons are cheaper. */
const LINEAR_MAX = 24;

/** One per scanner, reused: `reset`, then `open`, `add`…, `close` as objects begin, name a member, and end. */
export class MemberNames {
  /** Start and end of every name of the objects still open. */
  #spans = new Int32Array(256);
  #used = 0;
  /** Three words for each open object: first span, mask of seen name hashes, 1 + index of its hash set. */
  #frames = new Int32Array(96);
  #depth = 0;
  #sets: Set<string>[] = [];

  reset(): void {
    this.#used = 0;
    this.#depth = 0;
    if (this.#sets.length > 0) this.#sets = [];
  }

  open(): void {
    const at = this.#depth * 3;
    if (at + 3 > this.#frames.length) this.#frames = grown(this.#frames);
    this.#frames[at] = this.#used;
    this.#frames[at + 1] = 0;
    this.#frames[at + 2] = 0;
    this.#depth++;
  }

  close(): void {
    this.#depth--;
    this.#used = this.#frames[this.#depth * 3] as number;
  }

  /** True when the innermost open object already has a member of these bytes. */
  add(src: Uint8Array, start: number, end: number): boolean {
    if (this.#used + 2 > this.#spans.length) this.#spans = grown(this.#spans);
    const spans = this.#spans;
    const frames = this.#frames;
    const at = (this.#depth - 1) * 3;
    const first = frames[at] as number;
    const length = end - start;
    let repeated = false;
    if (this.#used - first > LINEAR_MAX * 2) {
      repeated = this.#addToSet(src, start, end, at, first);
    } else {
      const hash =
        length === 0
          ? 0
          : length * 7 +
            (src[start] as number) * 3 +
            (src[end - 1] as number) * 5 +
            (src[start + (length >> 1)] as number);
      const bit = 1 << (hash & 31);
      const mask = frames[at + 1] as number;
      if ((mask & bit) !== 0) {
        for (let i = first; i < this.#used && !repeated; i += 2) {
          const other = spans[i] as number;
          if ((spans[i + 1] as number) - other === length)
            repeated = equalBytes(src, start, other, length);
        }
      }
      frames[at + 1] = mask | bit;
    }
    spans[this.#used] = start;
    spans[this.#used + 1] = end;
    this.#used += 2;
    return repeated;
  }

  #addToSet(src: Uint8Array, start: number, end: number, at: number, first: number): boolean {
    let index = this.#frames[at + 2] as number;
    if (index === 0) {
      const set = new Set<string>();
      for (let i = first; i < this.#used; i += 2) {
        set.add(latin1(src, this.#spans[i] as number, this.#spans[i + 1] as number));
      }
      index = this.#sets.push(set);
      this.#frames[at + 2] = index;
    }
    const set = this.#sets[index - 1] as Set<string>;
    const name = latin1(src, start, end);
    if (set.has(name)) return true;
    set.add(name);
    return false;
  }
}

function grown(words: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const bigger = new Int32Array(words.length * 2);
  bigger.set(words);
  return bigger;
}

function equalBytes(src: Uint8Array, a: number, b: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (src[a + i] !== src[b + i]) return false;
  return true;
}

function latin1(src: Uint8Array, start: number, end: number): string {
  return Buffer.from(src.buffer, src.byteOffset + start, end - start).toString("latin1");
}
