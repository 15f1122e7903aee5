// Sorts the entries of a batch by key bytes without an object or a closure call per comparison.
//
// 1. Skip what all keys of a range have in common.
// 2. Of each key take the next 7 bytes, zero-padded, and min(bytes left, 8) as an eighth: as unsigned numbers these words order
//    as the keys do up to here, and words are equal only if the keys are equal so far and both end or both go on.
// 3. If the words are not in order already: least-significant-digit radix sort over the eight bytes, skipping constant ones.
// 4. Ranges of equal words that go on are sorted the same way, 7 bytes further; equal keys by ordinal. Small ranges: by insertion.
// The ranges to do are kept on a stack of our own, so that long equal prefixes cannot exhaust the call stack.

/** What is sorted: `order` is permuted, all else is read. */
export interface SortInput {
  readonly bytes: Uint8Array;
  /** Bytes of `bytes` that entries may lie in. */
  readonly used: number;
  /** Key start, key end, value start, value end of each entry. */
  readonly spans: Uint32Array;
  readonly ordinals: Float64Array;
  readonly flags: Uint8Array;
  readonly order: Uint32Array;
  readonly length: number;
}

/** Ranges up to this are sorted by insertion: below it the histograms of a radix pass cost more. */
const INSERTION_MAX = 24;

const DIGITS = 8;
const GOES_ON = 8;

/** Scratch memory of a sort, kept for the next one. */
export class RadixSorter {
  #hi = new Uint32Array(0);
  #lo = new Uint32Array(0);
  #hiTo = new Uint32Array(0);
  #loTo = new Uint32Array(0);
  #orderTo = new Uint32Array(0);
  readonly #histogram = new Uint32Array(256 * DIGITS);
  /** Ranges to do: start, end, depth. */
  readonly #todo: number[] = [];

  get memoryBytes(): number {
    return this.#hi.length * 20;
  }

  sort(input: SortInput): void {
    this.#reserve(input.length);
    const todo = this.#todo;
    todo.push(0, input.length, 0);
    while (todo.length > 0) {
      const depth = todo.pop() as number;
      const end = todo.pop() as number;
      const start = todo.pop() as number;
      if (end - start <= INSERTION_MAX) insertionSort(input, start, end, depth);
      else this.#sortRange(input, start, end, depth);
    }
  }

  #reserve(length: number): void {
    if (length <= this.#hi.length) return;
    const capacity = Math.max(length, this.#hi.length * 2);
    this.#hi = new Uint32Array(capacity);
    this.#lo = new Uint32Array(capacity);
    this.#hiTo = new Uint32Array(capacity);
    this.#loTo = new Uint32Array(capacity);
    this.#orderTo = new Uint32Array(capacity);
  }

  #sortRange(input: SortInput, start: number, end: number, depth: number): void {
    const from = commonPrefix(input, start, end, depth);
    if (!this.#loadWords(input, start, end, from)) this.#radixPasses(input.order, start, end);
    const hi = this.#hi;
    const lo = this.#lo;
    let groupStart = start;
    for (let i = start + 1; i <= end; i++) {
      if (i < end && hi[i] === hi[groupStart] && lo[i] === lo[groupStart]) continue;
      if (i - groupStart > 1) {
        if (((lo[groupStart] as number) & 0xff) === GOES_ON)
          this.#todo.push(groupStart, i, from + 7);
        else sortByOrdinal(input, groupStart, i);
      }
      groupStart = i;
    }
  }

  /** Takes each key's word. Returns whether they ascend already. */
  #loadWords(input: SortInput, start: number, end: number, depth: number): boolean {
    const { bytes, spans, order } = input;
    const hi = this.#hi;
    const lo = this.#lo;
    let ascending = true;
    let lastHi = 0;
    let lastLo = 0;
    for (let i = start; i < end; i++) {
      const at = (order[i] as number) * 4;
      const p = (spans[at] as number) + depth;
      const left = (spans[at + 1] as number) - p;
      let h = 0;
      let l = 0;
      if (left >= 7) {
        h =
          (((bytes[p] as number) << 24) |
            ((bytes[p + 1] as number) << 16) |
            ((bytes[p + 2] as number) << 8) |
            (bytes[p + 3] as number)) >>>
          0;
        l =
          (((bytes[p + 4] as number) << 24) |
            ((bytes[p + 5] as number) << 16) |
            ((bytes[p + 6] as number) << 8) |
            (left > 7 ? GOES_ON : 7)) >>>
          0;
      } else {
        for (let j = 0; j < left && j < 4; j++) h |= (bytes[p + j] as number) << (24 - j * 8);
        for (let j = 4; j < left; j++) l |= (bytes[p + j] as number) << (24 - (j - 4) * 8);
        h = h >>> 0;
        l = (l | left) >>> 0;
      }
      hi[i] = h;
      lo[i] = l;
      if (h < lastHi || (h === lastHi && l < lastLo)) ascending = false;
      lastHi = h;
      lastLo = l;
    }
    return ascending;
  }

  #radixPasses(order: Uint32Array, start: number, end: number): void {
    const histogram = this.#histogram.fill(0);
    countDigits(this.#hi, this.#lo, start, end, histogram);
    let hi = this.#hi;
    let lo = this.#lo;
    let from: Uint32Array = order;
    let hiTo = this.#hiTo;
    let loTo = this.#loTo;
    let to: Uint32Array = this.#orderTo;
    for (let digit = 0; digit < DIGITS; digit++) {
      const base = digit * 256;
      const shift = (digit & 3) * 8;
      const firstBucket = base + ((((digit < 4 ? lo : hi)[start] as number) >>> shift) & 0xff);
      if (histogram[firstBucket] === end - start) continue;
      let sum = start;
      for (let b = base; b < base + 256; b++) {
        const n = histogram[b] as number;
        histogram[b] = sum;
        sum += n;
      }
      const words = digit < 4 ? lo : hi;
      for (let i = start; i < end; i++) {
        const bucket = base + (((words[i] as number) >>> shift) & 0xff);
        const at = histogram[bucket] as number;
        histogram[bucket] = at + 1;
        hiTo[at] = hi[i] as number;
        loTo[at] = lo[i] as number;
        to[at] = from[i] as number;
      }
      [hi, hiTo] = [hiTo, hi];
      [lo, loTo] = [loTo, lo];
      [from, to] = [to, from];
    }
    if (from !== order) {
      // An odd number of passes ended in the scratch arrays.
      for (let i = start; i < end; i++) {
        order[i] = from[i] as number;
        this.#hi[i] = hi[i] as number;
        this.#lo[i] = lo[i] as number;
      }
    }
  }
}

/** Digit 0 is the lowest byte of `lo`, digit 7 the highest of `hi`. */
function countDigits(
  hi: Uint32Array,
  lo: Uint32Array,
  start: number,
  end: number,
  histogram: Uint32Array,
): void {
  for (let i = start; i < end; i++) {
    const l = lo[i] as number;
    const h = hi[i] as number;
    (histogram[l & 0xff] as number)++;
    (histogram[256 + ((l >>> 8) & 0xff)] as number)++;
    (histogram[512 + ((l >>> 16) & 0xff)] as number)++;
    (histogram[768 + (l >>> 24)] as number)++;
    (histogram[1024 + (h & 0xff)] as number)++;
    (histogram[1280 + ((h >>> 8) & 0xff)] as number)++;
    (histogram[1536 + ((h >>> 16) & 0xff)] as number)++;
    (histogram[1792 + (h >>> 24)] as number)++;
  }
}

/** Depth to which all keys of the range agree; they are known to agree to `depth`. */
function commonPrefix(input: SortInput, start: number, end: number, depth: number): number {
  const { bytes, spans, order } = input;
  const first = (order[start] as number) * 4;
  const firstStart = spans[first] as number;
  let common = (spans[first + 1] as number) - firstStart;
  for (let i = start + 1; i < end && common > depth; i++) {
    const at = (order[i] as number) * 4;
    const keyStart = spans[at] as number;
    const length = (spans[at + 1] as number) - keyStart;
    if (length < common) common = length;
    let j = depth;
    while (j < common && bytes[firstStart + j] === bytes[keyStart + j]) j++;
    common = j;
  }
  return common;
}

function insertionSort(input: SortInput, start: number, end: number, depth: number): void {
  const order = input.order;
  for (let i = start + 1; i < end; i++) {
    const entry = order[i] as number;
    let j = i;
    while (j > start && compareFrom(input, order[j - 1] as number, entry, depth) > 0) {
      order[j] = order[j - 1] as number;
      j--;
    }
    order[j] = entry;
  }
}

function compareFrom(input: SortInput, a: number, b: number, depth: number): number {
  const { bytes, spans } = input;
  let p = (spans[a * 4] as number) + depth;
  let q = (spans[b * 4] as number) + depth;
  const aLeft = (spans[a * 4 + 1] as number) - p;
  const bLeft = (spans[b * 4 + 1] as number) - q;
  const stop = p + (aLeft < bLeft ? aLeft : bLeft);
  while (p < stop) {
    const difference = (bytes[p] as number) - (bytes[q] as number);
    if (difference !== 0) return difference;
    p++;
    q++;
  }
  return aLeft === bLeft ? compareOrdinal(input, a, b) : aLeft - bLeft;
}

function compareOrdinal(input: SortInput, a: number, b: number): number {
  const difference = (input.ordinals[a] as number) - (input.ordinals[b] as number);
  if (difference !== 0) return difference;
  return (input.flags[b] as number) - (input.flags[a] as number) || a - b;
}

/** Entries of one key. They mostly come in feed order: then nothing is to do. */
function sortByOrdinal(input: SortInput, start: number, end: number): void {
  const order = input.order;
  for (let i = start + 1; i < end; i++) {
    if (compareOrdinal(input, order[i - 1] as number, order[i] as number) > 0) {
      order.subarray(start, end).sort((a, b) => compareOrdinal(input, a, b));
      return;
    }
  }
}
