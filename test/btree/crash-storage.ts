// A storage that remembers every write, sync and truncation, and can tell what a disk may hold after a crash at any of them:
// all that was synced, and of the rest any subset, in any order, each write possibly torn. Everything follows from a seed.

import { MemoryStorage, type StorageBackend } from "../../btree/index.js";

/** Numbers in [0, 1), the same for the same seed. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b_79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

type Change =
  | { readonly kind: "write"; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly kind: "truncate"; readonly size: number }
  | { readonly kind: "sync" };

/** Disks write sectors whole, or so FORMAT.md does not assume: a write may end at any byte. */
const SECTOR_BYTES = 512;

export class CrashStorage implements StorageBackend {
  readonly path = undefined;
  readonly changes: Change[] = [];
  readonly #memory: MemoryStorage;
  readonly #start: Uint8Array;

  constructor(image: Uint8Array = new Uint8Array(0)) {
    this.#start = image.slice();
    this.#memory = new MemoryStorage(image);
  }

  size(): number {
    return this.#memory.size();
  }

  read(offset: number, length: number): Uint8Array {
    return this.#memory.read(offset, length);
  }

  write(offset: number, bytes: Uint8Array): void {
    this.changes.push({ kind: "write", offset, bytes: bytes.slice() });
    this.#memory.write(offset, bytes);
  }

  sync(): Promise<void> {
    this.changes.push({ kind: "sync" });
    return Promise.resolve();
  }

  truncate(size: number): void {
    this.changes.push({ kind: "truncate", size });
    this.#memory.truncate(size);
  }

  close(): void {
    // Nothing to free.
  }

  /** What another process finds when this one is killed before change `n`; the write under way may be there in part. */
  afterKill(n: number, random: () => number): Uint8Array {
    const disk = new MemoryStorage(this.#start);
    for (const change of this.changes.slice(0, n)) make(disk, change);
    const next = this.changes[n];
    if (next?.kind === "write" && random() < 0.5) makeTorn(disk, next.offset, next.bytes, random);
    return disk.read(0, disk.size());
  }

  /** What the disk may hold when power is lost before change `n`. */
  afterPowerLoss(n: number, random: () => number): Uint8Array {
    const disk = new MemoryStorage(this.#start);
    const before = this.changes.slice(0, n);
    const synced = before.findLastIndex((change) => change.kind === "sync") + 1;
    for (const change of before.slice(0, synced)) make(disk, change);
    const rest = before.slice(synced).concat(this.changes.slice(n, n + 1));
    const keep = random();
    for (let i = rest.length - 1; i > 0; i--) {
      if (random() < 0.5) continue;
      const j = Math.floor(random() * (i + 1));
      [rest[i], rest[j]] = [rest[j] as Change, rest[i] as Change];
    }
    for (const change of rest) {
      if (random() >= keep) continue;
      if (change.kind === "write" && random() < 0.5)
        makeTorn(disk, change.offset, change.bytes, random);
      else make(disk, change);
    }
    return disk.read(0, disk.size());
  }
}

function make(disk: MemoryStorage, change: Change): void {
  if (change.kind === "write") disk.write(change.offset, change.bytes);
  else if (change.kind === "truncate") disk.truncate(change.size);
}

/** The start of the write, or some of its sectors, or all of its length with zeros where nothing arrived. */
function makeTorn(
  disk: MemoryStorage,
  offset: number,
  bytes: Uint8Array,
  random: () => number,
): void {
  const kind = random();
  if (kind < 0.5) {
    disk.write(offset, bytes.subarray(0, Math.floor(random() * bytes.length)));
    return;
  }
  const torn = kind < 0.75 ? new Uint8Array(bytes.length) : disk.read(offset, bytes.length);
  const target = torn.length === bytes.length ? torn : new Uint8Array(bytes.length);
  for (let at = 0; at < bytes.length; at += SECTOR_BYTES) {
    if (random() < 0.5) target.set(bytes.subarray(at, at + SECTOR_BYTES), at);
  }
  disk.write(offset, target);
}
