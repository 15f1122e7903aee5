// The write buffer of an incremental update: what was mapped and not yet applied. Entries lie in arenas as they come (O(1) to add) and
// are put in order once, when the buffer is drained; of a document that was mapped several times in the window only the last
// state is applied, and the rows of the others never reach the tree.

import { EntryBatch, type Snapshot, type TreeOp } from "../../btree/index.js";
import { combineRows, type RowKeys } from "../mapping/combine-rows.js";
import {
  isSegment,
  type EntrySet,
  type GroupConfig,
  type GroupSegments,
  type KnownBase,
} from "../mapping/types.js";
import { errorRange } from "./error-entry.js";
import { ERRORS_TREE, IDS_TREE, viewTreeName } from "./group-reducers.js";
import {
  emittedKeys,
  ENTRY_ABSENT,
  ENTRY_BASED,
  ENTRY_HAD_ERRORS,
  ENTRY_LOST_ROW,
  ENTRY_SAME_ROWS,
  ID_DELETED,
  ID_ERRORS,
  ID_HEADER_BYTES,
  ID_UNCHANGED,
  idFlags,
  lostKeys,
  rowKey,
  sameVersion,
} from "./id-entry.js";
import { ORDINALS_A_CHUNK } from "./ordinals.js";

/** Operations for every tree, and documents that must be mapped again. */
export interface Drained {
  readonly changes: Map<string, TreeOp[]>;
  /**
   * Ordinals of documents that were found unchanged against an older state, while something else of theirs has been applied since:
   * they must be mapped after all.
   */
  readonly remap: readonly number[];
}

/** The document was compared with the current state when it was mapped. */
const BASED = Symbol("based");

export class WriteBuffer {
  readonly #config: GroupConfig;
  readonly #ids = new EntryBatch();
  readonly #errors = new EntryBatch(1024);
  readonly #views: readonly EntryBatch[];
  /** By ordinal of a chunk's first document: the state that its entries were compared with, if all were with one. */
  readonly #bases = new Map<number, KnownBase | undefined>();

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
    const { base, ordinalBase } = segments;
    const known = this.#bases.get(ordinalBase);
    const agree = known && base && known.path === base.path && known.commit === base.commit;
    this.#bases.set(ordinalBase, this.#bases.has(ordinalBase) && !agree ? undefined : base);
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
   *
   * @param at - what this state is called, if it is a commit: documents that were compared with it are not looked up again.
   */
  drain(current: Snapshot, at: KnownBase | undefined): Drained {
    const superseded = new Set<number>();
    const sameRows = new Set<number>();
    const ids = this.#ids;
    ids.sort();
    const winners = lastOccurrences(ids, superseded);
    const lost = this.#basedOn(at);
    const { keys, old } = this.#lookUp(winners, current, lost);
    const idOps: TreeOp[] = [];
    const removals = this.#views.map((): Uint8Array[] => []);
    const errorRemovals: Uint8Array[] = [];
    const remap: number[] = [];
    const errors = current.tree(ERRORS_TREE);
    for (const [n, i] of winners.entries()) {
      const before = old[n];
      const value = ids.bytes.subarray(ids.valueStart(i), ids.valueEnd(i));
      const flags = idFlags(value);
      if (flags & ID_UNCHANGED) {
        if (before !== BASED && !(before && sameVersion(before, value))) remap.push(ids.ordinal(i));
        continue;
      }
      const key = keys[n] as Uint8Array;
      const deleted = (flags & ID_DELETED) !== 0;
      let isKnown = before !== undefined;
      let hadErrors = false;
      if (before === BASED) {
        const found = ids.flags(i);
        isKnown = (found & ENTRY_ABSENT) === 0;
        hadErrors = (found & ENTRY_HAD_ERRORS) !== 0;
        if (found & ENTRY_SAME_ROWS) sameRows.add(ids.ordinal(i));
      } else if (before) {
        hadErrors = (idFlags(before) & ID_ERRORS) !== 0;
        for (const lost of lostKeys(emittedKeys(before), deleted ? [] : emittedKeys(value)))
          removals[lost.tree]?.push(rowKey(lost.key, key));
      }
      if (hadErrors)
        for (const slice of errors.slices(errorRange(key)))
          for (let e = 0; e < slice.length; e++) errorRemovals.push(slice.key(e));
      if (!deleted) idOps.push({ key, value });
      else if (isKnown) idOps.push({ key, value: undefined });
    }
    const changes = new Map<string, TreeOp[]>();
    if (idOps.length > 0) changes.set(IDS_TREE, idOps);
    const put = (name: string, inserts: TreeOp[], removed: Uint8Array[]): void => {
      const ops = mergeOps(inserts, removed);
      if (ops.length > 0) changes.set(name, ops);
    };
    const isSuperseded = (ordinal: number): boolean => superseded.has(ordinal);
    put(ERRORS_TREE, collectRows(this.#errors, { dropped: isSuperseded, lost }), errorRemovals);
    const dropped = (ordinal: number): boolean => sameRows.has(ordinal) || superseded.has(ordinal);
    for (const [tree, batch] of this.#views.entries()) {
      const collation = this.#config.collations[tree] ?? "root";
      const { partitioned, collationVersion: version } = this.#config;
      const keys = { kind: collation, version, partitioned };
      const rows = collectRows(batch, { dropped, lost, keys });
      put(viewTreeName(tree), rows, removals[tree] ?? []);
    }
    return { changes, remap };
  }

  /** The entries that the documents have now; `BASED` where the mapping thread has seen them. */
  #lookUp(
    winners: readonly number[],
    current: Snapshot,
    isBased: (ordinal: number) => boolean,
  ): {
    readonly keys: readonly (Uint8Array | undefined)[];
    readonly old: readonly (Uint8Array | typeof BASED | undefined)[];
  } {
    const ids = this.#ids;
    const unknown: Uint8Array[] = [];
    const places: number[] = [];
    const old = new Array<Uint8Array | typeof BASED | undefined>(winners.length).fill(BASED);
    const keys = winners.map((i, n) => {
      const key = ids.bytes.subarray(ids.keyStart(i), ids.keyEnd(i));
      if ((ids.flags(i) & ENTRY_BASED) === 0 || !isBased(ids.ordinal(i))) {
        unknown.push(key);
        places.push(n);
      }
      return key;
    });
    if (unknown.length > 0)
      for (const [u, entry] of current.tree(IDS_TREE).getMany(unknown).entries())
        old[places[u] as number] = entry;
    return { keys, old };
  }

  /** Tells of an ordinal whether what its chunk says of the index is said of this state. */
  #basedOn(at: KnownBase | undefined): (ordinal: number) => boolean {
    const chunks = new Set<number>();
    for (const [ordinal, base] of this.#bases)
      if (at && base && base.commit === at.commit && base.path === at.path) chunks.add(ordinal);
    if (chunks.size === this.#bases.size) return () => true;
    return (ordinal) => chunks.has(ordinal - (ordinal % ORDINALS_A_CHUNK));
  }

  clear(): void {
    this.#ids.clear();
    this.#errors.clear();
    for (const batch of this.#views) batch.clear();
    this.#bases.clear();
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

interface RowChoice {
  /** Whether entries with this ordinal are not wanted. */
  readonly dropped: (ordinal: number) => boolean;
  /** Whether what an entry with this ordinal says of a lost row holds. */
  readonly lost: (ordinal: number) => boolean;
  /** Of a view: how rows with one key are combined. */
  readonly keys?: RowKeys;
}

function collectRows(batch: EntryBatch, choice: RowChoice): TreeOp[] {
  const { dropped, lost, keys } = choice;
  batch.sort();
  const ops: TreeOp[] = [];
  const { bytes, length } = batch;
  for (let i = 0; i < length;) {
    let end = i + 1;
    while (end < length && sameKey(batch, i, end)) end++;
    let first = i;
    while (first < end && dropped(batch.ordinal(first))) first++;
    i = end;
    // Rows of a document mapped anew under the same ordinal are the same rows.
    if (first === end) continue;
    const key = bytes.subarray(batch.keyStart(first), batch.keyEnd(first));
    if (batch.flags(first) & ENTRY_LOST_ROW) {
      if (lost(batch.ordinal(first))) ops.push({ key, value: undefined });
    } else if (end - first > 1 && keys) {
      const value = combineRows(keys, batch, first, end - 1);
      ops.push({ key, value: value.bytes.subarray(value.start, value.end) });
    } else
      ops.push({ key, value: bytes.subarray(batch.valueStart(end - 1), batch.valueEnd(end - 1)) });
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
