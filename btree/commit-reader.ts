// Finds the newest commit in a file: the header slots that may be trusted, newest first, until one is whole.

import { crc32 } from "node:zlib";
import { NO_BYTES } from "./bytes.js";
import { recordSeed, saltSeed } from "./checksum.js";
import { BtreeError, corrupt } from "./errors.js";
import { KIND_ROOTS, TAIL_BYTES_MAX } from "./format.js";
import { isSoftSlot, readSlots, trustedHeaders, type Header, type SlotContent } from "./header.js";
import { NodeSource } from "./node-source.js";
import { decodeRoots, type Roots } from "./roots-record.js";
import type { StorageBackend } from "./storage.js";
import { loadWaiting } from "./waiting-chain.js";
import type { TreeState } from "./waiting-tree.js";

export interface FoundCommit {
  readonly header: Header;
  readonly roots: Roots;
  /** A newer header was there whose roots were not. */
  readonly fallback: boolean;
  /** A newer commit may have been there once, and have been read. */
  readonly suspect: boolean;
  /** Greatest commit number of any readable slot. */
  readonly newestCommit: number;
  /** Slots of the newest usable commit of each kind, which the next one of that kind must not overwrite. */
  readonly syncedSlot: number;
  readonly softSlot: number;
}

/** What a reader has already: a commit, and the trees of it. */
export interface KnownCommit {
  readonly commit: number;
  readonly roots: Roots;
}

/** The newest commit that is whole; with `known`, its header alone when it is not newer than that. */
export function readCommit(
  storage: StorageBackend,
  bootId: string,
  known?: KnownCommit,
): FoundCommit {
  const slots = slotsOf(storage);
  const headers = trustedHeaders(slots, bootId);
  const newestCommit = Math.max(
    0,
    ...slots.map((slot) => (typeof slot !== "string" && "commit" in slot ? slot.commit : 0)),
  );
  let failure: BtreeError | undefined;
  for (const [i, header] of headers.entries()) {
    const found = {
      header,
      fallback: failure !== undefined,
      suspect: failure !== undefined || slots.includes("damaged"),
      newestCommit,
      // Slots before this one point to damaged roots.
      syncedSlot: headers.slice(i).find((other) => !isSoftSlot(other.slot))?.slot ?? 1,
      softSlot: headers.slice(i).find((other) => isSoftSlot(other.slot))?.slot ?? 3,
    };
    if (known && header.commit <= known.commit) return { ...found, roots: NO_ROOTS };
    try {
      // Who follows a writer sees all that it wrote before the header: no power was lost since.
      if (known === undefined) assertTail(storage, header);
      const source = new NodeSource(storage.path, storage, saltSeed(header.format.salt), undefined);
      const record = source.record(header.rootsOffset, header.rootsSize, KIND_ROOTS);
      const stored = decodeRoots(record, header.version);
      if (stored === undefined)
        throw corrupt(storage.path, header.rootsOffset, "a roots record that breaks the format");
      const trees = new Map<string, TreeState>();
      for (const [name, tree] of stored.trees)
        trees.set(name, loadWaiting(source, tree, known?.roots.trees.get(name)));
      return { ...found, roots: { state: stored.state, trees } };
    } catch (error) {
      failure ??= error as BtreeError;
    }
  }
  if (failure) throw failure;
  throw new BtreeError(
    "BTREE_NO_HEADER",
    `${storage.path ?? "the store"} is no viewmill index file, or its header is damaged: rebuild it or restore a copy`,
    { file: storage.path },
  );
}

/** What is wrong with the records that were written together with the header. */
export function tailFault(storage: StorageBackend, header: Header): string | undefined {
  const { tail, fileLength } = header;
  if (tail === undefined) return undefined;
  const length = fileLength - tail.start;
  if (!(length >= 0) || length > TAIL_BYTES_MAX)
    return `a commit that wrote ${length} bytes at once`;
  const bytes = storage.read(tail.start, length);
  if (bytes.length < length) return `the file ends ${length - bytes.length} bytes too early`;
  const seed = recordSeed(saltSeed(header.format.salt), tail.start);
  if (crc32(bytes, seed) === tail.crc) return undefined;
  return `the ${length} bytes that commit ${header.commit} wrote are not all there`;
}

function assertTail(storage: StorageBackend, header: Header): void {
  const fault = tailFault(storage, header);
  if (fault === undefined) return;
  // A file that was cut off is damaged at its end, wherever the tail begins.
  const cutOff = storage.size() < header.fileLength;
  throw corrupt(storage.path, cutOff ? storage.size() : (header.tail?.start ?? 0), fault);
}

function slotsOf(storage: StorageBackend): SlotContent[] {
  let slots: SlotContent[];
  try {
    slots = readSlots(storage);
  } catch (cause) {
    throw new BtreeError(
      "BTREE_IO",
      `the header of ${storage.path ?? "the store"} cannot be read`,
      { file: storage.path },
      { cause },
    );
  }
  for (const slot of slots) {
    if (typeof slot !== "string" && "newerVersion" in slot) {
      throw new BtreeError(
        "BTREE_VERSION_UNSUPPORTED",
        `${storage.path ?? "the store"} has format version ${slot.newerVersion}, which this version of viewmill does not know: use a newer one`,
        { file: storage.path, version: slot.newerVersion },
      );
    }
  }
  return slots;
}

const NO_ROOTS: Roots = { state: NO_BYTES, trees: new Map() };
