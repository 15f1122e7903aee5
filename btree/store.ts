// The file with its named trees: open, snapshot, apply, commit. One writer at a time; readers in this process see what was
// applied, readers in others what was committed. FORMAT.md tells the commit protocol and argues the crash cases.

import { rmSync } from "node:fs";
import { applyBatch, applyWaiting, type ApplyContext } from "./batch-apply.js";
import type { BulkTarget } from "./bulk-sink.js";
import { saltSeed } from "./checksum.js";
import { readCommit } from "./commit-reader.js";
import { BtreeError, invariant } from "./errors.js";
import { FileStorage, syncFolderOf } from "./file-storage.js";
import { DATA_START, FORMAT_VERSION, SLOT_BYTES, type TreeFormat } from "./format.js";
import {
  currentBootId,
  encodeSeal,
  encodeSlot,
  isSoftSlot,
  otherSlot,
  SEAL_OFFSET,
  type Header,
} from "./header.js";
import { MemoryOffsets } from "./memory-nodes.js";
import { NodeSource } from "./node-source.js";
import { sharedNodeCache, type NodeCache } from "./node-cache.js";
import { RecordLog, type NodeSink } from "./record-log.js";
import { encodeRoots, type Roots } from "./roots-record.js";
import { type ReadContext, RootsSnapshot, TreeReaders, type Snapshot } from "./snapshot.js";
import { forgetStale } from "./stale-nodes.js";
import type { StorageBackend } from "./storage.js";
import {
  formatOf,
  logLimits,
  oneSyncBytes,
  type CreateOptions,
  type OpenOptions,
  type StoreOptions,
  type StoreStats,
} from "./store-options.js";
import type { ApplyStats } from "./tree-update.js";
import type { Bytes, TreeOp, TreeReader, TreeRoot } from "./types.js";
import type { TreeState } from "./waiting-tree.js";

/** Bytes of nodes gathered before they are written. */
const LOG_BUFFER_BYTES = 1024 * 1024;

/**
 * @example
 * ```ts
 * const store = await Store.create("index.vmx", { state: new Uint8Array(), reducers: () => ({ count: () => 1 }) });
 * await store.apply(new Map([["ids", [{ key, value }]]]), state);
 * await store.commit({ sync: true });
 * const value = store.snapshot().tree("ids").get(key);
 * ```
 */
export class Store {
  readonly #storage: StorageBackend;
  readonly #mode: "write" | "read";
  readonly #cache: NodeCache;
  readonly #bootId: string;
  readonly #next = new SharedArrayBuffer(8);
  readonly #log: RecordLog;
  readonly #source: NodeSource;
  readonly #context: ApplyContext & ReadContext;
  readonly #format: TreeFormat;
  /** What snapshots see: the last applied state. */
  #roots: Roots;
  #readers: TreeReaders | undefined;
  /** The last header written or read. */
  #header: Header;
  #rootsCommitted: Roots;
  #syncedCommit: number;
  /** Slots of the last synced commit and of the last other one: the next of each kind takes the other place. */
  #syncedSlot: number;
  #softSlot: number;
  #fallback: boolean;
  #snapshots = 0;
  #applying = false;
  #committing: Promise<void> = Promise.resolve();
  #open = true;

  private constructor(
    storage: StorageBackend,
    mode: "write" | "read",
    options: StoreOptions,
    header: Header,
    roots: Roots,
    cursor: { end: number; syncedSlot: number; softSlot: number; fallback: boolean },
  ) {
    this.#storage = storage;
    this.#mode = mode;
    this.#cache = options.cache ?? sharedNodeCache();
    this.#bootId = options.bootId ?? currentBootId();
    this.#format = header.format;
    this.#header = header;
    this.#roots = roots;
    this.#rootsCommitted = roots;
    this.#syncedCommit = isSoftSlot(header.slot) ? -1 : header.commit;
    this.#syncedSlot = cursor.syncedSlot;
    this.#softSlot = cursor.softSlot;
    this.#fallback = cursor.fallback;
    const next = new BigUint64Array(this.#next);
    next[0] = BigInt(cursor.end);
    const seed = saltSeed(header.format.salt);
    this.#log = new RecordLog(storage, next, seed, {
      extentBytes: 0,
      bufferBytes: mode === "write" ? LOG_BUFFER_BYTES : 0,
      tailBytesMax: oneSyncBytes(options),
    });
    this.#source = new NodeSource(
      storage.path,
      mode === "write" ? this.#log : storage,
      seed,
      this.#cache,
    );
    this.#context = {
      source: this.#source,
      log: this.#log,
      format: this.#format,
      reducers: options.reducers,
      offsets: new MemoryOffsets(),
      limits: logLimits(options),
      assertWritable: () => {
        this.#assertWritable();
      },
    };
  }

  /**
   * Creates a store with no trees and commits it.
   * @throws BtreeError BTREE_EXISTS, BTREE_BROKEN
   */
  static async create(where: string | StorageBackend, options: CreateOptions): Promise<Store> {
    const format = formatOf(options);
    const storage = typeof where === "string" ? FileStorage.open(where, "create") : where;
    if (storage.size() > 0) {
      throw new BtreeError("BTREE_EXISTS", "the storage to create a store in is not empty", {
        file: storage.path,
      });
    }
    const header: Header = {
      slot: 1,
      commit: 0,
      rootsOffset: 0,
      rootsSize: 0,
      fileLength: DATA_START,
      format,
      bootId: "",
      version: FORMAT_VERSION,
      tail: undefined,
    };
    const roots: Roots = { state: options.state, trees: new Map() };
    const store = new Store(storage, "write", options, header, roots, {
      end: DATA_START,
      syncedSlot: 1,
      softSlot: 3,
      fallback: false,
    });
    store.#syncedCommit = -1;
    try {
      await store.commit({ sync: true });
      if (typeof where === "string") await syncFolderOf(where);
    } catch (error) {
      await store.close();
      // Half a file would stand in the way of the next attempt.
      if (typeof where === "string") rmSync(where, { force: true });
      throw error;
    }
    return store;
  }

  /**
   * Opens at the newest commit that is there whole. Takes the same time whatever was appended since.
   * @throws BtreeError BTREE_NOT_FOUND, BTREE_NO_HEADER, BTREE_VERSION_UNSUPPORTED, BTREE_CORRUPT, BTREE_IO
   */
  // eslint-disable-next-line @typescript-eslint/require-await -- opening may come to wait; callers await it already
  static async open(where: string | StorageBackend, options: OpenOptions): Promise<Store> {
    const storage = typeof where === "string" ? FileStorage.open(where, options.mode) : where;
    try {
      return Store.#openAt(storage, options);
    } catch (error) {
      storage.close();
      throw error;
    }
  }

  static #openAt(storage: StorageBackend, options: OpenOptions): Store {
    const found = readCommit(storage, options.bootId ?? currentBootId());
    const { header, roots, fallback, newestCommit } = found;
    let end = header.fileLength;
    if (options.mode === "write") {
      const size = storage.size();
      if (size > end) {
        // What lies beyond belongs to no commit, so nobody has read it: its place can be used again. If a slot was lost, somebody
        // may have: then new records go behind, for readers know nodes by their offsets.
        if (found.suspect) end = size;
        else storage.truncate(end);
      }
    }
    const continued = { ...header, commit: Math.max(header.commit, newestCommit) };
    const store = new Store(storage, options.mode, options, continued, roots, {
      end,
      syncedSlot: found.syncedSlot,
      softSlot: found.softSlot,
      fallback,
    });
    // Whole is not durable: who wrote the tail may not have lived to see it synced.
    if (fallback || continued.commit !== header.commit || header.tail) store.#syncedCommit = -1;
    return store;
  }

  /** True when the newest commit could not be read at opening, and the one before it was taken. */
  get fellBack(): boolean {
    return this.#fallback;
  }

  /** Of the last commit written or read; grows with each. */
  get commitNumber(): number {
    return this.#header.commit;
  }

  /** Number of the commit that holds just what was last applied; undefined while something applied waits for its commit. */
  get stateCommit(): number | undefined {
    return this.#roots === this.#rootsCommitted ? this.#header.commit : undefined;
  }

  get path(): string | undefined {
    return this.#storage.path;
  }

  /** What the nodes of this file look like. */
  get format(): TreeFormat {
    return this.#format;
  }

  /** The owner's blob of the last applied state: changes together with the trees. */
  get state(): Bytes {
    return this.#roots.state;
  }

  /** A reader of one tree as it was last applied: what a snapshot's `tree` gives. */
  tree(name: string): TreeReader {
    this.#assertOpen();
    if (this.#readers?.roots !== this.#roots)
      this.#readers = new TreeReaders(this.#roots, this.#context);
    return this.#readers.tree(name);
  }

  /** The last applied state, committed or not. */
  snapshot(): Snapshot {
    this.#assertOpen();
    this.#snapshots++;
    return new RootsSnapshot(this.#roots, this.#context, () => this.#snapshots--);
  }

  /**
   * Applies a batch: operations of each tree, by strictly ascending key. All trees and the state become visible at once, when
   * the promise resolves; if it rejects nothing has changed.
   * @throws BtreeError BTREE_KEY_ORDER, BTREE_LIMIT, BTREE_BUSY, BTREE_READ_ONLY, BTREE_BROKEN, BTREE_CORRUPT, or the reducer's error
   */
  async apply(changes: ReadonlyMap<string, readonly TreeOp[]>, state: Bytes): Promise<ApplyStats> {
    const counts = { inserted: 0, replaced: 0, removed: 0, unchanged: 0, logged: 0 };
    const writtenBefore = this.#log.bytesWritten;
    const readBefore = this.#source.reads;
    await this.#changing(async () => ({
      state,
      trees: await applyBatch(this.#context, this.#roots.trees, changes, counts),
    }));
    return {
      ...counts,
      bytesWritten: this.#log.bytesWritten - writtenBefore,
      recordsRead: this.#source.reads - readBefore,
    };
  }

  /**
   * Applies everything that waits in the log to the trees. Nobody who reads sees a difference.
   * @throws as `apply`
   */
  async settle(): Promise<void> {
    const { state, trees } = this.#roots;
    if (![...trees.values()].some(({ waiting }) => waiting)) return;
    await this.#changing(async () => ({ state, trees: await applyWaiting(this.#context, trees) }));
  }

  async #changing(work: () => Promise<Roots>): Promise<void> {
    this.#assertWritable();
    if (this.#applying)
      throw new BtreeError("BTREE_BUSY", "the last apply has not ended: await it first", {
        file: this.path,
      });
    this.#applying = true;
    try {
      const roots = await work();
      this.#assertWritable();
      this.#roots = roots;
    } finally {
      this.#applying = false;
    }
  }

  /**
   * Makes the state applied at the time of the call the one that opening finds. With `sync` it outlasts a loss of power, without
   * one the death of this process. Commits run one after the other; a failure breaks the store.
   * @throws BtreeError BTREE_BROKEN, BTREE_READ_ONLY, BTREE_NOT_OPEN
   */
  commit(options: { readonly sync: boolean }): Promise<void> {
    const done = this.#committing.then(() => this.#commit(options.sync));
    this.#committing = done.catch(() => undefined);
    return done;
  }

  async #commit(sync: boolean): Promise<void> {
    this.#assertWritable();
    const roots = this.#roots;
    const written = roots === this.#rootsCommitted && this.#header.commit > 0 && !this.#fallback;
    if (written && (!sync || this.#syncedCommit === this.#header.commit)) return;
    const record = encodeRoots(roots);
    const rootsOffset = this.#log.append(record);
    this.#log.flush();
    // Little was written, all of it here: then one sync does for records and header, and opening checks that both arrived.
    const tail = sync ? this.#log.tail() : undefined;
    if (sync) this.#log.startTail();
    const header: Header = {
      slot: otherSlot(sync ? this.#syncedSlot : this.#softSlot),
      commit: this.#header.commit + 1,
      rootsOffset,
      rootsSize: record.length,
      fileLength: this.#log.end,
      format: this.#format,
      bootId: sync ? "" : this.#bootId,
      version: FORMAT_VERSION,
      tail,
    };
    try {
      // A header that cannot tell whether what it points to is there must not be durable before it.
      if (sync && tail === undefined) await this.#storage.sync();
      this.#storage.write(header.slot * SLOT_BYTES, encodeSlot(header));
      if (sync) await this.#storage.sync();
    } catch (cause) {
      throw this.#log.fail(cause);
    }
    this.#header = header;
    this.#rootsCommitted = roots;
    this.#fallback = false;
    if (sync) {
      this.#syncedCommit = header.commit;
      this.#syncedSlot = header.slot;
    } else {
      this.#softSlot = header.slot;
    }
  }

  /**
   * Looks at the file for a newer commit of another process. Snapshots taken before stay as they are.
   * @returns Whether there was one; always false for the writer.
   * @throws BtreeError BTREE_CORRUPT, BTREE_IO
   */
  refresh(): boolean {
    this.#assertOpen();
    if (this.#mode === "write") return false;
    const { commit } = this.#header;
    const found = readCommit(this.#storage, this.#bootId, { commit, roots: this.#roots });
    if (found.header.commit <= this.#header.commit) return false;
    for (const [name, { root }] of found.roots.trees)
      if (root) forgetStale(this.#source, this.#roots.trees.get(name)?.root, root);
    this.#header = found.header;
    this.#roots = found.roots;
    this.#rootsCommitted = found.roots;
    return true;
  }

  /**
   * Lets other threads write nodes into this file: hand the target to `openBulkSink`.
   * @throws TypeError when the store is not in a file
   */
  bulk(): BulkTarget {
    this.#assertWritable();
    const path = this.path;
    if (path === undefined)
      throw new TypeError("a store without a file has no bulk target: use sink()");
    this.#log.flush();
    return { ...this.#format, path, next: this.#next };
  }

  /** The store's own sink, for building trees in this thread. Flushed by commit. */
  sink(): NodeSink {
    this.#assertWritable();
    return this.#log;
  }

  /**
   * Puts trees that were built into this file in place of those of the same names, together with the state. Visible at once;
   * commit separately. Sinks of other threads must have been flushed.
   */
  adopt(roots: ReadonlyMap<string, TreeRoot | undefined>, state: Bytes): void {
    this.#assertWritable();
    if (this.#applying)
      throw new BtreeError("BTREE_BUSY", "an apply is under way: await it first", {
        file: this.path,
      });
    const trees = new Map<string, TreeState>(this.#roots.trees);
    for (const [name, root] of roots) {
      if (root === undefined) {
        trees.delete(name);
      } else {
        invariant(
          root.offset >= DATA_START && root.offset + root.size <= this.#log.end,
          "an adopted root is not in this file",
        );
        forgetStale(this.#source, trees.get(name)?.root, root);
        trees.set(name, { root, waiting: undefined });
      }
    }
    this.#roots = { state, trees };
  }

  stats(): StoreStats {
    this.#assertOpen();
    const trees = [...this.#roots.trees].map(([name, { root, waiting }]) => ({
      name,
      count: root?.count ?? 0,
      height: root?.height ?? 0,
      bytes: (root?.bytes ?? 0) + (waiting?.chain.bytes ?? 0),
      waiting: waiting?.length ?? 0,
    }));
    let liveBytes = DATA_START + this.#header.rootsSize;
    for (const tree of trees) liveBytes += tree.bytes;
    return {
      fileBytes: this.#mode === "write" ? this.#log.end : this.#storage.size(),
      liveBytes,
      commit: this.#header.commit,
      snapshots: this.#snapshots,
      trees,
      cache: this.#cache.stats(),
    };
  }

  /** Waits for a commit under way and closes the file. What was applied and not committed is lost. Idempotent. */
  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#committing;
    this.#seal();
    this.#source.close();
    this.#storage.close();
  }

  /**
   * Notes that the last commit is durable, tail and all: from now on damage of it is damage, not a commit that was cut short. Not synced;
   * without it opening reads the tail.
   */
  #seal(): void {
    const header = this.#header;
    if (this.#mode === "read" || header.tail === undefined || !this.#log.usable) return;
    if (this.#syncedCommit !== header.commit) return;
    try {
      this.#storage.write(header.slot * SLOT_BYTES + SEAL_OFFSET, encodeSeal(encodeSlot(header)));
    } catch {
      // The commit is there all the same.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #assertOpen(): void {
    if (!this.#open)
      throw new BtreeError("BTREE_NOT_OPEN", `${this.path ?? "the store"} is closed`, {
        file: this.path,
      });
  }

  #assertWritable(): void {
    this.#assertOpen();
    if (this.#mode === "read") {
      throw new BtreeError(
        "BTREE_READ_ONLY",
        `${this.path ?? "the store"} was opened for reading`,
        { file: this.path },
      );
    }
    this.#log.assertUsable();
  }
}
