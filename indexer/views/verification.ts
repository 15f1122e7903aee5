// Proves a group's index file: node by node (btree/verify.ts), and that its trees agree with each other.
//
// - Every key that an id entry lists has its row in the view's tree, and every row is listed by its document's id entry.
// - Every error record belongs to a document flagged as failing, and every such document has one.
// - Every dropped row that an id entry holds has a key that collates as one that the entry lists.
// - Keys, rows and records can be decoded.
//
// One pass over the file compares both sides by fingerprints: sums of 64-bit hashes, which do not care about order. Only when they
// differ, a second pass looks every entry up on the other side, so that each fault is told with the place of its leaf.

import { isUtf8 } from "node:buffer";

import {
  Store,
  verifyStore,
  type Bytes,
  type Fault,
  type Reducer,
  type Snapshot,
  type VerifyReport,
} from "../../btree/index.js";
import { decodeKey, isCollationKnown, keyEnd, newestCollation } from "../collation/index.js";
import { IndexerError } from "../errors.js";
import { ContentHasher } from "../sources/index.js";
import type { ViewGroupSpec } from "./design-document.js";
import { ERROR_NO_TREE, errorRange, type DocumentError } from "./error-entry.js";
import { decodeState } from "./group-index.js";
import { ERRORS_TREE, groupReducers, IDS_TREE, viewTreeName } from "./group-reducers.js";
import {
  droppedRows,
  emittedKeys,
  ID_DROPPED,
  ID_ERRORS,
  ID_HEADER_BYTES,
  idFlags,
  rowKey,
} from "./id-entry.js";
import { partitionEnd } from "./partitions.js";
import { droppedFault, rowFault } from "./row-check.js";

/** Options of a verification. */
export interface VerifyOptions {
  readonly signal?: AbortSignal | undefined;
  /** Bytes of the file verified and to verify. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

export interface VerifyGroupOptions extends VerifyOptions {
  readonly path: string;
  readonly spec: ViewGroupSpec;
  /** To recompute counts and reductions by, in a file that is kept in this version of the root order. */
  readonly reducers: (collation: number) => (tree: string) => Reducer;
}

/** What was found in one file. */
export interface GroupVerification extends VerifyReport {
  readonly signature: string;
  readonly file: string;
}

/** Bytes after the document id in the key of an error record. */
const ERROR_KEY_TAIL = 3;

/**
 * Changes nothing; a writer may go on meanwhile.
 *
 * @throws BtreeError BTREE_VERSION_UNSUPPORTED, BTREE_IO; IndexerError INDEXER_ABORTED. Damage is no error but a fault.
 */
export async function verifyGroup(options: VerifyGroupOptions): Promise<VerifyReport> {
  const { path, spec, signal } = options;
  const collation = await collationOf(path);
  const reducers = options.reducers(collation);
  const file = { ...options, reducers };
  const entries = new EntryCheck(spec, collation);
  const first = await pass(file, (tree, key, value) => entries.check(tree, key, value));
  if (first === undefined) return missingFile(path);
  const faults = [...first.faults, ...stateFaults(first.state, spec)];
  if (entries.agree) return { ...first, faults };
  let store: Store;
  try {
    store = await Store.open(path, { mode: "read", reducers });
  } catch (error) {
    const what = `the trees disagree, and the file cannot be opened to see where: ${(error as Error).message}`;
    return { ...first, faults: [...faults, { offset: 0, tree: undefined, what }] };
  }
  try {
    const lookup = new LookupCheck(spec, collation, store.snapshot());
    const counterparts: Fault[] = [];
    const second = await pass({ ...file, onProgress: undefined, signal }, (tree, key, value) =>
      lookup.check(tree, key, value),
    );
    for (const fault of second?.faults ?? [])
      if (!sameFault(fault, first.faults)) counterparts.push(fault);
    return { ...first, faults: [...faults, ...counterparts] };
  } finally {
    await store.close();
  }
}

/** The version that the file's keys were made with. */
async function collationOf(path: string): Promise<number> {
  try {
    const store = await Store.open(path, { mode: "read", reducers: groupReducers.countsOnly });
    const { collation } = decodeState(store.state);
    await store.close();
    return isCollationKnown(collation) ? collation : newestCollation();
  } catch {
    return newestCollation();
  }
}

/** Undefined when there is no such file. */
async function pass(
  {
    path,
    reducers,
    signal,
    onProgress,
  }: VerifyOptions & { readonly path: string; readonly reducers: (tree: string) => Reducer },
  checkValue: (tree: string, key: Bytes, value: Bytes) => string | undefined,
): Promise<VerifyReport | undefined> {
  try {
    signal?.throwIfAborted();
    return await verifyStore(path, {
      reducers,
      checkValue,
      ...(signal ? { signal } : {}),
      ...(onProgress ? { onProgress } : {}),
    });
  } catch (error) {
    if (signal?.aborted)
      throw new IndexerError(
        "INDEXER_ABORTED",
        "the verification was stopped",
        {},
        { cause: error },
      );
    if ((error as { code?: string }).code === "BTREE_NOT_FOUND") return undefined;
    throw error;
  }
}

function missingFile(path: string): VerifyReport {
  return {
    faults: [
      { offset: 0, tree: undefined, what: `${path} does not exist, though the directory names it` },
    ],
    notes: [],
    commit: undefined,
    state: undefined,
    trees: [],
    fileBytes: 0,
    liveBytes: 0,
    deadBytes: 0,
  };
}

function sameFault(fault: Fault, among: readonly Fault[]): boolean {
  return among.some(
    ({ offset, tree, what }) =>
      offset === fault.offset && tree === fault.tree && what === fault.what,
  );
}

function stateFaults(state: Bytes | undefined, spec: ViewGroupSpec): Fault[] {
  if (state === undefined) return [];
  const fault = (what: string): Fault[] => [{ offset: 0, tree: undefined, what }];
  try {
    const { signature, collation } = decodeState(state);
    if (signature !== spec.signature) return fault(`the file belongs to the group ${signature}`);
    if (!isCollationKnown(collation)) return fault(`its collation ${collation} is not known`);
    return [];
  } catch (error) {
    return fault(`its checkpoint cannot be understood: ${(error as Error).message}`);
  }
}

/** A set of byte strings, known by how many there are and the sum of their hashes. */
class Fingerprint {
  #count = 0;
  #low = 0;
  #high = 0;

  add(hash: ContentHasher): void {
    this.#count++;
    this.#low = (this.#low + hash.low) >>> 0;
    this.#high = (this.#high + hash.high) >>> 0;
  }

  equals(other: Fingerprint): boolean {
    return this.#count === other.#count && this.#low === other.#low && this.#high === other.#high;
  }
}

/** Fingerprints of the same things as seen from two trees. */
class Sides {
  readonly named = new Fingerprint();
  readonly found = new Fingerprint();

  get agree(): boolean {
    return this.named.equals(this.found);
  }
}

/** The first pass: each entry by itself, and the fingerprints. */
class EntryCheck {
  readonly #spec: ViewGroupSpec;
  readonly #version: number;
  readonly #rows: readonly Sides[];
  readonly #failing = new Sides();
  readonly #hasher = new ContentHasher();
  #joined = new Uint8Array(1024);
  #lastFailing = "";

  constructor(spec: ViewGroupSpec, collationVersion: number) {
    this.#spec = spec;
    this.#version = collationVersion;
    this.#rows = spec.trees.map(() => new Sides());
    this.#hasher.attach(this.#joined);
  }

  get agree(): boolean {
    return this.#failing.agree && this.#rows.every(({ agree }) => agree);
  }

  check(tree: string, key: Bytes, value: Bytes): string | undefined {
    if (tree === IDS_TREE) return this.#id(key, value);
    if (tree === ERRORS_TREE) return this.#error(key, value);
    const number = treeNumber(tree);
    const rows = this.#rows[number];
    if (!rows) return `the group has no tree ${tree}`;
    rows.found.add(this.#hash(key));
    const collation = this.#spec.trees[number]?.collation ?? "root";
    if (!this.#spec.partitioned) return rowFault(collation, this.#version, key, 0, value);
    const start = partitionEnd(key);
    if (start === 0) return "the row's key does not begin with a partition";
    return rowFault(collation, this.#version, key, start, value);
  }

  #id(id: Bytes, entry: Bytes): string | undefined {
    if (!isUtf8(id)) return "the document id is not UTF-8";
    if (entry.length < ID_HEADER_BYTES) return "the id entry is too short";
    if (idFlags(entry) & ~(ID_ERRORS | ID_DROPPED))
      return `the id entry has unknown flags ${idFlags(entry)}`;
    if (idFlags(entry) & ID_ERRORS) this.#failing.named.add(this.#hash(id));
    let fault: string | undefined;
    const keys = emittedKeys(entry);
    for (const { tree, key } of keys) {
      const rows = this.#rows[tree];
      if (rows) rows.named.add(this.#hash(key, id));
      else
        fault = `document ${nameOf(id)} lists a key of tree ${tree}, which the group does not have`;
    }
    const partition = id.subarray(0, this.#spec.partitioned ? partitionEnd(id) : 0);
    for (const { tree, row } of droppedRows(entry)) {
      const listed = keys.filter((emitted) => emitted.tree === tree).map(({ key }) => key);
      const what =
        this.#spec.trees[tree]?.collation === "root"
          ? droppedFault(this.#version, partition, listed, row)
          : "is of a tree that has none";
      if (what) fault = `a dropped row of document ${nameOf(id)} ${what}`;
    }
    return fault;
  }

  #error(key: Bytes, value: Bytes): string | undefined {
    const id = key.subarray(0, -ERROR_KEY_TAIL);
    if (key.length < ERROR_KEY_TAIL || key[id.length] !== 0xff)
      return "the key of the error record breaks the format";
    const name = Buffer.from(id).toString("utf8");
    // Records of one document follow each other.
    if (name !== this.#lastFailing || name === "") this.#failing.found.add(this.#hash(id));
    this.#lastFailing = name;
    const number = ((key[id.length + 1] as number) << 8) | (key[id.length + 2] as number);
    if (number !== ERROR_NO_TREE && !this.#rows[number])
      return `an error record of tree ${number}, which the group does not have`;
    const record = JSON.parse(Buffer.from(value).toString("utf8")) as Partial<DocumentError>;
    return record.id === name
      ? undefined
      : `the error record of document ${nameOf(id)} names another one`;
  }

  #hash(a: Bytes, b?: Bytes): ContentHasher {
    const length = a.length + (b?.length ?? 0);
    if (length > this.#joined.length) {
      this.#joined = new Uint8Array(length * 2);
      this.#hasher.attach(this.#joined);
    }
    this.#joined.set(a);
    if (b) this.#joined.set(b, a.length);
    this.#hasher.hash(0, length);
    return this.#hasher;
  }
}

/** The second pass: each entry is looked up on the other side. What cannot be read there is a fault of its own already. */
class LookupCheck {
  readonly #spec: ViewGroupSpec;
  readonly #version: number;
  readonly #ids;
  readonly #errors;
  readonly #views;

  constructor(spec: ViewGroupSpec, collationVersion: number, snapshot: Snapshot) {
    this.#spec = spec;
    this.#version = collationVersion;
    this.#ids = snapshot.tree(IDS_TREE);
    this.#errors = snapshot.tree(ERRORS_TREE);
    this.#views = spec.trees.map(({ number }) => snapshot.tree(viewTreeName(number)));
  }

  check(tree: string, key: Bytes, value: Bytes): string | undefined {
    try {
      if (tree === IDS_TREE) return this.#id(key, value);
      if (tree === ERRORS_TREE) return this.#error(key);
      return this.#row(treeNumber(tree), key);
    } catch {
      return undefined;
    }
  }

  #id(id: Bytes, entry: Bytes): string | undefined {
    const missing: string[] = [];
    for (const { tree, key } of emittedKeys(entry)) {
      const view = this.#views[tree];
      if (view && has(() => view.get(rowKey(key, id)) !== undefined)) continue;
      if (view) missing.push(`${this.#labelOf(tree)} ${this.#keyText(tree, key)}`);
    }
    if (missing.length > 0) return `document ${nameOf(id)} has no row for ${missing.join(", ")}`;
    if ((idFlags(entry) & ID_ERRORS) === 0) return undefined;
    const recorded = has(() => this.#errors.slices(errorRange(id)).next().done !== true);
    return recorded
      ? undefined
      : `document ${nameOf(id)} is flagged as failing and has no error record`;
  }

  #error(key: Bytes): string | undefined {
    const id = key.subarray(0, -ERROR_KEY_TAIL);
    const entry = this.#ids.get(id);
    if (!entry)
      return `the error record of document ${nameOf(id)}, which the id tree does not have`;
    return idFlags(entry) & ID_ERRORS
      ? undefined
      : `an error record of document ${nameOf(id)}, which is not flagged as failing`;
  }

  #row(tree: number, key: Bytes): string | undefined {
    const end = keyEnd(this.#spec.trees[tree]?.collation ?? "root", key, this.#keyStart(key));
    const id = key.subarray(end);
    const row = `the row ${this.#keyText(tree, key.subarray(0, end))} of document ${nameOf(id)}`;
    const entry = this.#ids.get(id);
    if (!entry) return `${row}, which the id tree does not have`;
    const collationKey = key.subarray(0, end);
    const listed = emittedKeys(entry).some(
      (item) => item.tree === tree && Buffer.compare(item.key, collationKey) === 0,
    );
    return listed ? undefined : `${row}, which its id entry does not list`;
  }

  #labelOf(tree: number): string {
    const spec = this.#spec.trees[tree];
    return spec
      ? [...spec.mapOnly, ...spec.reduces.map(({ name }) => name)].join("+")
      : String(tree);
  }

  #keyStart(key: Bytes): number {
    return this.#spec.partitioned ? partitionEnd(key) : 0;
  }

  #keyText(tree: number, key: Bytes): string {
    try {
      const { collation = "root" } = this.#spec.trees[tree] ?? {};
      const start = this.#keyStart(key);
      return decodeKey(collation, key, start, key.length, this.#version).slice(0, 80);
    } catch {
      return Buffer.from(key.subarray(0, 32)).toString("hex");
    }
  }
}

/** True also when it cannot be read. */
function has(look: () => boolean): boolean {
  try {
    return look();
  } catch {
    return true;
  }
}

function treeNumber(tree: string): number {
  return /^view:\d+$/.test(tree) ? Number(tree.slice("view:".length)) : -1;
}

function nameOf(id: Bytes): string {
  return JSON.stringify(Buffer.from(id).toString("utf8").slice(0, 100));
}
