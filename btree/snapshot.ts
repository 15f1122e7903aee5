// A state of the whole file, as readers hold it.

import type { TreeFormat } from "./format.js";
import type { MemoryOffsets } from "./memory-nodes.js";
import type { NodeSource } from "./node-source.js";
import type { Roots } from "./roots-record.js";
import { NodeTreeReader } from "./tree-reader.js";
import type { Bytes, Reducer, TreeReader } from "./types.js";
import { WaitingTreeReader } from "./waiting-reader.js";

/** The trees as they were at one moment. Readers of a snapshot are never blocked and block nobody. */
export interface Snapshot {
  readonly state: Bytes;
  /** Trees that hold entries, or have operations waiting that may put some there. */
  treeNames(): string[];
  /** A reader of the tree; of an empty one when there is none of that name. */
  tree(name: string): TreeReader;
  /** Says that the snapshot is no longer needed; see `StoreStats.snapshots`. Its readers go on until the store closes. */
  release(): void;
}

/** What readers of one store's trees have in common. */
export interface ReadContext {
  readonly source: NodeSource;
  readonly reducers: (tree: string) => Reducer;
  readonly format: TreeFormat;
  /** For nodes that are made while operations wait. */
  readonly offsets: MemoryOffsets;
}

/** A reader of one tree of a state. */
function readerOf(context: ReadContext, roots: Roots, name: string): TreeReader {
  const { source, format, offsets } = context;
  const state = roots.trees.get(name);
  const reducer = context.reducers(name);
  if (state?.waiting === undefined) return new NodeTreeReader(source, state?.root, reducer);
  return new WaitingTreeReader(source, state.waiting, reducer, (waiting) =>
    waiting.tree.settle(waiting.length, source, offsets, format, reducer),
  );
}

/** The readers of one state's trees, each made once. */
export class TreeReaders {
  readonly roots: Roots;
  readonly #context: ReadContext;
  readonly #readers = new Map<string, TreeReader>();

  constructor(roots: Roots, context: ReadContext) {
    this.roots = roots;
    this.#context = context;
  }

  tree(name: string): TreeReader {
    let reader = this.#readers.get(name);
    if (reader === undefined) {
      reader = readerOf(this.#context, this.roots, name);
      this.#readers.set(name, reader);
    }
    return reader;
  }
}

export class RootsSnapshot implements Snapshot {
  readonly state: Bytes;
  readonly #roots: Roots;
  readonly #context: ReadContext;
  #onRelease: (() => void) | undefined;

  constructor(roots: Roots, context: ReadContext, onRelease: () => void) {
    this.state = roots.state;
    this.#roots = roots;
    this.#context = context;
    this.#onRelease = onRelease;
  }

  treeNames(): string[] {
    return [...this.#roots.trees.keys()];
  }

  tree(name: string): TreeReader {
    return readerOf(this.#context, this.#roots, name);
  }

  release(): void {
    this.#onRelease?.();
    this.#onRelease = undefined;
  }
}
