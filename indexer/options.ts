// Options of an index, normalised once at the boundary: inside they are complete and trusted.

import { availableParallelism } from "node:os";

import type { FunctionLimits, ReduceLimits } from "./mapping/types.js";
import { LINE_BYTES_MAX_DEFAULT, type Source } from "./sources/index.js";
import { DEFAULT_REDUCE_LIMITS } from "./views/group-index.js";
import type { MappingRuntime } from "./views/runtime.js";
import type { SyncPolicy } from "./views/update-types.js";

/** How an index is opened. All but `dir` have defaults. */
export interface ViewIndexOptions {
  /** The index directory. Made when there is none, unless `readOnly`. */
  readonly dir: string;
  /**
   * Where documents come from: a source, or its name as on the command line (`file.ndjson`, `changes:file.ndjson`, `-`,
   * `http://host/db`, `pouchdb:PATH`). Default: the one the directory was built from.
   */
  readonly source?: string | Source;
  /** Design documents, as objects or JSON texts. Default: those known to the directory, and those of the source. */
  readonly designDocuments?: readonly (string | object)[];
  /** Take design documents from the source too, and follow their changes. Default: true when none were ever given. */
  readonly designDocumentsFromSource?: boolean;
  /** A file of documents only grows (a log, not a snapshot). Default false. */
  readonly append?: boolean;
  /** Member that holds the document id in files of documents. Default `_id`. */
  readonly idField?: string;
  /**
   * The source is a partitioned database (VIEWS §19): ids are `partition:rest`, and views are kept by partition unless their design
   * document says `options.partitioned: false`. Default: what the directory was built with, else what the database tells of itself.
   */
  readonly partitioned?: boolean;
  /** Longest line of a file, in bytes. Default 256 MiB. */
  readonly lineBytesMax?: number;
  /**
   * Where map and reduce functions run. `processes` (default): view servers in processes of their own, which contain any fault.
   * `threads`: faster, and only for functions that are trusted not to bring the process down.
   */
  readonly mapIn?: "threads" | "processes";
  /** Command line of a couchjs-compatible view server. Default: our own. */
  readonly server?: string;
  /** Threads, or view servers. Default: the number of cores, at most 8. */
  readonly threads?: number;
  /** A document may take this long to map, in milliseconds. Default 5000. */
  readonly timeoutMs?: number;
  /** JavaScript heap of a thread or view server, in MiB. Default 512. */
  readonly heapMb?: number;
  /** Memory that mapping one document may take in all, in MiB. Default 1024. */
  readonly memoryMb?: number;
  /**
   * What one document may bring forth before its function is stopped: `rowsMax` rows (default 1 000 000), `outputCharsMax` characters of
   * JSON (64 Mi), `logLinesMax` log lines (1000). For our own view server only.
   */
  readonly limits?: FunctionLimits;
  /** Fail the whole group where CouchDB would, instead of recording the document. Default false. */
  readonly strict?: boolean;
  /** A bulk insertion carries at least so many documents … Default 5000. */
  readonly minDocuments?: number;
  /** … or so many bytes of rows. Default 4 MiB. */
  readonly minBytes?: number;
  /** Room on the disk, in bytes, below which updates pause and queries that need one are refused (507). Default 0: none. */
  readonly minFreeBytes?: number;
  /** Following a live feed, what is there is applied after this time at the latest, in milliseconds. Default 500. */
  readonly maxDelayMs?: number;
  /** Bytes of the feed that are mapped at a time. Default 4 MiB; more in the first build of a large feed. */
  readonly chunkBytes?: number;
  /** A first build from a feed of more bytes than this is a bulk load … Default 8 MiB. */
  readonly bulkBytes?: number;
  /** … or of more changes, where the source tells only these. Default 20 000. */
  readonly bulkChanges?: number;
  /** Default: at the end of an update, and every 30 s or 1 GiB within a first build. */
  readonly sync?: Partial<SyncPolicy>;
  /** Bytes of index nodes kept in memory. Default 64 MiB. */
  readonly cacheBytes?: number;
  /** Bytes of documents kept in memory for include_docs. Default 16 MiB; 0 for none. */
  readonly documentCacheBytes?: number;
  /** When a reduction is too large (PROTOCOL §5). */
  readonly reduceLimits?: Partial<ReduceLimits>;
  /** Build anew when the directory was built from another source. Default false: that is an error. */
  readonly rebuild?: boolean;
  /** Only query: no lock is taken and nothing is written. Default false. */
  readonly readOnly?: boolean;
  /** Only look after the directory (compact, clean up, query as it is): its source is not opened before an update asks for it. Default false. */
  readonly offline?: boolean;
  /** Where map and reduce functions run, shared by several indexes; closed by whoever made it. Its own options count. Default: one of its own. */
  readonly runtime?: MappingRuntime;
  /** Told what is odd but no error. */
  readonly onWarning?: (message: string) => void;
}

/** The same, complete. */
export interface ResolvedOptions {
  readonly dir: string;
  readonly source: string | Source | undefined;
  readonly designDocuments: readonly (string | object)[];
  readonly designDocumentsFromSource: boolean | undefined;
  readonly append: boolean;
  readonly idField: string;
  readonly partitioned: boolean | undefined;
  readonly lineBytesMax: number;
  readonly mapIn: "threads" | "processes";
  readonly server: string | undefined;
  readonly threads: number;
  readonly timeoutMs: number;
  readonly heapMb: number;
  readonly memoryMb: number;
  readonly limits: FunctionLimits;
  readonly strict: boolean;
  readonly minDocuments: number;
  readonly minBytes: number;
  readonly minFreeBytes: number;
  readonly maxDelayMs: number;
  readonly chunkBytes: number | undefined;
  readonly bulkBytes: number;
  readonly bulkChanges: number;
  readonly sync: SyncPolicy;
  readonly cacheBytes: number;
  readonly documentCacheBytes: number;
  readonly reduceLimits: ReduceLimits;
  readonly rebuild: boolean;
  readonly readOnly: boolean;
  readonly offline: boolean;
  readonly runtime: MappingRuntime | undefined;
  readonly onWarning: (message: string) => void;
}

const THREADS_MAX = 8;

function count(name: string, value: number | undefined, fallback: number, least: number): number {
  if (value === undefined) return fallback;
  if (!Number.isSafeInteger(value) || value < least)
    throw new RangeError(
      `${name} must be a whole number of at least ${least}, not ${String(value)}`,
    );
  return value;
}

/** @throws TypeError, RangeError naming the option, what was expected and what came. */
export function resolveOptions(options: ViewIndexOptions): ResolvedOptions {
  if (typeof options.dir !== "string" || options.dir === "")
    throw new TypeError("dir must be the path of the index directory");
  const sync = options.sync ?? {};
  return {
    dir: options.dir,
    source: options.source,
    designDocuments: options.designDocuments ?? [],
    designDocumentsFromSource: options.designDocumentsFromSource,
    append: options.append ?? false,
    idField: options.idField ?? "_id",
    partitioned: options.partitioned,
    lineBytesMax: count("lineBytesMax", options.lineBytesMax, LINE_BYTES_MAX_DEFAULT, 16),
    mapIn: options.server === undefined ? (options.mapIn ?? "processes") : "processes",
    server: options.server,
    threads: count("threads", options.threads, Math.min(availableParallelism(), THREADS_MAX), 1),
    timeoutMs: count("timeoutMs", options.timeoutMs, 5000, 1),
    heapMb: count("heapMb", options.heapMb, 512, 16),
    memoryMb: count("memoryMb", options.memoryMb, 1024, 64),
    limits: options.limits ?? {},
    strict: options.strict ?? false,
    minDocuments: count("minDocuments", options.minDocuments, 5000, 1),
    minBytes: count("minBytes", options.minBytes, 4 * 2 ** 20, 1),
    minFreeBytes: count("minFreeBytes", options.minFreeBytes, 0, 0),
    maxDelayMs: count("maxDelayMs", options.maxDelayMs, 500, 0),
    chunkBytes:
      options.chunkBytes === undefined ? undefined : count("chunkBytes", options.chunkBytes, 0, 1),
    bulkBytes: count("bulkBytes", options.bulkBytes, 8 * 2 ** 20, 0),
    bulkChanges: count("bulkChanges", options.bulkChanges, 20_000, 0),
    sync: {
      mode: sync.mode ?? "end",
      intervalMs: count("sync.intervalMs", sync.intervalMs, 30_000, 0),
      intervalBytes: count("sync.intervalBytes", sync.intervalBytes, 2 ** 30, 1),
    },
    cacheBytes: count("cacheBytes", options.cacheBytes, 64 * 2 ** 20, 1),
    documentCacheBytes: count("documentCacheBytes", options.documentCacheBytes, 16 * 2 ** 20, 0),
    reduceLimits: { ...DEFAULT_REDUCE_LIMITS, ...options.reduceLimits },
    rebuild: options.rebuild ?? false,
    readOnly: options.readOnly ?? false,
    offline: options.offline ?? false,
    runtime: options.runtime,
    onWarning: options.onWarning ?? (() => undefined),
  };
}
