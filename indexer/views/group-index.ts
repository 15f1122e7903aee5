// One view group's index file: its trees, and the checkpoint that is atomic with them.

import { existsSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";

import { Store, type NodeCache, type Reducer, type Snapshot } from "../../btree/index.js";
import { isCollationKnown, newestCollation } from "../collation/index.js";
import { IndexerError } from "../errors.js";
import type { GroupConfig, ReduceLimits } from "../mapping/types.js";
import type { JsReduceRunner, ViewReducer } from "../reducers/index.js";
import { treeLabel, type ViewGroupSpec } from "./design-document.js";
import { ERRORS_TREE, groupLog, groupReducers, IDS_TREE } from "./group-reducers.js";
import { indexFileName } from "./manifest.js";

/**
 * What the trees' entries look like. Since 2 an id entry may hold rows that were dropped (id-entry.ts). A file of 1 is read, and is one of 2
 * from the next change of its checkpoint on.
 */
export const GROUP_FORMAT = 2;

/** Kept in the index file with every commit. */
export interface GroupState {
  /** {@link GROUP_FORMAT}, or an earlier one. */
  readonly format: number;
  readonly signature: string;
  /** Version of the root order that the file is kept in; it never changes. */
  readonly collation: number;
  /** Everything up to this sequence is in the trees; null before the first build has ended. */
  readonly seq: string | null;
  /** The source's identity when `seq` was taken. */
  readonly source: string | null;
  readonly purgeSeq: string | null;
}

export const DEFAULT_REDUCE_LIMITS: ReduceLimits = { reduceLimit: true, threshold: 5000, ratio: 2 };

export interface GroupOpenOptions {
  readonly dir: string;
  readonly spec: ViewGroupSpec;
  readonly generation: number;
  /** Nothing was ever recorded of the group: a file without a header is what a process left that died making it. */
  readonly unrecorded: boolean;
  readonly mode: "write" | "read";
  readonly cache: NodeCache;
  readonly limits: ReduceLimits;
  readonly strict: boolean;
  readonly onWarning?: (message: string) => void;
  /** Runs the group's custom reduces. */
  readonly js: (config: GroupConfig) => JsReduceRunner;
}

/** What reduces the trees of a group's file. */
export interface GroupReducers {
  readonly config: GroupConfig;
  /** By number of the view tree. */
  readonly views: readonly (ViewReducer | Reducer)[];
  readonly byName: (tree: string) => Reducer;
}

/** @param collationVersion - of the root order that the file is kept in. */
export function reducersOfGroup(
  options: Pick<GroupOpenOptions, "spec" | "limits" | "strict" | "js"> &
    Partial<Pick<GroupOpenOptions, "dir">>,
  collationVersion: number,
): GroupReducers {
  const { spec, limits } = options;
  const config = groupConfig(options, collationVersion);
  const custom = spec.trees.some((tree) =>
    tree.reduces.some(({ source }) => !source.startsWith("_")),
  );
  const js = custom ? options.js(config) : undefined;
  const views = spec.trees.map((tree) =>
    tree.reduces.length === 0
      ? groupReducers.countsOnly(`view:${tree.number}`)
      : groupReducers.viewReducer(
          {
            collation: tree.collation,
            collationVersion,
            reduces: tree.reduces.map(({ source }) => source),
            partitioned: spec.partitioned,
          },
          js,
          limits,
        ),
  );
  return {
    config,
    views,
    byName: (name) => {
      if (name === IDS_TREE || name === ERRORS_TREE) return groupReducers.countsOnly(name);
      return views[Number(name.slice("view:".length))] ?? groupReducers.countsOnly(name);
    },
  };
}

export class GroupIndex {
  readonly spec: ViewGroupSpec;
  /** The source's stamp at which it was last brought up to date. */
  freshAt: string | undefined;
  readonly #options: GroupOpenOptions;
  #file: GroupFile;
  readonly #retired = new Set<GroupFile>();
  #writing: Promise<unknown> = Promise.resolve();

  private constructor(options: GroupOpenOptions, file: GroupFile) {
    this.spec = options.spec;
    this.#options = options;
    this.#file = file;
  }

  /** Version of the root order that the present file is kept in. This, `config` and the reducers change when it is renewed. */
  get collation(): number {
    return this.#file.collation;
  }

  get config(): GroupConfig {
    return this.#file.reducers.config;
  }

  /** By number of the view tree. */
  get reducers(): readonly (ViewReducer | Reducer)[] {
    return this.#file.reducers.views;
  }

  get reducerOf(): (tree: string) => Reducer {
    return this.#file.reducers.byName;
  }

  /** The reducers of a file that is kept in this version of the root order. */
  reducersIn(collation: number): GroupReducers {
    return collation === this.collation
      ? this.#file.reducers
      : reducersOfGroup(this.#options, collation);
  }

  /** The file in use; a compaction puts another in its place, but not while `writing` or a hold is under way. */
  get path(): string {
    return this.#file.path;
  }

  get store(): Store {
    return this.#file.store;
  }

  /**
   * Opens the group's file; in write mode makes an empty one when there is none, or when it lost its end and both commits that it knows
   * with it.
   * @throws IndexerError INDEXER_NO_INDEX in read mode when there is none, INDEXER_FORMAT_UNSUPPORTED for one of a newer program;
   * BtreeError.
   */
  static async open(options: GroupOpenOptions): Promise<GroupIndex> {
    const { spec, cache } = options;
    // A file that was just opened tells by which ones; nothing is asked of them before.
    let reducersHere = reducersOfGroup(options, newestCollation());
    const reducers = (tree: string): Reducer => reducersHere.byName(tree);
    const path = join(options.dir, indexFileName(spec.signature, options.generation));
    let store: Store | undefined;
    try {
      if (existsSync(path))
        store = await Store.open(path, { mode: options.mode, reducers, cache, log: groupLog });
    } catch (error) {
      const unmade = options.unrecorded && (error as { code?: string }).code === "BTREE_NO_HEADER";
      const lost = isCutOff(path, error);
      if (!(unmade || lost) || options.mode === "read") throw error;
      if (!unmade)
        options.onWarning?.(
          `${(error as Error).message}: nothing of it can be used, so it is built anew`,
        );
      rmSync(path);
    }
    if (store === undefined && options.mode === "write")
      store = await Store.create(path, {
        state: encodeState(emptyState(spec)),
        reducers,
        cache,
        log: groupLog,
      });
    if (store === undefined)
      throw new IndexerError("INDEXER_NO_INDEX", `${path} does not exist: build the index first`, {
        file: path,
      });
    const { format, collation } = decodeState(store.state) as {
      readonly format: number;
      readonly collation: number;
    };
    if (format > GROUP_FORMAT || !isCollationKnown(collation)) {
      await store.close();
      throw new IndexerError(
        "INDEXER_FORMAT_UNSUPPORTED",
        `${path} was written with index format ${format}, collation ${collation}; this version knows ${GROUP_FORMAT} and ${newestCollation()}. Use a newer viewmill.`,
        { file: path },
      );
    }
    if (collation !== reducersHere.config.collationVersion)
      reducersHere = reducersOfGroup(options, collation);
    return new GroupIndex(options, new GroupFile(path, store, reducersHere));
  }

  /** The checkpoint as last applied in this process. */
  get state(): GroupState {
    return decodeState(this.store.state);
  }

  /** A snapshot with its own checkpoint. */
  snapshot(): { readonly trees: Snapshot; readonly state: GroupState } {
    const trees = this.store.snapshot();
    return { trees, state: decodeState(trees.state) };
  }

  /** Keeps the present file readable until the returned function is called, whatever takes its place meanwhile. */
  hold(): () => void {
    return this.#file.hold();
  }

  /** Runs `work` while nobody else writes to the file or puts another in its place. What changes the file runs in here. */
  writing<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#writing.then(work);
    this.#writing = done.catch(() => undefined);
    return done;
  }

  /**
   * Puts another file in the place of the present one, which is closed when nobody holds it any more. To be called within `writing`;
   * for a file of another collation, also while no update is under way, because what that has mapped has the keys of the old one.
   * @param reducers - of the new file.
   * @returns resolves when the old one is closed.
   */
  replaceFile(path: string, store: Store, reducers: GroupReducers): Promise<void> {
    const old = this.#file;
    this.#file = new GroupFile(path, store, reducers);
    this.#retired.add(old);
    return old.retire().finally(() => this.#retired.delete(old));
  }

  /** The group is used no more: closes the file when nobody holds it. */
  async retire(): Promise<void> {
    // Whoever was handed the group in this very turn may still take hold of it.
    await setImmediate();
    await this.#file.retire();
  }

  /** Closes the file, and earlier ones that are still held. */
  async close(): Promise<void> {
    for (const file of [this.#file, ...this.#retired]) await file.close();
  }
}

/** Header slots lie before this byte (btree/FORMAT.md). */
const HEADERS_BYTES = 16_384;

/** The file ends before what its header names, or within its headers: it was copied in part, or its system lost the end. */
function isCutOff(path: string, error: unknown): boolean {
  const { code, offset } = error as { code?: string; offset?: number };
  const size = statSync(path).size;
  return (
    (code === "BTREE_CORRUPT" && offset !== undefined && offset >= size) ||
    (code === "BTREE_NO_HEADER" && size < HEADERS_BYTES)
  );
}

/** One generation of a group's file, and who reads it. */
class GroupFile {
  #holds = 0;
  #retired: (() => void) | undefined;

  constructor(
    readonly path: string,
    readonly store: Store,
    readonly reducers: GroupReducers,
  ) {}

  get collation(): number {
    return this.reducers.config.collationVersion;
  }

  hold(): () => void {
    this.#holds++;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#holds--;
      if (this.#holds === 0) this.#retired?.();
    };
  }

  async retire(): Promise<void> {
    if (this.#holds > 0)
      await new Promise<void>((resolve) => {
        this.#retired = resolve;
      });
    await this.store.close();
  }

  async close(): Promise<void> {
    await this.store.close();
    this.#retired?.();
  }
}

function emptyState(spec: ViewGroupSpec): GroupState {
  return {
    format: GROUP_FORMAT,
    signature: spec.signature,
    collation: newestCollation(),
    seq: null,
    source: null,
    purgeSeq: null,
  };
}

/** In the present format: whoever writes a checkpoint may have written entries of it. */
export function encodeState(state: GroupState): Uint8Array {
  return Buffer.from(JSON.stringify({ ...state, format: GROUP_FORMAT }));
}

export function decodeState(bytes: Uint8Array): GroupState {
  return JSON.parse(Buffer.from(bytes).toString("utf8")) as GroupState;
}

/**
 * What mapping threads must know of the group. The directory is part of the key: what a function leaves behind in its globals is not
 * seen by another index that shares threads.
 */
function groupConfig(
  {
    spec,
    limits,
    strict,
    dir = "",
  }: Pick<GroupOpenOptions, "spec" | "limits" | "strict"> & Partial<Pick<GroupOpenOptions, "dir">>,
  collationVersion: number,
): GroupConfig {
  return {
    key: `${spec.signature}:${JSON.stringify([limits, strict, dir, collationVersion])}`,
    strict,
    lib: spec.lib,
    maps: spec.trees.map((tree) => tree.map),
    collations: spec.trees.map((tree) => tree.collation),
    collationVersion,
    reduces: spec.trees.map((tree) => tree.reduces.map(({ source }) => source)),
    labels: spec.trees.map(treeLabel),
    includeDesign: spec.includeDesign,
    partitioned: spec.partitioned,
    partitionedIds: spec.partitionedIds,
    limits,
  };
}
