// Rewrites the live entries of a store into a new one, each node full and in key order, as a bulk load would. Reads snapshots, so that
// queries and updates of the old store go on meanwhile:
//
// 1. copy(): every tree of a snapshot is built anew. Takes turns with the event loop.
// 2. catchUp(): what changed in the old store since is applied to the new one; the cost is that of the change. Repeat while
//    updates come in; call it a last time when they are held, then commit the new store and let it take the old one's place.
//
// Nothing refers to the new store until then: one that was given up, or that a killed process left behind, is deleted and the
// compaction begun again.

import { TreeBuilder } from "./builder.js";
import { invariant } from "./errors.js";
import { assembleForests } from "./forest.js";
import type { Snapshot } from "./snapshot.js";
import type { Store } from "./store.js";
import { treeChanges } from "./tree-diff.js";
import { Turns } from "./turns.js";
import type { Bytes, KeyRange, Reducer, TreeOp, TreeReader, TreeRoot } from "./types.js";
import { storedNodesOf, uncached } from "./waiting-reader.js";

/** How far a compaction's copy is. */
export interface CompactionProgress {
  /** The tree that is being copied. */
  readonly tree: string;
  /** Rows copied, of all trees. */
  readonly rowsDone: number;
  /** Rows of the snapshot, of all trees. */
  readonly rowsTotal: number;
}

/** Options of {@link Compaction}. */
export interface CompactionOptions {
  /** The reducers both stores were opened with. */
  readonly reducers: (tree: string) => Reducer;
  /** Stops the compaction at its next turn: its promise is then rejected with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: CompactionProgress) => void) | undefined;
}

/** Options of {@link compactTree}. */
export interface CompactTreeOptions {
  /** Only these keys: threads may each copy a part. */
  readonly range?: KeyRange | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Rows copied so far, without what waits in the log; at the end all of them. */
  readonly onProgress?: ((rows: number) => void) | undefined;
}

/** What entries are added to: a builder, or whoever makes something else of them. */
export type EntryTarget = Pick<TreeBuilder, "add" | "needsDrain" | "drain">;

/** Changes are applied in batches of at most so many operations or bytes. */
const BATCH_OPS_MAX = 5000;
const BATCH_BYTES_MAX = 4 * 1024 * 1024;

/**
 * A compaction of one store into another.
 *
 * @example
 * ```ts
 * const target = await Store.create(next, { state: source.state, reducers });
 * const compaction = new Compaction(source, target, { reducers });
 * await compaction.copy();
 * while ((await compaction.catchUp()) > 1000);
 * // hold updates
 * await compaction.catchUp();
 * await target.commit({ sync: true });
 * ```
 */
export class Compaction {
  readonly #source: Store;
  readonly #target: Store;
  readonly #options: CompactionOptions;
  /** The state of the source that the target holds. */
  #held: Snapshot | undefined;

  /** `target` is new, empty, and written to by nobody else. */
  constructor(source: Store, target: Store, options: CompactionOptions) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  /**
   * Copies the source's present state.
   *
   * @throws BtreeError BTREE_CORRUPT or BTREE_IO from the source, BTREE_BROKEN from the target; the reducer's error; the
   * signal's reason. The target is of no use then.
   */
  async copy(): Promise<void> {
    invariant(this.#held === undefined, "a compaction copies once");
    const { reducers, signal, onProgress } = this.#options;
    const snapshot = this.#source.snapshot();
    this.#held = snapshot;
    const names = snapshot.treeNames();
    const rowsTotal = names.reduce((sum, name) => sum + snapshot.tree(name).count, 0);
    const roots = new Map<string, TreeRoot | undefined>();
    let rowsBefore = 0;
    for (const tree of names) {
      const reader = snapshot.tree(tree);
      const reducer = reducers(tree);
      const builder = new TreeBuilder(this.#target.sink(), this.#target.format, reducer);
      await compactTree(reader, builder, {
        signal,
        onProgress: (rows) => onProgress?.({ tree, rowsDone: rowsBefore + rows, rowsTotal }),
      });
      const forest = await builder.finishPartition();
      invariant(
        forest.rows === reader.count,
        `tree ${tree} was copied with another number of rows`,
      );
      roots.set(
        tree,
        await assembleForests(this.#target.sink(), this.#target.format, reducer, [forest]),
      );
      rowsBefore += reader.count;
    }
    this.#target.adopt(roots, snapshot.state);
  }

  /**
   * Brings the target to the source's present state, the owner's blob included.
   *
   * @returns how many operations that took: when few, it is time to switch.
   * @throws as `copy()`; may be called again after an abort.
   */
  async catchUp(): Promise<number> {
    const before = this.#held;
    invariant(before !== undefined, "a compaction catches up after it has copied");
    const after = this.#source.snapshot();
    let operations = 0;
    try {
      for (const tree of new Set([...before.treeNames(), ...after.treeNames()])) {
        operations += await this.#applyChanges(tree, before, after);
      }
      await this.#target.apply(new Map(), after.state);
    } catch (error) {
      after.release();
      throw error;
    }
    before.release();
    this.#held = after;
    return operations;
  }

  /** Lets the source's snapshot go. The compaction is over. */
  close(): void {
    this.#held?.release();
    this.#held = undefined;
  }

  async #applyChanges(tree: string, before: Snapshot, after: Snapshot): Promise<number> {
    const turns = new Turns();
    let operations = 0;
    for (const ops of inBatches(treeChanges(before.tree(tree), after.tree(tree)))) {
      this.#options.signal?.throwIfAborted();
      await this.#target.apply(new Map([[tree, ops]]), this.#target.state);
      operations += ops.length;
      await turns.take();
    }
    return operations;
  }
}

/**
 * Adds a tree's entries to a builder, in key order. Takes turns with the event loop, and waits when the builder does.
 *
 * @returns rows copied, by the reader's count.
 * @throws BtreeError BTREE_CORRUPT, BTREE_IO; the reducer's error; the signal's reason.
 */
export async function compactTree(
  reader: TreeReader,
  builder: EntryTarget,
  options: CompactTreeOptions = {},
): Promise<number> {
  const { range = {}, signal, onProgress } = options;
  signal?.throwIfAborted();
  // The cache keeps what queries use meanwhile.
  const walker = uncached(reader);
  // What waits is left out of the progress: to count it in means to make nodes of it.
  const stored = storedNodesOf(walker) ?? walker;
  const storedBefore = range.gte ? stored.rank(range.gte) : 0;
  const turns = new Turns();
  for (const slice of walker.slices(range)) {
    let last: Bytes | undefined;
    for (let i = 0; i < slice.length; i++) {
      const key = slice.key(i);
      const value = slice.value(i);
      builder.add(key, 0, key.length, value, 0, value.length);
      last = key;
    }
    if (builder.needsDrain) await builder.drain();
    if (turns.due()) {
      if (onProgress && last) onProgress(stored.rank(last) + 1 - storedBefore);
      await turns.take();
      signal?.throwIfAborted();
    }
  }
  const rowsBefore = range.gte ? walker.rank(range.gte) : 0;
  const rows = Math.max(0, (range.lt ? walker.rank(range.lt) : reader.count) - rowsBefore);
  onProgress?.(rows);
  return rows;
}

function* inBatches(ops: Iterable<TreeOp>): IterableIterator<readonly TreeOp[]> {
  let batch: TreeOp[] = [];
  let bytes = 0;
  for (const op of ops) {
    batch.push(op);
    bytes += op.key.length + (op.value?.length ?? 0);
    if (batch.length >= BATCH_OPS_MAX || bytes >= BATCH_BYTES_MAX) {
      yield batch;
      batch = [];
      bytes = 0;
    }
  }
  if (batch.length > 0) yield batch;
}
