// Merges sorted segments of one tree, or of one key range of it, and what the tree holds already, into new nodes of the index file. The id tree
// comes first: of a document met several times it keeps the last state, and cancels the rows of the others in the view merges that follow.

import {
  appendSegment,
  CANCEL,
  EntryBatch,
  type EntrySink,
  LeafMerger,
  Merger,
  NodeCache,
  openBulkSink,
  type MergedEntry,
  RunFile,
  Store,
  TreeBuilder,
  type Reducer,
  type SegmentRef,
} from "../../btree/index.js";
import type { JsReduceRunner } from "../reducers/index.js";
import { ERROR_NO_TREE, errorKey } from "../views/error-entry.js";
import { groupReducers, ERRORS_TREE, IDS_TREE, viewTreeName } from "../views/group-reducers.js";
import { emittedKeys, ID_DELETED, ID_ERRORS, ID_UNCHANGED } from "../views/id-entry.js";
import { portReducer } from "./port-reducer.js";
import { sessionReducer } from "./reduce-task.js";
import type { KnownBase, MergeResult, MergeTask } from "./types.js";

const STEP_ENTRIES = 8192;
/** Flags of ids that are no entries of the id tree. */
const NO_ENTRY = ID_DELETED | ID_UNCHANGED;
/** Read buffers of one merge: large reads from up to a hundred segments, and no more than a thread has held a chunk in. */
export const MERGE_BUFFER_BYTES = 4 * 2 ** 20;
/** Of the tree that is merged with: it is read through once. */
const BASE_CACHE_BYTES = 2 ** 20;
/** Cancelling rows are spilled when they take more than this. */
const CANCEL_BYTES_MAX = 8 * 2 ** 20;

/** @param memory - gives some to read into, nobody else's until the task is done. */
export async function runMergeTask(
  task: MergeTask,
  memory: () => Uint8Array = () => new Uint8Array(MERGE_BUFFER_BYTES),
): Promise<MergeResult> {
  const sink = openBulkSink(task.target, { extentBytes: task.extentBytes });
  let merger: LeafMerger | Merger | undefined;
  let base: Store | undefined;
  const cancels =
    task.cancelPath === undefined
      ? undefined
      : new Cancels(task.cancelPath, task.config.maps.length);
  try {
    const reducer = reducerOf(task);
    const builder = new TreeBuilder(sink, task.target, reducer);
    base = task.base && (await openBase(task.base));
    const onSuperseded: EntrySink | undefined =
      cancels &&
      ((kb, ks, ke, vb, vs, ve, ordinal) => {
        cancels.add(kb.subarray(ks, ke), vb.subarray(vs, ve), ordinal);
      });
    const leaves =
      base === undefined
        ? LeafMerger.open(task.segments, {
            gte: task.gte,
            lt: task.lt,
            format: task.target,
            reducer,
            builder,
            drop: task.tree === "ids" ? NO_ENTRY : 0,
            onSuperseded,
          })
        : undefined;
    merger = leaves;
    if (leaves) {
      while (leaves.step()) if (builder.needsDrain) await builder.drain();
    } else {
      const entries = entryMerger(task, base, memory(), builder, onSuperseded);
      merger = entries;
      while (entries.step(STEP_ENTRIES)) if (builder.needsDrain) await builder.drain();
    }
    const forest = await builder.finishPartition();
    sink.flush();
    return {
      forest,
      bytesWritten: sink.bytesWritten,
      entries: merger?.entriesRead ?? 0,
      cancels: cancels?.finish() ?? [],
    };
  } finally {
    merger?.close();
    sink.close();
    await base?.close();
    cancels?.close();
    task.reducePort?.close();
  }
}

/** Entry by entry: over a tree, and for what {@link LeafMerger} does not take. */
function entryMerger(
  task: MergeTask,
  base: Store | undefined,
  memory: Uint8Array,
  builder: TreeBuilder,
  onSuperseded: EntrySink | undefined,
): Merger {
  const ids = task.tree === "ids";
  return new Merger(
    task.segments,
    {
      memory,
      gte: task.gte,
      lt: task.lt,
      base: base?.tree(nameOf(task.tree)),
      onSuccessor: ids
        ? keptIds(builder)
        : (entry, shared) => {
            builder.addSuccessor(entry, shared);
          },
      ...(onSuperseded && { onSuperseded }),
    },
    (kb, ks, ke, vb, vs, ve) => {
      if (ids && (vb[vs] as number) & NO_ENTRY) return;
      builder.add(kb, ks, ke, vb, vs, ve);
    },
  );
}

async function openBase({ path, commit }: KnownBase): Promise<Store> {
  const store = await Store.open(path, {
    mode: "read",
    reducers: groupReducers.countsOnly,
    cache: new NodeCache(BASE_CACHE_BYTES),
  });
  if (store.commitNumber === commit) return store;
  const found = store.commitNumber;
  await store.close();
  throw new Error(`viewmill bug: ${path} is at commit ${found} where a merge expected ${commit}`);
}

function nameOf(tree: MergeTask["tree"]): string {
  return typeof tree === "number" ? viewTreeName(tree) : tree === "ids" ? IDS_TREE : ERRORS_TREE;
}

/** Adds what is an entry of the id tree; the next key's share of bytes is that with the last one added. */
function keptIds(builder: TreeBuilder): (entry: MergedEntry, shared: number) => void {
  let sharedWithAdded = Infinity;
  return (entry, shared) => {
    if (shared < sharedWithAdded) sharedWithAdded = shared;
    if ((entry.buffer[entry.valueStart] as number) & NO_ENTRY) return;
    builder.addSuccessor(entry, sharedWithAdded);
    sharedWithAdded = Infinity;
  };
}

function reducerOf(task: MergeTask): Reducer {
  const name = nameOf(task.tree);
  if (typeof task.tree !== "number") return groupReducers.countsOnly(name);
  const reduces = task.config.reduces[task.tree] ?? [];
  if (reduces.length === 0) return groupReducers.countsOnly(name);
  let js: JsReduceRunner | undefined;
  if (task.reducePort) js = portReducer(task.reducePort, task.reduceOurs);
  else if (reduces.some((source) => !source.startsWith("_")))
    js = sessionReducer(task.config.limits, new Int32Array(task.heartbeat), task.slot);
  const collation = task.config.collations[task.tree] ?? "root";
  const { partitioned, limits, collationVersion } = task.config;
  return groupReducers.viewReducer(
    { collation, collationVersion, reduces, partitioned },
    js,
    limits,
  );
}

/** Rows of superseded documents, as cancelling entries for each view tree and for the error tree (last). */
class Cancels {
  readonly #path: string;
  readonly #batches: readonly EntryBatch[];
  readonly #views: number;
  readonly #segments: SegmentRef[][];
  #run: RunFile | undefined;

  constructor(path: string, views: number) {
    this.#path = path;
    this.#views = views;
    this.#batches = Array.from({ length: views + 1 }, () => new EntryBatch(1024));
    this.#segments = this.#batches.map(() => []);
  }

  add(docId: Uint8Array, entry: Uint8Array, ordinal: number): void {
    const flags = entry[0] as number;
    for (const { tree, key } of emittedKeys(entry)) {
      const batch = this.#batches[tree];
      if (!batch)
        throw new Error("viewmill bug: an id entry names a view tree that does not exist");
      this.#push(tree, batch, key, docId, ordinal);
    }
    if (flags & ID_ERRORS) {
      const errors = this.#batches[this.#views] as EntryBatch;
      for (let tree = 0; tree < this.#views; tree++)
        this.#push(this.#views, errors, errorKey(docId, tree), EMPTY, ordinal);
      this.#push(this.#views, errors, errorKey(docId, ERROR_NO_TREE), EMPTY, ordinal);
    }
  }

  /** One list of segments for each view tree, then one for the error tree. */
  finish(): SegmentRef[][] {
    for (const [i, batch] of this.#batches.entries()) this.#spill(i, batch);
    return this.#segments;
  }

  close(): void {
    this.#run?.close();
  }

  #push(
    index: number,
    batch: EntryBatch,
    key: Uint8Array,
    docId: Uint8Array,
    ordinal: number,
  ): void {
    const length = key.length + docId.length;
    batch.ensure(length);
    const start = batch.used;
    batch.bytes.set(key, start);
    batch.bytes.set(docId, start + key.length);
    batch.used = start + length;
    batch.push(start, start + length, start + length, start + length, ordinal, CANCEL);
    if (batch.used > CANCEL_BYTES_MAX) this.#spill(index, batch);
  }

  #spill(index: number, batch: EntryBatch): void {
    if (batch.length === 0) return;
    this.#run ??= RunFile.create(this.#path);
    batch.sort();
    (this.#segments[index] as SegmentRef[]).push(appendSegment(this.#run, batch));
    batch.clear();
  }
}

const EMPTY = new Uint8Array(0);
