// Rewrites a group's trees in a later version of the root order, in which rows may stand in another order. To a compaction
// (compaction.ts) it looks like the copy of btree/compaction.ts:
//
// 1. copy(): the rows that the old order dropped are gathered from the id tree (dropped-rows.ts). Each view tree in root order is read
//    through; its keys and those of the dropped rows are made anew from their texts (renewed-rows.ts), sorted on disk (row-sorter.ts), and
//    built up with new reductions. What keys each document has now, and what is dropped now, is noted on the way (document-keys.ts), and
//    laid beside the old id tree for the new one. Trees in raw order, and the errors, are copied.
// 2. catchUp(): documents that changed since are taken over one by one: their rows of then go, their rows of now come.
//
// Rows of one document whose keys have become equal are one row then (VIEWS §5), and those whose keys are equal no more are several, as in a
// build of today.

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";

import {
  assembleForests,
  compactTree,
  TreeBuilder,
  type Bytes,
  type Reducer,
  type Snapshot,
  type Store,
  type TreeReader,
  type TreeRoot,
} from "../../btree/index.js";
import type { ViewGroupSpec } from "./design-document.js";
import { DocumentKeys } from "./document-keys.js";
import { DroppedRows } from "./dropped-rows.js";
import { decodeState, encodeState } from "./group-index.js";
import { ERRORS_TREE, IDS_TREE, viewTreeName } from "./group-reducers.js";
import { RenewedDocuments } from "./renewed-documents.js";
import { RowRenewer } from "./renewed-rows.js";
import { RowSorter } from "./row-sorter.js";

export interface RenewalOptions {
  readonly spec: ViewGroupSpec;
  /** Version of the root order that the source is kept in. */
  readonly from: number;
  /** The one that the target is to be kept in. */
  readonly to: number;
  /** Of the target. */
  readonly reducers: (tree: string) => Reducer;
  /** Where rows are sorted; made, and removed at the end. */
  readonly folder: string;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: {
    readonly phase: "sort" | "copy";
    readonly rows: number;
    readonly rowsTotal: number;
  }) => void;
}

/** After so much work others get a turn. */
const TURN_MS = 5;

export class Renewal {
  readonly #source: Store;
  readonly #target: Store;
  readonly #options: RenewalOptions;
  readonly #renewer: RowRenewer;
  /** The state of the source that the target holds. */
  #held: Snapshot | undefined;
  #turnEnd = 0;

  /** `target` is new, empty, and written to by nobody else. */
  constructor(source: Store, target: Store, options: RenewalOptions) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
    this.#renewer = new RowRenewer(options.from, options.to, options.spec.partitioned);
  }

  /**
   * Takes over the source's present state.
   *
   * @throws BtreeError from either file or the sorted ones; IndexerError INDEXER_INCONSISTENT; the reducer's error; the signal's reason.
   * The target is of no use then.
   */
  async copy(): Promise<void> {
    const { folder, spec, signal } = this.#options;
    const snapshot = this.#source.snapshot();
    this.#held = snapshot;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    const documents = new DocumentKeys(join(folder, "documents.run"));
    const dropped = new DroppedRows(join(folder, "dropped.run"));
    try {
      await compactTree(snapshot.tree(IDS_TREE), dropped.target, { signal });
      const rowsOf = (names: readonly string[]): number =>
        names.reduce((sum, name) => sum + snapshot.tree(name).count, 0);
      const renewed = spec.trees.filter(({ collation }) => collation === "root");
      const progress = {
        sorted: 0,
        toSort: rowsOf(renewed.map(({ number }) => viewTreeName(number))),
        copied: 0,
        toCopy: rowsOf(snapshot.treeNames()),
      };
      const roots = new Map<string, TreeRoot | undefined>();
      for (const { number, collation } of spec.trees) {
        const name = viewTreeName(number);
        const tree = snapshot.tree(name);
        const root =
          collation === "root"
            ? this.#renewTree(number, tree, { documents, dropped }, progress)
            : this.#copyTree(name, tree, progress);
        roots.set(name, await root);
      }
      roots.set(
        ERRORS_TREE,
        await this.#copyTree(ERRORS_TREE, snapshot.tree(ERRORS_TREE), progress),
      );
      roots.set(IDS_TREE, await this.#renewIds(snapshot.tree(IDS_TREE), documents, progress));
      this.#target.adopt(roots, renewedState(snapshot.state, this.#options.to));
    } finally {
      documents.close();
      dropped.close();
      rmSync(folder, { recursive: true, force: true });
    }
  }

  /**
   * Brings the target to the source's present state, the checkpoint included.
   *
   * @returns how many operations that took: when few, it is time to switch.
   * @throws as `copy()`.
   */
  async catchUp(): Promise<number> {
    const { spec, signal, to } = this.#options;
    const before = this.#held as Snapshot;
    const after = this.#source.snapshot();
    let operations = 0;
    try {
      const documents = new RenewedDocuments(spec, this.#renewer, before, after);
      for (const batch of documents.batches()) {
        signal.throwIfAborted();
        await this.#target.apply(batch.changes, this.#target.state);
        operations += batch.operations;
        await setImmediate();
      }
      await this.#target.apply(new Map(), renewedState(after.state, to));
    } catch (error) {
      after.release();
      throw error;
    }
    before.release();
    this.#held = after;
    return operations;
  }

  /** Lets the source's snapshot go. */
  close(): void {
    this.#held?.release();
    this.#held = undefined;
  }

  async #renewTree(
    number: number,
    tree: TreeReader,
    { documents, dropped }: { readonly documents: DocumentKeys; readonly dropped: DroppedRows },
    progress: Progress,
  ): Promise<TreeRoot | undefined> {
    const { folder, signal, onProgress } = this.#options;
    const name = viewTreeName(number);
    const path = join(folder, `${number}.run`);
    const sorter = new RowSorter(path);
    const { batch } = sorter;
    /** @param key - the old one, or the id of a dropped row's document. @returns the new one, until the next call. */
    const push = (key: Bytes, id: Bytes, value: Bytes): Bytes => {
      const start = batch.used;
      const renewed = this.#renewer.renew(key, value, batch);
      const end = batch.used;
      const keyEnd = end + id.length;
      batch.ensure(id.length + renewed.length);
      batch.bytes.set(id, end);
      batch.bytes.set(renewed, keyEnd);
      batch.used = keyEnd + renewed.length;
      const made = batch.bytes.subarray(start, end);
      sorter.push(start, keyEnd, batch.used);
      return made;
    };
    try {
      await compactTree(
        tree,
        {
          needsDrain: false,
          drain: () => Promise.resolve(),
          add: (kb, ks, ke, vb, vs, ve) => {
            const key = kb.subarray(ks, ke);
            const idStart = this.#renewer.idStart(key);
            const id = key.subarray(idStart);
            const made = push(key, id, vb.subarray(vs, ve));
            documents.renewed(number, key.subarray(0, idStart), made, id);
          },
        },
        {
          signal,
          onProgress: (rows) => {
            onProgress({ phase: "sort", rows: progress.sorted + rows, rowsTotal: progress.toSort });
          },
        },
      );
      progress.sorted += tree.count;
      for (const { id, row } of dropped.of(number)) {
        documents.returned(number, push(id, id, row), id);
        if (performance.now() >= this.#turnEnd) await this.#turn();
      }
      return await this.#build(name, async (builder) => {
        let rows = 0;
        let key: Bytes | undefined;
        let value = EMPTY;
        for (const row of sorter.sorted()) {
          if (key && Buffer.compare(key, row.key) === 0) {
            const settled = this.#renewer.settle(key, value, row.value);
            value = settled.kept;
            documents.dropped(number, settled.dropped, key.subarray(this.#renewer.idStart(key)));
            continue;
          }
          if (key) builder.add(key, 0, key.length, value, 0, value.length);
          ({ key, value } = row);
          rows++;
          if (builder.needsDrain) await builder.drain();
          if (performance.now() >= this.#turnEnd) {
            tellCopied(progress, rows, onProgress);
            await this.#turn();
          }
        }
        if (key) builder.add(key, 0, key.length, value, 0, value.length);
        progress.copied += tree.count;
      });
    } finally {
      sorter.close();
      rmSync(path, { force: true });
    }
  }

  async #renewIds(
    tree: TreeReader,
    documents: DocumentKeys,
    progress: Progress,
  ): Promise<TreeRoot | undefined> {
    const { spec } = this.#options;
    return this.#build(IDS_TREE, async (builder) => {
      const target = documents.idTree(builder, (number) => spec.trees[number]?.collation !== "raw");
      await this.#walk(tree, target, progress);
      target.end();
    });
  }

  #copyTree(name: string, tree: TreeReader, progress: Progress): Promise<TreeRoot | undefined> {
    return this.#build(name, (builder) => this.#walk(tree, builder, progress));
  }

  async #walk(
    tree: TreeReader,
    target: Parameters<typeof compactTree>[1],
    progress: Progress,
  ): Promise<void> {
    const { signal, onProgress } = this.#options;
    await compactTree(tree, target, {
      signal,
      onProgress: (rows) => {
        tellCopied(progress, rows, onProgress);
      },
    });
    progress.copied += tree.count;
  }

  async #build(
    name: string,
    fill: (builder: TreeBuilder) => Promise<void>,
  ): Promise<TreeRoot | undefined> {
    const target = this.#target;
    const reducer = this.#options.reducers(name);
    const builder = new TreeBuilder(target.sink(), target.format, reducer);
    await fill(builder);
    const forest = await builder.finishPartition();
    return assembleForests(target.sink(), target.format, reducer, [forest]);
  }

  async #turn(): Promise<void> {
    await setImmediate();
    this.#options.signal.throwIfAborted();
    this.#turnEnd = performance.now() + TURN_MS;
  }
}

const EMPTY: Bytes = new Uint8Array(0);

/** Rows of the trees that are done, and of all. */
interface Progress {
  sorted: number;
  readonly toSort: number;
  copied: number;
  readonly toCopy: number;
}

function tellCopied(
  { copied, toCopy }: Progress,
  rows: number,
  onProgress: RenewalOptions["onProgress"],
): void {
  // Rows that had been dropped come on top of those that were counted.
  onProgress({ phase: "copy", rows: Math.min(copied + rows, toCopy), rowsTotal: toCopy });
}

/** The checkpoint of a file as it stands in one that is kept in another version of the root order. */
export function renewedState(state: Uint8Array, collation: number): Uint8Array {
  return encodeState({ ...decodeState(state), collation });
}
