// What a store is opened with, what it tells about itself, and the check of what callers ask for.

import { randomBytes } from "node:crypto";
import {
  DEFAULT_INNER_BYTES,
  DEFAULT_LEAF_BYTES,
  DEFAULT_VALUE_BYTES_MAX,
  KEY_BYTES_MAX,
  NODE_BYTES_MAX,
  NODE_BYTES_MIN,
  SALT_BYTES,
  TAIL_BYTES_MAX,
  type TreeFormat,
} from "./format.js";
import type { NodeCache } from "./node-cache.js";
import type { Bytes, CacheStats, Reducer } from "./types.js";

export interface StoreOptions {
  /** The reducer of each tree, by its name. It must be the one the tree was built with. */
  readonly reducers: (tree: string) => Reducer;
  /** @defaultValue the one that all stores of this thread share */
  readonly cache?: NodeCache;
  /** Names the present run of the machine. @defaultValue what the system says; for tests of restarts */
  readonly bootId?: string;
  /**
   * A synced commit that appended no more than so many bytes, 0 to 1 MiB, writes them and its header together and syncs once; opening
   * reads them to see that all arrived. Others sync twice.
   * @defaultValue 1 MiB
   */
  readonly oneSyncBytesMax?: number;
  /**
   * Lets small batches wait in the file, for all trees or as the function says of each: each is one record, and looks at no node; when too many wait, they are applied to the tree in
   * one go. Lookups and scans see them at once. For writers.
   * @defaultValue none wait
   */
  readonly log?: LogLimits | ((tree: string) => LogLimits | undefined) | undefined;
}

/** How much of a tree may wait. Opening reads it, memory holds it, and who asks for counts or reductions makes up to a leaf for each. */
export interface LogLimits {
  /** Operations, repeated keys included; batches larger than this go to the tree. */
  readonly entriesMax: number;
  /** Bytes of their records. */
  readonly bytesMax: number;
}

export interface CreateOptions extends StoreOptions {
  /** The owner's first blob. */
  readonly state: Bytes;
  /** Bytes a leaf is filled to, 128 to 32768. @defaultValue 4096 */
  readonly leafBytes?: number;
  /** Bytes an inner node is filled to, 128 to 32768. @defaultValue 4096 */
  readonly innerBytes?: number;
  /** Longer values lie outside the leaves. @defaultValue 1024, or a quarter of leafBytes if that is less */
  readonly valueBytesMax?: number;
  /** 16 bytes that enter all checksums. @defaultValue random ones; fixed ones make a file that can be compared, but no longer tell it from others */
  readonly salt?: Uint8Array;
}

export interface OpenOptions extends StoreOptions {
  /** `write` for the one writer, who must see to it that there is no other; `read` to follow what it commits. */
  readonly mode: "write" | "read";
}

export interface StoreStats {
  readonly fileBytes: number;
  /** What a compaction would keep of the applied state. */
  readonly liveBytes: number;
  /** Number of the commit last read or written. */
  readonly commit: number;
  /** Snapshots not yet released. */
  readonly snapshots: number;
  readonly trees: readonly {
    readonly name: string;
    /** Rows of its nodes: without what waits. */
    readonly count: number;
    readonly height: number;
    readonly bytes: number;
    /** Operations that wait. */
    readonly waiting: number;
  }[];
  readonly cache: CacheStats;
}

/**
 * The format of a new file.
 * @throws RangeError naming the option that is out of bounds
 */
export function formatOf(options: CreateOptions): TreeFormat {
  const leafBytes = nodeBytes("leafBytes", options.leafBytes ?? DEFAULT_LEAF_BYTES);
  const innerBytes = nodeBytes("innerBytes", options.innerBytes ?? DEFAULT_INNER_BYTES);
  const valueBytesMax = options.valueBytesMax ?? Math.min(DEFAULT_VALUE_BYTES_MAX, leafBytes >>> 2);
  if (!Number.isInteger(valueBytesMax) || valueBytesMax < 0 || valueBytesMax > leafBytes) {
    throw new RangeError(
      `valueBytesMax must be an integer from 0 to leafBytes, not ${valueBytesMax}`,
    );
  }
  const salt = saltBytes(options.salt ?? Uint8Array.from(randomBytes(SALT_BYTES)));
  return { salt, leafBytes, innerBytes, valueBytesMax };
}

/** Bounds of the bounds: what opening reads, where no key that is too long for a node has room, and what an index of operations addresses. */
const LOG_BYTES_LIMIT = KEY_BYTES_MAX;
const LOG_ENTRIES_LIMIT = 2 ** 24;

/** @throws RangeError when a limit is out of bounds */
export function logLimits({ log }: StoreOptions): (tree: string) => LogLimits | undefined {
  if (log === undefined) return () => undefined;
  if (typeof log === "function") return (tree) => checkedLimits(log(tree));
  const limits = checkedLimits(log);
  return () => limits;
}

function checkedLimits(limits: LogLimits | undefined): LogLimits | undefined {
  for (const [name, value, max] of [
    ["entriesMax", limits?.entriesMax ?? 0, LOG_ENTRIES_LIMIT],
    ["bytesMax", limits?.bytesMax ?? 0, LOG_BYTES_LIMIT],
  ] as const) {
    if (!Number.isInteger(value) || value < 0 || value > max)
      throw new RangeError(`log.${name} must be an integer from 0 to ${max}, not ${value}`);
  }
  return limits;
}

/** @throws RangeError when the option is out of bounds */
export function oneSyncBytes({ oneSyncBytesMax = TAIL_BYTES_MAX }: StoreOptions): number {
  if (
    !Number.isInteger(oneSyncBytesMax) ||
    oneSyncBytesMax < 0 ||
    oneSyncBytesMax > TAIL_BYTES_MAX
  ) {
    throw new RangeError(
      `oneSyncBytesMax must be an integer from 0 to ${TAIL_BYTES_MAX}, not ${oneSyncBytesMax}`,
    );
  }
  return oneSyncBytesMax;
}

function nodeBytes(option: string, bytes: number): number {
  if (!Number.isInteger(bytes) || bytes < NODE_BYTES_MIN || bytes > NODE_BYTES_MAX) {
    throw new RangeError(
      `${option} must be an integer from ${NODE_BYTES_MIN} to ${NODE_BYTES_MAX}, not ${bytes}`,
    );
  }
  return bytes;
}

function saltBytes(salt: Uint8Array): Uint8Array {
  if (salt.length !== SALT_BYTES)
    throw new RangeError(`salt must have ${SALT_BYTES} bytes, not ${salt.length}`);
  return salt;
}
