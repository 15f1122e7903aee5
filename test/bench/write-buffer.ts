// Four write buffers under a mix of inserts and reads of what was written last: half of the operations insert new random keys, half look one of
// the newest up. When a buffer is full it is drained in key order. One JSON line a run.
//
//   node --expose-gc dist/test/bench/write-buffer.js VARIANT [keys, default 1000000] [window, default a tenth]
//
//   hash-and-list   entries in an arena with a hash table beside it, sorted by radix at the drain: what the indexer has
//   sorted-map      a Map, its entries sorted at the drain
//   sorted-array    binary search and splice
//   skip-list       a skip list of objects

import { PerformanceObserver } from "node:perf_hooks";

import { EntryBatch } from "../../btree/index.js";
import { Random } from "./generator.js";
import { percentile } from "./numbers.js";
import { check } from "./subject.js";

const KEY_BYTES = 16;
/** A run that takes longer is ended; the line says how far it came. */
const LIMIT_MS = 30_000;

/** A buffer of keys of 16 bytes with numbers as values. */
interface Buffer16 {
  readonly size: number;
  insert(key: Buffer, value: number): void;
  get(key: Buffer): number | undefined;
  /** Hands over all values in key order, and is empty. */
  drain(): number[];
}

class HashAndList implements Buffer16 {
  readonly #batch = new EntryBatch();
  #table = new Int32Array(1 << 12).fill(-1);
  /** Where entries begin in the arena, in the order of insertion. */
  #starts = new Uint32Array(1 << 11);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  insert(key: Buffer, value: number): void {
    const batch = this.#batch;
    batch.ensure(KEY_BYTES + 4);
    const start = batch.used;
    batch.bytes.set(key, start);
    writeNumber(batch.bytes, start + KEY_BYTES, value);
    batch.used = start + KEY_BYTES + 4;
    batch.push(start, start + KEY_BYTES, start + KEY_BYTES, start + KEY_BYTES + 4, value);
    if (this.#size * 2 >= this.#table.length) this.#grow();
    this.#starts[this.#size] = start;
    this.#place(this.#size++);
  }

  get(key: Buffer): number | undefined {
    const mask = this.#table.length - 1;
    const { bytes } = this.#batch;
    for (let slot = hashAt(key, 0) & mask; ; slot = (slot + 1) & mask) {
      const entry = this.#table[slot] as number;
      if (entry < 0) return undefined;
      const start = this.#starts[entry] as number;
      let i = 0;
      while (i < KEY_BYTES && bytes[start + i] === key[i]) i++;
      if (i === KEY_BYTES) return readNumber(bytes, start + KEY_BYTES);
    }
  }

  drain(): number[] {
    const batch = this.#batch;
    batch.sort();
    const values = Array.from({ length: batch.length }, (_, i) =>
      readNumber(batch.bytes, batch.valueStart(i)),
    );
    batch.clear();
    this.#table.fill(-1);
    this.#size = 0;
    return values;
  }

  #place(entry: number): void {
    const mask = this.#table.length - 1;
    let slot = hashAt(this.#batch.bytes, this.#starts[entry] as number) & mask;
    while ((this.#table[slot] as number) >= 0) slot = (slot + 1) & mask;
    this.#table[slot] = entry;
  }

  #grow(): void {
    this.#table = new Int32Array(this.#table.length * 2).fill(-1);
    const starts = new Uint32Array(this.#starts.length * 2);
    starts.set(this.#starts);
    this.#starts = starts;
    for (let entry = 0; entry < this.#size; entry++) this.#place(entry);
  }
}

class SortedMap implements Buffer16 {
  readonly #map = new Map<string, number>();

  get size(): number {
    return this.#map.size;
  }

  insert(key: Buffer, value: number): void {
    this.#map.set(key.toString("latin1"), value);
  }

  get(key: Buffer): number | undefined {
    return this.#map.get(key.toString("latin1"));
  }

  drain(): number[] {
    const entries = [...this.#map].sort(([a], [b]) => (a < b ? -1 : 1));
    this.#map.clear();
    return entries.map(([, value]) => value);
  }
}

class SortedArray implements Buffer16 {
  #keys: string[] = [];
  #values: number[] = [];

  get size(): number {
    return this.#keys.length;
  }

  insert(key: Buffer, value: number): void {
    const text = key.toString("latin1");
    const at = this.#find(text);
    if (this.#keys[at] === text) this.#values[at] = value;
    else {
      this.#keys.splice(at, 0, text);
      this.#values.splice(at, 0, value);
    }
  }

  get(key: Buffer): number | undefined {
    const text = key.toString("latin1");
    const at = this.#find(text);
    return this.#keys[at] === text ? this.#values[at] : undefined;
  }

  drain(): number[] {
    const values = this.#values;
    this.#keys = [];
    this.#values = [];
    return values;
  }

  #find(key: string): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#keys[middle] as string) < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

interface SkipNode {
  readonly key: string;
  value: number;
  readonly next: (SkipNode | undefined)[];
}

const LEVELS = 20;

class SkipList implements Buffer16 {
  readonly #random = new Random(6);
  #head: SkipNode = { key: "", value: 0, next: new Array<undefined>(LEVELS).fill(undefined) };
  #size = 0;

  get size(): number {
    return this.#size;
  }

  insert(key: Buffer, value: number): void {
    const text = key.toString("latin1");
    const before: SkipNode[] = new Array<SkipNode>(LEVELS).fill(this.#head);
    const found = this.#find(text, before);
    if (found?.key === text) {
      found.value = value;
      return;
    }
    let levels = 1;
    while (levels < LEVELS && (this.#random.word() & 3) === 0) levels++;
    const node: SkipNode = { key: text, value, next: new Array<SkipNode | undefined>(levels) };
    for (let level = 0; level < levels; level++) {
      const previous = before[level] ?? this.#head;
      node.next[level] = previous.next[level];
      previous.next[level] = node;
    }
    this.#size++;
  }

  get(key: Buffer): number | undefined {
    const text = key.toString("latin1");
    const found = this.#find(text, undefined);
    return found?.key === text ? found.value : undefined;
  }

  drain(): number[] {
    const values: number[] = [];
    for (let node = this.#head.next[0]; node; node = node.next[0]) values.push(node.value);
    this.#head = { key: "", value: 0, next: new Array<undefined>(LEVELS).fill(undefined) };
    this.#size = 0;
    return values;
  }

  #find(key: string, before: SkipNode[] | undefined): SkipNode | undefined {
    let node = this.#head;
    for (let level = LEVELS - 1; level >= 0; level--) {
      for (let next = node.next[level]; next && next.key < key; next = node.next[level])
        node = next;
      if (before) before[level] = node;
    }
    return node.next[0];
  }
}

function hashAt(bytes: Uint8Array, start: number): number {
  let hash = 0x811c9dc5;
  for (let i = start; i < start + KEY_BYTES; i++)
    hash = Math.imul(hash ^ (bytes[i] as number), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}

function writeNumber(bytes: Uint8Array, at: number, value: number): void {
  for (let i = 0; i < 4; i++) bytes[at + i] = value >>> (i * 8);
}

function readNumber(bytes: Uint8Array, at: number): number {
  let value = 0;
  for (let i = 0; i < 4; i++) value += (bytes[at + i] as number) * 2 ** (i * 8);
  return value;
}

const VARIANTS: Readonly<Record<string, () => Buffer16>> = {
  "hash-and-list": () => new HashAndList(),
  "sorted-map": () => new SortedMap(),
  "sorted-array": () => new SortedArray(),
  "skip-list": () => new SkipList(),
};

const [name = "hash-and-list"] = process.argv.slice(2);
const keys = Number(process.argv[3] ?? 1_000_000);
const window = Number(process.argv[4] ?? keys / 10);
const create = VARIANTS[name];
if (create === undefined) throw new Error(`variants: ${Object.keys(VARIANTS).join(", ")}`);

let gcMs = 0;
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) gcMs += duration;
}).observe({ entryTypes: ["gc"] });

/** Key number n, always the same. */
const key = Buffer.alloc(KEY_BYTES);
function keyOf(n: number): Buffer {
  let state = Math.imul(n + 1, 0x9e3779b1);
  for (let i = 0; i < KEY_BYTES; i += 4) {
    state = Math.imul(state ^ (state >>> 15), 0x85ebca6b) + i + n;
    key.writeUInt32LE(state >>> 0, i);
  }
  return key;
}

globalThis.gc?.();
const heldBefore = process.memoryUsage();
const buffer = create();
const random = new Random(9);
const inserts = new Float64Array(keys);
let done = 0;
let hits = 0;
let drained = 0;
let drainMs = 0;
let heldBytes = 0;
const began = performance.now();
const cpu = process.cpuUsage();
let drainedAt = 0;
for (; done < keys && performance.now() - began < LIMIT_MS; done++) {
  const next = keyOf(done);
  const start = performance.now();
  buffer.insert(next, done);
  inserts[done] = (performance.now() - start) * 1000;
  const wanted = done - random.below(Math.min(done + 1, window));
  const found = buffer.get(keyOf(wanted));
  if (wanted >= drainedAt) {
    check(found === wanted, `key ${wanted} was written and not found`);
    hits++;
  }
  if (buffer.size < window) continue;
  if (heldBytes === 0) {
    globalThis.gc?.();
    const held = process.memoryUsage();
    heldBytes = held.heapUsed + held.arrayBuffers - heldBefore.heapUsed - heldBefore.arrayBuffers;
  }
  const drainStart = performance.now();
  const values = buffer.drain();
  drainMs += performance.now() - drainStart;
  drained += values.length;
  drainedAt = done + 1;
}
const wallMs = performance.now() - began;
const used = process.cpuUsage(cpu);
check(
  drained + buffer.size === done,
  `${drained} drained and ${buffer.size} held of ${done} inserted`,
);
// Reports of the collector come with the event loop.
await new Promise((resolve) => setTimeout(resolve, 50));
const sorted = inserts.subarray(0, done);
const at = (share: number): number => Number(percentile([...sorted], share).toPrecision(3));
console.log(
  JSON.stringify({
    buffer: name,
    inserts: done,
    of: keys,
    window,
    operationsASecond: Math.round((done * 2000) / wallMs),
    cpuUsAnInsertAndRead: Number(((used.user + used.system) / done).toPrecision(3)),
    p95Us: at(0.95),
    p99Us: at(0.99),
    p999Us: at(0.999),
    drainNsAnEntry: Math.round((drainMs * 1e6) / Math.max(1, drained)),
    heldBytesAnEntry: Math.round(heldBytes / window),
    gcMs: Math.round(gcMs),
    hitShare: Number((hits / done).toPrecision(3)),
  }),
);
