// What passes between the main thread and the mapping threads. Every task is complete in itself; results are tagged, because
// an error's class does not survive the way back. Buffers are transferred, not copied.

import type { BulkTarget, Bytes, Forest, RawEntries, SegmentRef } from "../../btree/index.js";
import type { MessagePort } from "node:worker_threads";

import type { LogLine } from "../../viewserver/index.js";
import type { FileRange } from "../sources/index.js";

/** What a thread must know of a view group to map documents for it. */
export interface GroupConfig {
  /** Names the session: equal keys have equal configuration. */
  readonly key: string;
  readonly lib: string | undefined;
  readonly maps: readonly string[];
  readonly collations: readonly ("root" | "raw")[];
  /** Version of the root order that the group's file is kept in. */
  readonly collationVersion: number;
  /** Reduce sources by tree. */
  readonly reduces: readonly (readonly string[])[];
  /** A view name for each tree, for messages. */
  readonly labels: readonly string[];
  readonly includeDesign: boolean;
  /** The document's partition stands before each collation key. */
  readonly partitioned: boolean;
  /** Documents whose id names no partition are recorded as errors, not mapped. */
  readonly partitionedIds: boolean;
  readonly limits: ReduceLimits;
  /** Answer as CouchDB does, where a single document can fail the whole group. */
  readonly strict: boolean;
}

/** Arithmetic of the overflow check (PROTOCOL §5). */
export interface ReduceLimits {
  readonly reduceLimit: boolean | "log";
  readonly threshold: number;
  readonly ratio: number;
}

/** Lines to look at: a chunk of the feed, or single documents of a file. */
export interface LineInput {
  readonly format: "documents" | "changes";
  readonly data: Uint8Array | FileRange;
  /** Only these byte ranges of `data.path` (pairs of start, end; whole lines), in place of all of `data`. */
  readonly pieces?: Float64Array | undefined;
  readonly label: string;
  readonly idField: string;
  readonly localSeq: boolean;
  readonly firstLine: number | undefined;
  readonly lineBytesMax: number;
}

/** Where a mapped range's segments go. */
export type Output =
  | { readonly kind: "memory" }
  /** Appended to this run file, which only this task writes to while it runs. */
  | { readonly kind: "run"; readonly path: string };

/** How documents that the index already holds are told. */
export interface KnownIndex {
  /** The index file; opened for reading, its committed state followed. */
  readonly path: string;
  /** Look for the documents' rows too: worth it when this state is likely to be the one that the result is applied to. */
  readonly rows: boolean;
}

/** The state of an index that a result was compared with: what it says of rows lost and rows unchanged holds for this state only. */
export interface KnownBase {
  readonly path: string;
  /** Number of the commit. */
  readonly commit: number;
}

/** Which documents of the chunk: [from, to) by position. */
export interface DocumentSelection {
  readonly from: number;
  readonly to: number;
}

export const ALL_DOCUMENTS: DocumentSelection = { from: 0, to: Infinity };

export interface GroupJob {
  readonly config: GroupConfig;
  readonly output: Output;
  readonly known: KnownIndex | undefined;
}

/** Slice, map in this thread's session, encode, sort. */
export interface MapTask {
  readonly kind: "map";
  readonly input: LineInput;
  readonly groups: readonly GroupJob[];
  readonly select: DocumentSelection;
  /**
   * For another attempt, after the first ended with its thread: documents are handed in one by one, so that a beat names the very document at
   * hand. Without it a beat names the first of a batch, all of which are within BATCH_DOCUMENTS_MAX positions from there.
   */
  readonly careful?: CarefulAttempt | undefined;
  readonly ordinalBase: number;
  readonly heartbeat: SharedArrayBuffer;
  readonly slot: number;
  readonly mapLimits: FunctionLimits;
}

/** What outlives a thread that user code takes down. */
export interface CarefulAttempt {
  /** Is told a {@link CarefulNews} before each group, and after each document. */
  readonly port: MessagePort;
  /** By group: what earlier attempts brought. These documents are not mapped again. */
  readonly settled: readonly SettledDocuments[];
}

export type CarefulNews =
  { readonly group: number } | { readonly index: number; readonly answer: DocumentAnswer };

/** By position in the chunk. */
export interface SettledDocuments {
  readonly answers: ReadonlyMap<number, DocumentAnswer>;
  readonly failures: ReadonlyMap<number, DocumentFailure>;
}

/** What the functions made of a document. */
export interface DocumentAnswer {
  readonly reply: string;
  readonly logs: readonly LogLine[] | undefined;
}

/** Positions that documents handed in together may span. */
export const BATCH_DOCUMENTS_MAX = 64;

/** What a document may bring forth before its function is stopped; absent: the view server's own defaults. */
export interface FunctionLimits {
  /** Rows one function may emit for one document. Default 1 000 000. */
  readonly rowsMax?: number;
  /** Characters that these rows may take as JSON. Default 64 Mi. */
  readonly outputCharsMax?: number;
  /** Log lines kept for one document. Default 1000. */
  readonly logLinesMax?: number;
}

/** Slice only, and make `map_doc` lines for a view server that runs elsewhere. */
export interface PrepareTask {
  readonly kind: "prepare";
  readonly input: LineInput;
  readonly group: GroupJob;
  readonly select: DocumentSelection;
  /** The server runs functions as ours does: it may be sent only what they can see. */
  readonly project: boolean;
}

/** Encode and sort what a view server elsewhere replied. */
export interface EncodeTask {
  readonly kind: "encode";
  readonly prepared: PreparedLines;
  /** Reply lines in order of `prepared.mapped`. */
  readonly replies: Uint8Array;
  /** Documents that have no reply, by position in the chunk. */
  readonly failures: readonly DocumentFailure[];
  /** Map functions that threw, by document position in the chunk. */
  readonly viewFailures: readonly { readonly index: number; readonly failure: ViewFailure }[];
  readonly group: GroupJob;
  readonly ordinalBase: number;
}

/** A map function that failed for one document. */
export interface ViewFailure {
  readonly tree: number;
  readonly kind: string;
  readonly error: string;
  readonly reason: string;
  readonly stack?: string | undefined;
}

/** Slice and hash only: what does the file hold now, and where? For snapshots that are compared with an index. */
export interface ScanTask {
  readonly kind: "scan";
  readonly input: LineInput;
  readonly includeDesign: boolean;
  /** The run file to write. */
  readonly path: string;
  readonly ordinalBase: number;
}

/** Merge sorted segments of one tree, or of one key range of it, into nodes of the new file. */
export interface MergeTask {
  readonly kind: "merge";
  /** What the tree holds already, as committed: the oldest of all. */
  readonly base: KnownBase | undefined;
  readonly segments: readonly SegmentRef[];
  readonly gte: Bytes | undefined;
  readonly lt: Bytes | undefined;
  readonly tree: "ids" | "errors" | number;
  readonly config: GroupConfig;
  readonly target: BulkTarget;
  readonly extentBytes: number;
  /** Id tree only: the run file for cancelling rows of superseded documents. */
  readonly cancelPath: string | undefined;
  /** Custom reduces of a view server elsewhere are asked for through this port. */
  readonly reducePort: MessagePort | undefined;
  /** It is our own. */
  readonly reduceOurs: boolean;
  readonly heartbeat: SharedArrayBuffer;
  readonly slot: number;
}

/** Custom reduces in this thread's session. */
export interface ReduceTask {
  readonly kind: "reduce";
  readonly requests: readonly ReduceRequest[];
  readonly limits: ReduceLimits;
  readonly heartbeat: SharedArrayBuffer;
  readonly slot: number;
}

export interface ReduceRequest {
  readonly rereduce: boolean;
  readonly sources: readonly string[];
  /** JSON: `[[[key,id],value],…]`, or `[value,…]` for a rereduce. */
  readonly input: string;
  /** What an overflow message names. */
  readonly context: string;
}

/** Compile functions and report what is wrong with them. */
export interface CheckTask {
  readonly kind: "check";
  readonly sources: readonly string[];
}

/** Is this document JSON? To tell why a view server elsewhere did not answer. */
export interface SyntaxTask {
  readonly kind: "syntax";
  readonly input: LineInput;
  /** By position in the chunk. */
  readonly index: number;
}

export type ThreadTask =
  MapTask | PrepareTask | EncodeTask | ScanTask | MergeTask | ReduceTask | CheckTask | SyntaxTask;

/** A document that could not be mapped, by position in its chunk. */
export interface DocumentFailure {
  readonly index: number;
  /** The map function to blame, where that could be told. */
  readonly tree?: number | undefined;
  readonly kind: string;
  readonly error: string;
  readonly reason: string;
}

/** Entries of one tree: unsorted and in memory, or a sorted segment of a run file, as the task's output asked. */
export type EntrySet = RawEntries | SegmentRef;

export function isSegment(set: EntrySet): set is SegmentRef {
  return "path" in set;
}

/** What one group got from one mapped range; `undefined` where a tree got nothing. */
export interface GroupSegments {
  readonly ids: EntrySet | undefined;
  readonly errors: EntrySet | undefined;
  readonly views: readonly (EntrySet | undefined)[];
  /** Documents whose map functions ran. */
  readonly mapped: number;
  /** Documents found unchanged. */
  readonly unchanged: number;
  readonly deleted: number;
  /** Documents with at least one failed map function. */
  readonly failed: number;
  readonly rows: number;
  /** In strict mode: the documents that could not be mapped at all, which makes the whole group fail. */
  readonly documentFailures: readonly StrictFailure[];
  /** Ordinal of the chunk's first document. */
  readonly ordinalBase: number;
  /** What the entries' flags compare with; undefined when they compare with nothing. */
  readonly base: KnownBase | undefined;
  /** `log()` calls, a bounded sample, with the document's id. */
  readonly logs: readonly { readonly id: string; readonly text: string }[];
}

/** A document that could not be mapped at all. */
export interface StrictFailure {
  readonly id: string;
  /** Its place in the feed: a later row of the same id supersedes it. */
  readonly ordinal: number;
  readonly error: string;
  readonly reason: string;
}

export interface MapResult {
  readonly groups: readonly GroupSegments[];
  /** Documents in the chunk, selected or not. */
  readonly documents: number;
  /** Of these, design documents. */
  readonly designs: number;
}

/** What entries say of documents, by position in the chunk. */
export interface DocumentColumns {
  /** Where ids lie, as UTF-8, and where each begins and ends. */
  readonly ids: Uint8Array;
  readonly idStart: Uint32Array;
  readonly idEnd: Uint32Array;
  /** The version's two halves. */
  readonly hashLow: Uint32Array;
  readonly hashHigh: Uint32Array;
}

/** A chunk made ready for a view server elsewhere. Arrays are by document position in the chunk. */
export interface PreparedLines extends DocumentColumns {
  readonly documents: number;
  /** Of these, design documents. */
  readonly designs: number;
  /** One byte a document: MAP, DELETED, UNCHANGED, SKIP or REFUSED. */
  readonly verdicts: Uint8Array;
  /** Positions of the documents to be mapped, in order. */
  readonly mapped: Uint32Array;
  /** One `["map_doc",…]` line for each of them. */
  readonly lines: Uint8Array;
  /** The offset after the LF of each line. */
  readonly lineEnds: Uint32Array;
}

/** Verdicts on a document. */
export const MAP = 0;
export const DELETED = 1;
export const UNCHANGED = 2;
/** Design documents of groups that do not include them, and documents outside the selection. */
export const SKIP = 3;
/** Documents that a partitioned database would not have taken. */
export const REFUSED = 4;

export interface ScanResult {
  readonly segment: SegmentRef | undefined;
  readonly documents: number;
}

export interface MergeResult {
  readonly forest: Forest;
  readonly bytesWritten: number;
  readonly entries: number;
  /** Id tree only: segments of cancelling rows for each view tree, then for the error tree. */
  readonly cancels: readonly (readonly SegmentRef[])[];
}

export interface CheckResult {
  readonly faults: readonly {
    readonly index: number;
    readonly message: string;
    readonly line: number | undefined;
    readonly column: number | undefined;
    readonly sourceLine: string | undefined;
  }[];
}

export type ThreadReply<T> =
  | { readonly ok: true; readonly result: T }
  | {
      readonly ok: false;
      readonly name: string;
      readonly code: string;
      readonly message: string;
      readonly details: unknown;
    };
