// What the methods of ViewIndex take and give.

import type { DocumentListQuery, DocumentPage } from "./views/document-list.js";
import type { DocumentRequest } from "./sources/index.js";
import type { ViewAnswer, ViewShape } from "./query/index.js";
import type { DesignDocument, ViewLocation } from "./views/design-document.js";
import type { SourceRecord } from "./views/manifest.js";
import type { UpdateProgress } from "./views/update-types.js";

export type { DocumentListQuery, DocumentPage };

/** Options of one update. */
export interface UpdateOptions {
  /** Only these design documents. Default: all. */
  readonly designDocuments?: readonly string[];
  /** Stops the update: what was mapped until then is committed, and the call rejects with INDEXER_ABORTED. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: UpdateProgress) => void;
}

/** Parameters of a query under CouchDB's names (VIEWS §7), as JSON values. */
export type QueryParameters = Readonly<Record<string, unknown>>;

export interface QueryOptions {
  readonly signal?: AbortSignal;
  /** What messages of reduces call the view. Default `_design/NAME/_view/VIEW`. */
  readonly label?: string;
}

/** Options of `prepare`. */
export interface PrepareOptions extends QueryOptions {
  /** The answer may be forgotten half read: what it holds is let go of some time after. Default: `release` will be called. */
  readonly leased?: boolean;
  /** Where the writer says that the group is: readers look for a newer commit only when there is one. */
  readonly place?: GroupPlace;
  /** Where documents come from. Default: the source. */
  readonly documents?: (requests: readonly DocumentRequest[]) => Promise<(string | undefined)[]>;
}

/** What is known about one design document's index. */
export interface GroupInfo {
  readonly designDocument: string;
  readonly signature: string;
  readonly language: string;
  readonly file: string;
  /** `building` until the first build has ended. */
  readonly state: "building" | "ready";
  readonly updaterRunning: boolean;
  readonly updateSeq: string | null;
  readonly purgeSeq: string | null;
  readonly documents: number;
  readonly errors: number;
  readonly rows: Readonly<Record<string, number>>;
  readonly sizes: { readonly file: number; readonly active: number; readonly external: number };
  /** Version of the root order that the file is kept in. */
  readonly collation: number;
  /** The same, and the version that compaction would renew the file in where that is a later one (VIEWS §6). */
  readonly collatorVersions: readonly string[];
  readonly progress: UpdateProgress | undefined;
  /** When the running update began, in Unix milliseconds. */
  readonly updaterStarted: number | undefined;
  /** Queries that wait for an update. */
  readonly waitingClients: number;
  /** Something was committed that a loss of power would take back: the next update would do it again. */
  readonly waitingCommit: boolean;
}

export interface IndexInfo {
  readonly dir: string;
  readonly source: SourceRecord | undefined;
  readonly groups: readonly GroupInfo[];
  /** Design documents that cannot be indexed, and why. */
  readonly refused: readonly { readonly designDocument: string; readonly reason: string }[];
  /** An update waits for room on the disk (`minFreeBytes`). */
  readonly pausedForRoom: boolean;
}

/** One view, found by its names. */
export interface FoundView {
  readonly name: string;
  readonly design: DesignDocument;
  readonly location: ViewLocation;
  readonly shape: ViewShape;
  /** What messages of reduces call the view. */
  readonly label: string;
  /** The source's stamp when it was looked for. */
  readonly stamp: string | undefined;
}

/** A query that has its snapshot and has read nothing yet. */
export interface PreparedQuery {
  readonly answer: ViewAnswer;
  /**
   * What the rows come from: where it is equal for two queries, the answers are equal too, given the same parameters, unless documents
   * are included. Letters, digits and dashes.
   */
  readonly version: string;
  /** JSON text of the sequence of the snapshot. */
  readonly updateSeq: string;
  /** To be called when the answer is given up half read: it keeps the file's generation alive. Idempotent. */
  readonly release: () => void;
}

/** Where a group's rows are, for processes that read its file. */
export interface GroupPlace {
  readonly signature: string;
  readonly generation: number;
  /** The last commit. */
  readonly commit: number;
  /** Told in `PreparedQuery.version`. */
  readonly instance: string;
  /** The source's stamp when it was looked for; while it stays the same, so does the rest, up to compactions. */
  readonly stamp: string | undefined;
}
