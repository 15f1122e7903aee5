// Sorts entries by key bytes, then ordinal, flags and order of insertion, as btree/runs/radix-sort.ts does, which explains how.

/** Entries in memory: see `setEntries`. */
let bytesAt: usize = 0;
let spansAt: usize = 0;
let ordinalsAt: usize = 0;
let flagsAt: usize = 0;
let orderAt: usize = 0;

const INSERTION_MAX: u32 = 24;
const GOES_ON: u64 = 8;

/** Counts of 256 values for each of 8 digits. */
const histogram = memory.data(256 * 8 * 4, 16);

let words: usize = 0;
let wordsTo: usize = 0;
let orderTo: usize = 0;
/** Ranges to do: start, end, depth, as u32. */
let todo: usize = 0;

/**
 * Where entries lie: their bytes, behind which 16 must be readable; four u32 of each, key start and end, value start and end; ordinals as f64;
 * flags as u8; and their order, positions as u32.
 */
export function setEntries(
  bytes: usize,
  spans: usize,
  ordinals: usize,
  flags: usize,
  order: usize,
): void {
  bytesAt = bytes;
  spansAt = spans;
  ordinalsAt = ordinals;
  flagsAt = flags;
  orderAt = order;
}

export function keyStart(entry: u32): usize {
  return bytesAt + load<u32>(spansAt + ((<usize>entry) << 4));
}
export function keyEnd(entry: u32): usize {
  return bytesAt + load<u32>(spansAt + ((<usize>entry) << 4), 4);
}
export function valueStart(entry: u32): usize {
  return bytesAt + load<u32>(spansAt + ((<usize>entry) << 4), 8);
}
export function valueEnd(entry: u32): usize {
  return bytesAt + load<u32>(spansAt + ((<usize>entry) << 4), 12);
}
export function ordinalOf(entry: u32): f64 {
  return load<f64>(ordinalsAt + ((<usize>entry) << 3));
}
export function flagsOf(entry: u32): u32 {
  return <u32>load<u8>(flagsAt + entry);
}
/** The entry in the i-th place. */
export function entryAt(i: u32): u32 {
  return load<u32>(orderAt + ((<usize>i) << 2));
}
function place(i: u32, entry: u32): void {
  store<u32>(orderAt + ((<usize>i) << 2), entry);
}

/** Sorts the first `n` places. `scratch` has room for 26 bytes an entry, and 64. */
export function sortEntries(n: u32, scratch: usize): void {
  words = scratch;
  wordsTo = words + ((<usize>n) << 3);
  orderTo = wordsTo + ((<usize>n) << 3);
  todo = orderTo + ((<usize>n) << 2);
  const bottom = todo;
  pushRange(0, n, 0);
  while (todo > bottom) {
    todo -= 12;
    const start = load<u32>(todo);
    const end = load<u32>(todo, 4);
    const depth = load<u32>(todo, 8);
    if (end - start <= INSERTION_MAX) insertionSort(start, end, depth);
    else sortRange(start, end, depth);
  }
}

function pushRange(start: u32, end: u32, depth: u32): void {
  store<u32>(todo, start);
  store<u32>(todo, end, 4);
  store<u32>(todo, depth, 8);
  todo += 12;
}

function sortRange(start: u32, end: u32, depth: u32): void {
  const from = commonPrefix(start, end, depth);
  if (!loadWords(start, end, from)) radixPasses(start, end);
  let groupStart = start;
  let word = load<u64>(words + ((<usize>start) << 3));
  for (let i = start + 1; i <= end; i++) {
    const next = i < end ? load<u64>(words + ((<usize>i) << 3)) : 0;
    if (i < end && next == word) continue;
    if (i - groupStart > 1) {
      if ((word & 0xff) == GOES_ON) pushRange(groupStart, i, from + 7);
      else sortByOrdinal(groupStart, i);
    }
    groupStart = i;
    word = next;
  }
}

/** Of each key the next 7 bytes, and how many are left. Returns whether they ascend already. */
function loadWords(start: u32, end: u32, depth: u32): bool {
  let ascending = true;
  let last: u64 = 0;
  for (let i = start; i < end; i++) {
    const entry = entryAt(i);
    const p = keyStart(entry) + depth;
    const left = <u64>(keyEnd(entry) - p);
    let word = bswap<u64>(load<u64>(p));
    if (left > 7) word = (word & ~0xff) | GOES_ON;
    else if (left > 0) word = (word & (~(<u64>0) << (64 - (left << 3)))) | left;
    else word = 0;
    store<u64>(words + ((<usize>i) << 3), word);
    if (word < last) ascending = false;
    last = word;
  }
  return ascending;
}

function radixPasses(start: u32, end: u32): void {
  memory.fill(histogram, 0, 256 * 8 * 4);
  for (let i = start; i < end; i++) {
    let word = load<u64>(words + ((<usize>i) << 3));
    for (let digit: usize = 0; digit < 8; digit++) {
      const bucket = histogram + (digit << 10) + ((<usize>(word & 0xff)) << 2);
      store<u32>(bucket, load<u32>(bucket) + 1);
      word >>= 8;
    }
  }
  let from = words;
  let to = wordsTo;
  let order = orderAt;
  let order2 = orderTo;
  const first = load<u64>(words + ((<usize>start) << 3));
  for (let digit: usize = 0; digit < 8; digit++) {
    const base = histogram + (digit << 10);
    const shift = <u64>(digit << 3);
    if (load<u32>(base + ((<usize>((first >> shift) & 0xff)) << 2)) == end - start) continue;
    let sum = start;
    for (let bucket = base; bucket < base + 1024; bucket += 4) {
      const count = load<u32>(bucket);
      store<u32>(bucket, sum);
      sum += count;
    }
    for (let i = start; i < end; i++) {
      const word = load<u64>(from + ((<usize>i) << 3));
      const bucket = base + ((<usize>((word >> shift) & 0xff)) << 2);
      const at = <usize>load<u32>(bucket);
      store<u32>(bucket, <u32>at + 1);
      store<u64>(to + (at << 3), word);
      store<u32>(order2 + (at << 2), load<u32>(order + ((<usize>i) << 2)));
    }
    let other = from;
    from = to;
    to = other;
    other = order;
    order = order2;
    order2 = other;
  }
  if (from != words) {
    // An odd number of passes ended in the scratch memory.
    const n = <usize>(end - start);
    memory.copy(orderAt + ((<usize>start) << 2), order + ((<usize>start) << 2), n << 2);
    memory.copy(words + ((<usize>start) << 3), from + ((<usize>start) << 3), n << 3);
  }
}

/** Depth to which all keys of the range agree; they are known to agree to `depth`. */
function commonPrefix(start: u32, end: u32, depth: u32): u32 {
  const first = entryAt(start);
  const firstStart = keyStart(first);
  let common = <u32>(keyEnd(first) - firstStart);
  for (let i = start + 1; i < end && common > depth; i++) {
    const entry = entryAt(i);
    const p = keyStart(entry);
    const length = <u32>(keyEnd(entry) - p);
    if (length < common) common = length;
    common = depth + sharedBytes(firstStart + depth, p + depth, common - depth);
  }
  return common;
}

/** How many bytes from `a` and from `b` on are equal, at most `limit`. 8 bytes behind both must be readable. */
export function sharedBytes(a: usize, b: usize, limit: u32): u32 {
  let n: u32 = 0;
  while (n < limit) {
    const difference = load<u64>(a + n) ^ load<u64>(b + n);
    if (difference != 0) return min(limit, n + ((<u32>ctz(difference)) >> 3));
    n += 8;
  }
  return limit;
}

function insertionSort(start: u32, end: u32, depth: u32): void {
  for (let i = start + 1; i < end; i++) {
    const entry = entryAt(i);
    let j = i;
    while (j > start) {
      const other = entryAt(j - 1);
      if (!isAfter(other, entry, depth)) break;
      place(j, other);
      j--;
    }
    place(j, entry);
  }
}

/** Whether entry `a` comes after `b`, which agree in the first `depth` bytes of their keys. */
function isAfter(a: u32, b: u32, depth: u32): bool {
  const p = keyStart(a) + depth;
  const q = keyStart(b) + depth;
  const aLeft = <u32>(keyEnd(a) - p);
  const bLeft = <u32>(keyEnd(b) - q);
  const limit = min(aLeft, bLeft);
  const shared = sharedBytes(p, q, limit);
  if (shared < limit) return load<u8>(p + shared) > load<u8>(q + shared);
  return aLeft == bLeft ? isLater(a, b) : aLeft > bLeft;
}

/** Of entries with equal keys: higher ordinal; of one ordinal, fewer flags; then inserted later. */
function isLater(a: u32, b: u32): bool {
  const x = ordinalOf(a);
  const y = ordinalOf(b);
  if (x != y) return x > y;
  const f = flagsOf(a);
  const g = flagsOf(b);
  return f == g ? a > b : f < g;
}

/** Entries of one key. They mostly come in feed order: then nothing is to do. Otherwise a merge sort. */
function sortByOrdinal(start: u32, end: u32): void {
  let sorted = true;
  for (let i = start + 1; i < end; i++) {
    if (isLater(entryAt(i - 1), entryAt(i))) {
      sorted = false;
      break;
    }
  }
  if (sorted) return;
  for (let width: u32 = 1; width < end - start; width <<= 1) {
    for (let low = start; low < end; low += width << 1) {
      const middle = min(low + width, end);
      mergeHalves(low, middle, min(middle + width, end));
    }
    const n = (<usize>(end - start)) << 2;
    memory.copy(orderAt + ((<usize>start) << 2), orderTo + ((<usize>start) << 2), n);
  }
}

function mergeHalves(low: u32, middle: u32, high: u32): void {
  let left = low;
  let right = middle;
  for (let to = low; to < high; to++) {
    const takesRight = left == middle || (right < high && isLater(entryAt(left), entryAt(right)));
    store<u32>(orderTo + ((<usize>to) << 2), entryAt(takesRight ? right++ : left++));
  }
}
