// Proves a file without opening it as a store. Reports all faults instead of stopping at the first, and never throws because of
// damage: what cannot be read is a fault, and the walk goes on beside it.
//
// 1. Header slots: which are intact, which one a store would open with, and that each one's roots record is there.
// 2. Every tree of that commit, node by node (verify-tree.ts).
// 3. All records reached: none twice, none overlapping; what they leave over is dead.

import { equalBytes } from "./bytes.js";
import { recordFault, saltSeed } from "./checksum.js";
import { tailFault } from "./commit-reader.js";
import { BtreeError } from "./errors.js";
import { FileStorage } from "./file-storage.js";
import {
  DATA_START,
  FORMAT_VERSION,
  FRAME_BYTES,
  KIND_ROOTS,
  RECORD_BYTES_MAX,
  SLOT_BYTES,
} from "./format.js";
import {
  currentBootId,
  type Header,
  readSlots,
  type SlotContent,
  trustedHeaders,
} from "./header.js";
import { decodeRoots, type StoredRoots } from "./roots-record.js";
import { NodeSource } from "./node-source.js";
import type { StorageBackend } from "./storage.js";
import type { Bytes, Reducer } from "./types.js";
import { ExtentList } from "./verify-extents.js";
import { type TreeReport, TreeVerifier } from "./verify-tree.js";
import { SeenEntries, verifyWaiting } from "./verify-waiting.js";

/** Something in the file that is not as it must be. */
export interface Fault {
  /** Byte of the file at which the faulty structure starts. */
  readonly offset: number;
  /** The tree it belongs to; undefined for header slots and roots records. */
  readonly tree: string | undefined;
  /** What is wrong, as a phrase. */
  readonly what: string;
}

/** What {@link verifyStore} found. */
export interface VerifyReport {
  /** Everything that is wrong, in the order it was found; empty for a sound file. */
  readonly faults: readonly Fault[];
  /** Remarks that are no damage: a header slot torn by a crash while another is intact, bytes behind the last commit. */
  readonly notes: readonly string[];
  /** Number of the commit that was verified; undefined when the file has none. */
  readonly commit: number | undefined;
  /** The owner's blob of that commit. */
  readonly state: Bytes | undefined;
  /** By name. */
  readonly trees: readonly TreeReport[];
  readonly fileBytes: number;
  /** Bytes of header slots and of all records that the commit reaches. */
  readonly liveBytes: number;
  /** All other bytes: superseded records, gaps, what follows the commit. */
  readonly deadBytes: number;
}

/** Options of {@link verifyStore}. */
export interface VerifyOptions {
  /**
   * The reducer of a tree, to recompute counts and reductions by. `undefined` where it is not known: sums are then still checked
   * against each other, leaves' counts and reductions are believed.
   */
  readonly reducers: (tree: string) => Reducer | undefined;
  /** Called for each entry in key order; a returned text becomes a fault. For what only the owner of the entries can know. */
  readonly checkValue?: (tree: string, key: Bytes, value: Bytes) => string | undefined;
  /**
   * Verify the trees of older commits too, those that other intact slots point to.
   *
   * @defaultValue false: of those only the roots record
   */
  readonly allCommits?: boolean;
  readonly signal?: AbortSignal;
  /** Bytes verified so far and bytes to verify, now and then. */
  readonly onProgress?: (done: number, total: number) => void;
  /**
   * Names the present run of the machine, which decides whether the unsynced commit counts.
   *
   * @defaultValue that of this machine
   */
  readonly bootId?: string;
}

/** A slot's letter for people. */
const SLOT_NAMES = ["A", "B", "C", "D"] as const;

interface Commit {
  readonly header: Header;
  readonly roots: StoredRoots;
}

/**
 * Proves a store's file. Changes nothing, needs no lock; a writer may go on meanwhile, since what a commit reaches never changes.
 *
 * @throws BtreeError BTREE_NOT_FOUND when there is no such file, BTREE_IO when it cannot be opened, BTREE_VERSION_UNSUPPORTED
 * when a newer release wrote it; the signal's reason when it is aborted.
 */
export async function verifyStore(
  where: string | StorageBackend,
  options: VerifyOptions,
): Promise<VerifyReport> {
  const storage = typeof where === "string" ? FileStorage.open(where, "read") : where;
  try {
    return await new StoreVerifier(storage, options).run();
  } finally {
    if (typeof where === "string") storage.close();
  }
}

class StoreVerifier {
  readonly #storage: StorageBackend;
  readonly #options: VerifyOptions;
  readonly #faults: Fault[] = [];
  readonly #notes: string[] = [];

  constructor(storage: StorageBackend, options: VerifyOptions) {
    this.#storage = storage;
    this.#options = options;
  }

  async run(): Promise<VerifyReport> {
    const fileBytes = this.#storage.size();
    const [newest, ...older] = this.#commits(fileBytes);
    let trees: TreeReport[] = [];
    let liveBytes = 0;
    if (newest) {
      const extents = new ExtentList();
      trees = await this.#verifyCommit(newest, extents);
      liveBytes = DATA_START + extents.bytes;
      this.#noteTail(newest.header, fileBytes);
    }
    if (this.#options.allCommits === true) {
      for (const commit of older) await this.#verifyCommit(commit, new ExtentList());
    }
    return {
      faults: this.#faults,
      notes: this.#notes,
      commit: newest?.header.commit,
      state: newest?.roots.state,
      trees,
      fileBytes,
      liveBytes,
      deadBytes: Math.max(0, fileBytes - liveBytes),
    };
  }

  /** Commits whose roots are there, newest first. */
  #commits(fileBytes: number): Commit[] {
    if (fileBytes < DATA_START) {
      this.#fault(0, `the file has ${fileBytes} bytes, too few for its header slots`);
    }
    const slots = this.#slots();
    this.#assertVersion(slots);
    const headers = trustedHeaders(slots, this.#options.bootId ?? currentBootId());
    if (headers.length === 0) {
      this.#fault(0, "no header slot is intact, so nothing of the file can be reached");
    }
    this.#noteSlots(slots, headers);
    const commits: Commit[] = [];
    let opens = false;
    for (const header of headers) {
      // Of commits that opening does not get to, the roots only.
      opens ||= this.#tailIsWhole(header);
      const roots = this.#roots(header, fileBytes);
      if (roots) commits.push({ header, roots });
    }
    return commits;
  }

  #slots(): SlotContent[] {
    try {
      return readSlots(this.#storage);
    } catch (cause) {
      this.#fault(0, `the header slots cannot be read: ${messageOf(cause)}`);
      return [];
    }
  }

  #assertVersion(slots: readonly SlotContent[]): void {
    for (const slot of slots) {
      if (typeof slot === "object" && "newerVersion" in slot) {
        const file = this.#storage.path;
        throw new BtreeError(
          "BTREE_VERSION_UNSUPPORTED",
          `${file ?? "the store"} has format version ${slot.newerVersion}, this release reads up to ${FORMAT_VERSION}; use the release that wrote it`,
          { file, version: slot.newerVersion },
        );
      }
    }
  }

  /** A slot that is not intact is what a crash leaves of an unfinished commit: no fault while another one is. */
  #noteSlots(slots: readonly SlotContent[], headers: readonly Header[]): void {
    const newest = headers[0];
    if (newest === undefined) return;
    for (const [number, slot] of slots.entries()) {
      const name = `header slot ${SLOT_NAMES[number] ?? "?"}`;
      if (slot === "empty" || (typeof slot === "object" && "newerVersion" in slot)) continue;
      if (slot === "damaged") {
        this.#notes.push(
          `${name} is not intact, as after a crash during a commit; the store opens with commit ${newest.commit}`,
        );
      } else if (!headers.includes(slot)) {
        this.#notes.push(
          `${name} was written without a sync before the machine restarted, and is ignored`,
        );
      } else if (!equalBytes(slot.format.salt, newest.format.salt)) {
        this.#fault(number * SLOT_BYTES, `${name} belongs to another file`);
      }
    }
  }

  #roots(header: Header, fileBytes: number): StoredRoots | undefined {
    const { rootsOffset: offset, rootsSize: size } = header;
    const name = `roots record of commit ${header.commit} (header slot ${SLOT_NAMES[header.slot] ?? "?"})`;
    if (header.fileLength > fileBytes) {
      this.#fault(
        header.slot * SLOT_BYTES,
        `commit ${header.commit} needs ${header.fileLength} bytes, the file has ${fileBytes}`,
      );
    }
    if (!(size >= FRAME_BYTES) || size > RECORD_BYTES_MAX || offset < DATA_START) {
      this.#fault(header.slot * SLOT_BYTES, `${name}: impossible place`);
      return undefined;
    }
    let fault: string | undefined;
    let roots: StoredRoots | undefined;
    try {
      const record = this.#storage.read(offset, size);
      fault = recordFault(record, size, KIND_ROOTS, saltSeed(header.format.salt), offset);
      if (fault === undefined) roots = decodeRoots(record, header.version);
      if (fault === undefined && roots === undefined) fault = "it breaks the format";
    } catch (cause) {
      fault = messageOf(cause);
    }
    if (fault !== undefined) this.#fault(offset, `${name}: ${fault}`);
    return roots;
  }

  #tailIsWhole(header: Header): boolean {
    let fault: string | undefined;
    try {
      fault = tailFault(this.#storage, header);
    } catch (cause) {
      fault = messageOf(cause);
    }
    if (fault !== undefined)
      this.#fault(
        header.slot * SLOT_BYTES,
        `${fault}: power was lost while it was written, or they are damaged; the store opens with the commit before`,
      );
    return fault === undefined;
  }

  async #verifyCommit({ header, roots }: Commit, extents: ExtentList): Promise<TreeReport[]> {
    const trees: TreeReport[] = [];
    extents.add(header.rootsOffset, header.rootsSize, undefined);
    const { signal, onProgress, checkValue } = this.#options;
    const total = [...roots.trees.values()].reduce(
      (sum, { root, chain }) => sum + (root?.bytes ?? 0) + (chain?.bytes ?? 0),
      0,
    );
    const source = new NodeSource(
      this.#storage.path,
      this.#storage,
      saltSeed(header.format.salt),
      undefined,
    );
    for (const [name, stored] of roots.trees) {
      const onFault = (offset: number, what: string): void => {
        this.#faults.push({ offset, tree: name, what });
      };
      const waiting = verifyWaiting(source, name, stored, extents, onFault);
      const seen = new SeenEntries(name, waiting, checkValue, (what) => {
        onFault(stored.chain?.offset ?? 0, what);
      });
      const verifier = new TreeVerifier({
        storage: this.#storage,
        header,
        tree: name,
        reducer: this.#options.reducers(name),
        checkValue: seen.checkLeafEntry,
        extents,
        signal,
        onBytes: () => onProgress?.(extents.bytes, total),
        onFault,
      });
      const report = await verifier.run(stored.root);
      seen.finish();
      trees.push({ ...report, waiting: stored.chain?.operations ?? 0 });
    }
    for (const { offset, tree, what } of extents.overlaps())
      this.#faults.push({ offset, tree, what });
    return trees;
  }

  #noteTail(header: Header, fileBytes: number): void {
    const tail = fileBytes - header.fileLength;
    if (tail > 0) this.#notes.push(`${tail} bytes follow the last commit and belong to none`);
  }

  #fault(offset: number, what: string): void {
    this.#faults.push({ offset, tree: undefined, what });
  }
}

/** What an error says, whatever was thrown. */
export function messageOf(error: unknown): string {
  return typeof error === "object" && error !== null && "message" in error
    ? String(error.message)
    : String(error);
}
