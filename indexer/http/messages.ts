// What the process that writes and those that answer say to each other: calls and their replies, many to a message.

import type { DocumentRequest, StampedFile } from "../sources/index.js";
import type { DocumentListQuery, DocumentPage, GroupPlace, IndexInfo } from "../view-index.js";
import type { Counters } from "./metrics.js";
import type { HttpOptions } from "./server.js";
import type { CompactionTask, DatabaseState, UpdateMode } from "./service.js";

/** What answering processes may ask of the writer. */
export interface WriterCalls {
  /** Looks the view up and sees to its index as a query with this `update` would. */
  place(ddoc: string, view: string, update: UpdateMode): Promise<GroupPlace>;
  documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]>;
  designDocument(name: string): Promise<string | undefined>;
  database(): Promise<DatabaseState>;
  documentPage(query: DocumentListQuery): Promise<DocumentPage>;
  info(look: boolean): Promise<IndexInfo>;
  pending(designDocument: string): Promise<number>;
  compactions(): Promise<readonly CompactionTask[]>;
  compact(designDocument: string): Promise<void>;
  cleanup(): Promise<void>;
  metrics(): Promise<string>;
}

export interface Call {
  readonly id: number;
  readonly name: keyof WriterCalls;
  readonly args: readonly unknown[];
}

export interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly status: number; readonly error: string; readonly reason: string };
}

/** From an answering process. */
export type FromReader =
  | { readonly kind: "ready" }
  | { readonly kind: "calls"; readonly calls: readonly Call[] }
  | { readonly kind: "listening"; readonly url: string }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "counters"; readonly round: number; readonly counters: Counters }
  | { readonly kind: "warning"; readonly message: string };

/** To an answering process. */
export type ToReader =
  | { readonly kind: "start"; readonly start: ReaderStart }
  | { readonly kind: "replies"; readonly replies: readonly Reply[] }
  | { readonly kind: "count"; readonly round: number }
  /** A compaction has put another file in the place of one. */
  | { readonly kind: "moved" }
  | { readonly kind: "close" };

export interface ReaderStart {
  readonly name: string;
  readonly http: HttpOptions;
  /** What to look at to see whether the source may have changed. */
  readonly stamped: StampedFile | undefined;
  readonly index: {
    readonly dir: string;
    readonly cacheBytes?: number;
    readonly threads: number;
    readonly mapIn: "threads" | "processes";
    readonly server?: string;
    readonly timeoutMs?: number;
    readonly heapMb?: number;
    readonly memoryMb?: number;
    readonly strict?: boolean;
  };
}

/** Gathers what is said in one turn of the event loop into one message. */
export class Gathering<T> {
  readonly #send: (items: readonly T[]) => void;
  #items: T[] = [];

  constructor(send: (items: readonly T[]) => void) {
    this.#send = send;
  }

  add(item: T): void {
    this.#items.push(item);
    if (this.#items.length > 1) return;
    setImmediate(() => {
      const items = this.#items;
      this.#items = [];
      this.#send(items);
    });
  }
}
