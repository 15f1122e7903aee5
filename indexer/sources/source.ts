// The seam between a database and the indexer: a feed of changes in pages, and documents by id.
// Sequences are opaque: never compared, never assumed to be numbers.

import { IndexerError } from "../errors.js";
import type { SliceOptions } from "./slice.js";

/** An opaque update sequence: the JSON text of what the source calls a sequence. `undefined` means from the beginning. */
export type Seq = string;

/**
 * A page of the feed: complete lines of raw JSON, never parsed by the indexer as a whole.
 *
 * - `documents`: each line is a document.
 * - `changes`: each line is a row as CouchDB's `_changes?include_docs=true` prints it, without a trailing comma:
 *   `{"seq":…,"id":…,"changes":[{"rev":…}],"deleted":true?,"doc":{…}}`.
 *
 * The bytes are either here, or a range of a file that whoever maps them reads itself.
 */
export interface Chunk {
  readonly format: "documents" | "changes";
  readonly data: Uint8Array | FileRange;
  /** The sequence after the last line of the chunk. */
  readonly lastSeq: Seq;
  /** Bytes of the feed consumed so far, for progress; absent where unknown. */
  readonly feedBytes?: number;
  /** Number of the first line, from 1, where lines have numbers (files). Used in error messages only. */
  readonly firstLine?: number;
}

/** Bytes [start, end) of a file; starts and ends at line boundaries. */
export interface FileRange {
  readonly path: string;
  readonly start: number;
  readonly end: number;
  /** Device and inode the range was cut in: another file under the path is then an error, not wrong documents. */
  readonly inode?: string | undefined;
}

export interface ChangesOptions {
  /** Changes after this sequence; undefined for all. */
  readonly since?: Seq | undefined;
  /** `now`: end at the state of the moment of the call. `forever`: go on with live changes until aborted. */
  readonly until: "now" | "forever";
  /** Aim for chunks of about this many bytes. Default 4 MiB. A live feed hands over smaller ones as they come. */
  readonly chunkBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What tells one database from another that was made later under the same name. Compared as text. */
export interface SourceIdentity {
  /** For example `couchdb:<uuid>:<instance start>`, `file:<fingerprint of its first bytes>`. */
  readonly id: string;
  /** What a person recognises: the URL without password, the path. */
  readonly label: string;
}

/**
 * Is the source now the one recorded? A log that was empty then had no first line to be known by: it may be any log of its
 * kind now, and its identity is to be recorded anew.
 */
export function sameSource(recorded: SourceIdentity, now: SourceIdentity): boolean {
  if (recorded.id === now.id) return true;
  const [kind, print] = recorded.id.split(":");
  return print === "empty" && now.id.startsWith(`${kind ?? ""}:`);
}

/** Total work of a drain from `since`, as far as the source can tell. */
export interface FeedExtent {
  readonly bytes?: number;
  readonly changes?: number;
}

export interface DesignDocumentRow {
  readonly id: string;
  readonly rev: string;
  /** Raw JSON of the document. */
  readonly json: string;
}

export interface DocumentRequest {
  readonly id: string;
  /** Exactly this revision; undefined for the winner. */
  readonly rev?: string | undefined;
  readonly conflicts?: boolean;
  readonly attachments?: boolean;
  readonly attEncodingInfo?: boolean;
  /** Where the winner is deleted, `{"_id":…,"_rev":…,"_deleted":true}` instead of nothing, as far as the source knows of it. */
  readonly deleted?: boolean;
}

/** Members of mapped documents that cost something to get. */
export interface SourceWants {
  readonly conflicts: boolean;
  readonly deletedConflicts: boolean;
  readonly localSeq: boolean;
}

/** A file whose stamp tells whether a source may have changed. */
export interface StampedFile {
  readonly path: string;
  /** The file is a snapshot: it may be changed in place. */
  readonly snapshot: boolean;
}

export interface Source {
  /** True when each drain delivers the whole content (a file of documents): ids that are not seen again are deletions. */
  readonly snapshot: boolean;
  /** Whether it is a partitioned database (VIEWS §19), told once `identity` was; undefined where nothing of the kind is known. */
  readonly partitioned?: boolean | undefined;
  /** How its chunks are sliced, wherever that happens. */
  readonly slicing: SliceOptions;
  /** What mapped documents must carry; set by the indexer before `changes` is called. Sources that cannot ignore it. */
  configure?(wants: SourceWants): void;
  identity(): Promise<SourceIdentity>;
  /**
   * Pages in feed order. At-least-once: rows may repeat and a feed may rewind.
   * Throws INDEXER_ABORTED when the signal fires: a drain that just ends was complete.
   */
  changes(options: ChangesOptions): AsyncIterable<Chunk>;
  /** The sequence of this moment. */
  latest(): Promise<Seq>;
  /** How much a drain from `since` will deliver, for progress. */
  extent(since: Seq | undefined): Promise<FeedExtent>;
  /** Can the feed go on from this sequence? False when a file was replaced or truncated before it. */
  resumable(since: Seq): Promise<boolean>;
  /** All design documents of this moment (not deleted). */
  designDocuments(): Promise<DesignDocumentRow[]>;
  /**
   * Raw JSON of documents by id (and revision), in request order; undefined where missing; deleted winners are undefined,
   * a deleted revision asked for by `rev` comes as a stub with `_deleted:true` (VIEWS §12).
   */
  documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]>;
  /**
   * A text that changes whenever there may be something new, read at once and without cost to speak of; undefined where nothing of
   * the kind is known. What was brought up to date at a stamp is up to date while the stamp stays the same.
   */
  stamp?(): string | undefined;
  /** Where `stamp` looks, so that other processes can look there themselves, with `FileStamp`. */
  readonly stamped?: StampedFile;
  /** Ids purged since the given purge sequence, where the source reports them. */
  purges?(since: string | undefined): Promise<{ ids: string[]; purgeSeq: string; reset: boolean }>;
  close(): Promise<void>;
}

/** What `changes` throws when its signal fires, before or while it waits. */
export function abortedError(signal: AbortSignal | undefined): IndexerError {
  const options = signal?.aborted ? { cause: signal.reason as unknown } : undefined;
  return new IndexerError("INDEXER_ABORTED", "The operation was aborted.", {}, options);
}

/** What is left of a deleted document, as JSON text. */
export function tombstone(id: string, rev: string): string {
  return JSON.stringify({ _id: id, _rev: rev, _deleted: true });
}
