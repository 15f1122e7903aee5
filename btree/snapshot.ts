// A state of the whole file, as readers hold it.

import type { NodeSource } from "./node-source.js";
import type { Roots } from "./roots-record.js";
import { NodeTreeReader } from "./tree-reader.js";
import type { Bytes, Reducer, TreeReader } from "./types.js";

/** The trees as they were at one moment. Readers of a snapshot are never blocked and block nobody. */
export interface Snapshot {
  readonly state: Bytes;
  /** Trees that hold entries. */
  treeNames(): string[];
  /** A reader of the tree; of an empty one when there is none of that name. */
  tree(name: string): TreeReader;
  /** Says that the snapshot is no longer needed; see `StoreStats.snapshots`. Its readers go on until the store closes. */
  release(): void;
}

/** The readers of one state's trees, each made once. */
export class TreeReaders {
  readonly roots: Roots;
  readonly #source: NodeSource;
  readonly #reducers: (tree: string) => Reducer;
  readonly #readers = new Map<string, TreeReader>();

  constructor(roots: Roots, source: NodeSource, reducers: (tree: string) => Reducer) {
    this.roots = roots;
    this.#source = source;
    this.#reducers = reducers;
  }

  tree(name: string): TreeReader {
    let reader = this.#readers.get(name);
    if (reader === undefined) {
      reader = new NodeTreeReader(this.#source, this.roots.trees.get(name), this.#reducers(name));
      this.#readers.set(name, reader);
    }
    return reader;
  }
}

export class RootsSnapshot implements Snapshot {
  readonly state: Bytes;
  readonly #roots: Roots;
  readonly #source: NodeSource;
  readonly #reducers: (tree: string) => Reducer;
  #onRelease: (() => void) | undefined;

  constructor(
    roots: Roots,
    source: NodeSource,
    reducers: (tree: string) => Reducer,
    onRelease: () => void,
  ) {
    this.state = roots.state;
    this.#roots = roots;
    this.#source = source;
    this.#reducers = reducers;
    this.#onRelease = onRelease;
  }

  treeNames(): string[] {
    return [...this.#roots.trees.keys()];
  }

  tree(name: string): TreeReader {
    return new NodeTreeReader(this.#source, this.#roots.trees.get(name), this.#reducers(name));
  }

  release(): void {
    this.#onRelease?.();
    this.#onRelease = undefined;
  }
}
