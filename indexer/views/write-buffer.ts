// The write buffer of an incremental update: what was mapped and not yet applied. Entries lie in arenas as they come (O(1) to add) and
// are put in order once, when the buffer is drained; of a document that was mapped several times in the window only the last
// state is applied, and the rows of the others never reach the tree.

import { EntryBatch, type Snapshot, type TreeOp } from "../../btree/index.js";
import { combineRows } from "../mapping/combine-rows.js";
import {
  isSegment,
  type EntrySet,
  type GroupConfig,
  type GroupSegments,
} from "../mapping/types.js";
import { errorRange } from "./error-entry.js";
import { ERRORS_TREE, IDS_TREE, viewTreeName } from "./group-reducers.js";
import {
  emittedKeys,
  ID_DELETED,
  ID_ERRORS,
  ID_HEADER_BYTES,
  ID_UNCHANGED,
  idFlags,
  rowKey,
  sameVersion,
  type EmittedKey,
} from "./id-entry.js";

/** Operations for every tree, and documents that must be mapped again. */
export interface Drained {
  readonly changes: Map<string, TreeOp[]>;
  /**
   * Ordinals of documents that were found unchanged against an older state, while something else of theirs has been applied since:
   * they must be mapped after all.
   */
  readonly remap: readonly number[];
}

export class WriteBuffer {
  readonly #config: GroupConfig;
  readonly #ids = new EntryBatch();
  readonly #errors = new EntryBatch(1024);
  readonly #views: readonly EntryBatch[];

  constructor(config: GroupConfig) {
    this.#config = config;
    this.#views = config.maps.map(() => new EntryBatch());
  }

  /** Documents in the buffer, repeats included. */
  get documents(): number {
    return this.#ids.length;
  }

  get bytes(): number {
    return this.#views.reduce((sum, batch) => sum + batch.used, this.#ids.used + this.#errors.used);
  }

  add(segments: GroupSegments): void {
    importSet(this.#ids, segments.ids);
    importSet(this.#errors, segments.errors);
    for (const [i, set] of segments.views.entries()) importSet(this.#views[i], set);
  }

  /** Documents that are gone from the source. */
  addDeletions(ids: readonly Uint8Array[]): void {
    const batch = this.#ids;
    for (const id of ids) {
      batch.ensure(id.length + ID_HEADER_BYTES);
      const start = batch.used;
      const end = start + id.length;
      batch.bytes.set(id, start);
      batch.bytes.fill(0, end, end + ID_HEADER_BYTES);
      batch.bytes[end] = ID_DELETED;
      batch.used = end + ID_HEADER_BYTES;
      batch.push(start, end, end, batch.used, 0);
    }
  }

  /**
   * Works out what the window changes, against the current state of the trees. The operations point into the buffer: `clear` only
   * after they were applied.
   */
  drain(current: Snapshot): Drained {
    const superseded = new Set<number>();
    const ids = this.#ids;
    ids.sort();
    const winners = lastOccurrences(ids, superseded);
    const keys = winners.map((i) => ids.bytes.subarray(ids.keyStart(i), ids.keyEnd(i)));
    const old = current.tree(IDS_TREE).getMany(keys);
    const idOps: TreeOp[] = [];
    const removals = this.#views.map((): Uint8Array[] => []);
    const errorRemovals: Uint8Array[] = [];
    const remap: number[] = [];
    const errors = current.tree(ERRORS_TREE);
    for (const [n, i] of winners.entries()) {
      const key = keys[n] as Uint8Array;
      const value = ids.bytes.subarray(ids.valueStart(i), ids.valueEnd(i));
      const before = old[n];
      const flags = idFlags(value);
      if (flags & ID_UNCHANGED) {
        if (!before || !sameVersion(before, value)) remap.push(ids.ordinal(i));
        continue;
      }
      const deleted = (flags & ID_DELETED) !== 0;
      if (before) {
        removeLostRows(removals, key, emittedKeys(before), deleted ? [] : emittedKeys(value));
        if (idFlags(before) & ID_ERRORS)
          for (const slice of errors.slices(errorRange(key)))
            for (let e = 0; e < slice.length; e++) errorRemovals.push(slice.key(e));
      }
      if (!deleted) idOps.push({ key, value });
      else if (before) idOps.push({ key, value: undefined });
    }
    const changes = new Map<string, TreeOp[]>();
    if (idOps.length > 0) changes.set(IDS_TREE, idOps);
    const put = (name: string, inserts: TreeOp[], removed: Uint8Array[]): void => {
      const ops = mergeOps(inserts, removed);
      if (ops.length > 0) changes.set(name, ops);
    };
    put(ERRORS_TREE, collectRows(this.#errors, superseded, undefined), errorRemovals);
    for (const [tree, batch] of this.#views.entries()) {
      const collation = this.#config.collations[tree] ?? "root";
      const rows = collectRows(batch, superseded, collation, this.#config.partitioned);
      put(viewTreeName(tree), rows, removals[tree] ?? []);
    }
    return { changes, remap };
  }

  clear(): void {
    this.#ids.clear();
    this.#errors.clear();
    for (const batch of this.#views) batch.clear();
  }
}

function importSet(batch: EntryBatch | undefined, set: EntrySet | undefined): void {
  if (!batch || !set) return;
  if (isSegment(set)) throw new Error("viewmill bug: a run segment cannot be buffered");
  batch.import(set);
}

/** Positions of each id's last occurrence; the ordinals of the others go to `superseded`. */
function lastOccurrences(ids: EntryBatch, superseded: Set<number>): number[] {
  const winners: number[] = [];
  for (let i = 0; i < ids.length; i++) {
    if (i + 1 < ids.length && sameKey(ids, i, i + 1)) {
      // The same ordinal again is a document mapped anew: the later entry speaks for both.
      if (ids.ordinal(i) !== ids.ordinal(i + 1)) superseded.add(ids.ordinal(i));
    } else winners.push(i);
  }
  return winners;
}

function sameKey(batch: EntryBatch, a: number, b: number): boolean {
  const aStart = batch.keyStart(a);
  const bStart = batch.keyStart(b);
  const length = batch.keyEnd(a) - aStart;
  if (batch.keyEnd(b) - bStart !== length) return false;
  const { bytes } = batch;
  for (let i = 0; i < length; i++) if (bytes[aStart + i] !== bytes[bStart + i]) return false;
  return true;
}

/** Past this many keys a document's old and new keys are compared by a set. */
const PAIRWISE_MAX = 16;

function removeLostRows(
  removals: Uint8Array[][],
  id: Uint8Array,
  before: readonly EmittedKey[],
  after: readonly EmittedKey[],
): void {
  const kept =
    before.length > PAIRWISE_MAX || after.length > PAIRWISE_MAX
      ? new Set(after.map(({ tree, key }) => `${tree}:${Buffer.from(key).toString("latin1")}`))
      : undefined;
  for (const { tree, key } of before) {
    const stays = kept
      ? kept.has(`${tree}:${Buffer.from(key).toString("latin1")}`)
      : after.some((other) => other.tree === tree && Buffer.compare(other.key, key) === 0);
    if (!stays) removals[tree]?.push(rowKey(key, id));
  }
}

function collectRows(
  batch: EntryBatch,
  superseded: ReadonlySet<number>,
  collation: "root" | "raw" | undefined,
  partitioned = false,
): TreeOp[] {
  batch.sort();
  const ops: TreeOp[] = [];
  const { bytes, length } = batch;
  for (let i = 0; i < length;) {
    let end = i + 1;
    while (end < length && sameKey(batch, i, end)) end++;
    let first = i;
    while (first < end && superseded.has(batch.ordinal(first))) first++;
    // Rows of a document mapped anew under the same ordinal are the same rows.
    if (first < end) {
      const key = bytes.subarray(batch.keyStart(first), batch.keyEnd(first));
      if (end - first > 1 && collation) {
        const value = combineRows(collation, batch, first, end - 1, partitioned);
        ops.push({ key, value: value.bytes.subarray(value.start, value.end) });
      } else
        ops.push({
          key,
          value: bytes.subarray(batch.valueStart(end - 1), batch.valueEnd(end - 1)),
        });
    }
    i = end;
  }
  return ops;
}

/** Two sorted lists in one; a key that is both removed and inserted is inserted. */
function mergeOps(inserts: TreeOp[], removed: Uint8Array[]): TreeOp[] {
  if (removed.length === 0) return inserts;
  removed.sort((a, b) => Buffer.compare(a, b));
  const ops: TreeOp[] = [];
  let r = 0;
  const takeBefore = (key: Uint8Array | undefined): void => {
    for (; r < removed.length; r++) {
      const candidate = removed[r] as Uint8Array;
      const order = key ? Buffer.compare(candidate, key) : -1;
      if (order > 0) return;
      const repeated = r > 0 && Buffer.compare(candidate, removed[r - 1] as Uint8Array) === 0;
      if (order < 0 && !repeated) ops.push({ key: candidate, value: undefined });
    }
  };
  for (const insert of inserts) {
    takeBefore(insert.key);
    ops.push(insert);
  }
  takeBefore(undefined);
  return ops;
}
