// Rewrites a group's trees in a later version of the root order, in which rows may stand in another order. To a compaction
// (compaction.ts) it looks like the copy of btree/compaction.ts:
//
// 1. copy(): each view tree in root order is read through; its keys are made anew from their texts (renewed-rows.ts), sorted on disk
//    (row-sorter.ts), and built up with new reductions. What keys each document has now is gathered on the way (document-keys.ts), and laid
//    beside the old id tree for the new one. Trees in raw order, and the errors, are copied.
// 2. catchUp(): documents that changed since are taken over one by one: their rows of then go, their rows of now come.
//
// Rows of one document whose keys have become equal are one row then (VIEWS §5), as in a build of today. What the older version dropped as
// equal is not in its file: it comes back when the document changes, or with a new build.

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
    const { folder, spec } = this.#options;
    const snapshot = this.#source.snapshot();
    this.#held = snapshot;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    const documents = new DocumentKeys(join(folder, "documents.run"));
    try {
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
            ? this.#renewTree(number, tree, documents, progress)
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
    documents: DocumentKeys,
    progress: Progress,
  ): Promise<TreeRoot | undefined> {
    const { folder, signal, onProgress } = this.#options;
    const name = viewTreeName(number);
    const path = join(folder, `${number}.run`);
    const sorter = new RowSorter(path);
    try {
      const { batch } = sorter;
      await compactTree(
        tree,
        {
          needsDrain: false,
          drain: () => Promise.resolve(),
          add: (kb, ks, ke, vb, vs, ve) => {
            const key = kb.subarray(ks, ke);
            const idStart = this.#renewer.idStart(key);
            const id = key.subarray(idStart);
            const start = batch.used;
            const value = this.#renewer.renew(key, vb.subarray(vs, ve), batch);
            const made = batch.bytes.subarray(start, batch.used);
            documents.add(number, key.subarray(0, idStart), made, id);
            batch.ensure(id.length + value.length);
            batch.bytes.set(id, batch.used);
            const keyEnd = batch.used + id.length;
            batch.bytes.set(value, keyEnd);
            batch.used = keyEnd + value.length;
            sorter.push(start, keyEnd, batch.used);
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
      return await this.#build(name, async (builder) => {
        let rows = 0;
        let key: Bytes | undefined;
        let value = EMPTY;
        for (const row of sorter.sorted()) {
          if (key && Buffer.compare(key, row.key) === 0) {
            value = this.#renewer.survivor(key, value, row.value);
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
  onProgress({ phase: "copy", rows: copied + rows, rowsTotal: toCopy });
}

/** The checkpoint of a file as it stands in one that is kept in another version of the root order. */
export function renewedState(state: Uint8Array, collation: number): Uint8Array {
  return encodeState({ ...decodeState(state), collation });
}
