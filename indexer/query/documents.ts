// include_docs (VIEWS §12): which document belongs to a row, asked for in batches, each document once a batch.

import { type Bytes } from "../../btree/index.js";
import { type DocumentRequest } from "../sources/index.js";
import { type ViewContext } from "./context.js";
import { type ResolvedQuery } from "./resolve.js";
import { type QueryStats } from "./stats.js";
import { textOf } from "./text.js";

/** A row without its closing brace: `open` ends in `"value":`, `value` is JSON text. The id is in `key` from `idStart` on. */
export interface OpenRow {
  readonly open: string;
  readonly value: string;
  readonly key: Bytes;
  readonly idStart: number;
}

interface Wanted {
  readonly request: DocumentRequest;
  /** The row's own document in a revision that its value names: a deleted one counts as missing. */
  readonly ownRevision: boolean;
}

/** A revision as CouchDB reads one: generation, dash, hash. */
const REVISION = /^[0-9]+-./;

/** Members that send a row to another document or revision, if the value is an object that has one. */
function linkOf(value: string): { _id?: unknown; _rev?: unknown } | undefined {
  if (!value.startsWith("{")) return undefined;
  if (!value.includes('"_id"') && !value.includes('"_rev"')) return undefined;
  const link = JSON.parse(value) as { _id?: unknown; _rev?: unknown };
  return Object.hasOwn(link, "_id") || Object.hasOwn(link, "_rev") ? link : undefined;
}

function isDeleted(document: string): boolean {
  return (
    document.includes('"_deleted"') &&
    (JSON.parse(document) as { _deleted?: unknown })._deleted === true
  );
}

export class DocumentLoader {
  readonly #documents: NonNullable<ViewContext["documents"]>;
  readonly #stats: QueryStats | undefined;
  /** What the query asks of documents that are not linked. */
  readonly #options: Omit<DocumentRequest, "id" | "rev"> | undefined;

  constructor(
    query: ResolvedQuery,
    documents: NonNullable<ViewContext["documents"]>,
    stats: QueryStats | undefined,
  ) {
    this.#documents = documents;
    this.#stats = stats;
    if (query.conflicts || query.attachments || query.attEncodingInfo)
      this.#options = {
        ...(query.conflicts ? { conflicts: true } : {}),
        ...(query.attachments ? { attachments: true } : {}),
        ...(query.attEncodingInfo ? { attEncodingInfo: true } : {}),
      };
  }

  /** The finished texts of the rows, in order. */
  async load(rows: readonly OpenRow[]): Promise<readonly string[]> {
    const requests: DocumentRequest[] = [];
    const wanted = rows.map((row) => this.#wanted(row));
    const slots = this.#slots(wanted, requests);
    const before = this.#stats?.enter("documents");
    if (this.#stats) this.#stats.documentsRead += requests.length;
    const texts = requests.length > 0 ? await this.#documents(requests) : [];
    this.#stats?.enter(before);
    return rows.map((row, i) => {
      const slot = slots[i];
      let document = slot === undefined ? undefined : texts[slot];
      // Of the winner a source tells nothing when it is deleted.
      if (document !== undefined && wanted[i]?.ownRevision === true && isDeleted(document))
        document = undefined;
      return `${row.open}${row.value},"doc":${document ?? "null"}}`;
    });
  }

  /** For each row the place of its request; equal ones are made once. */
  #slots(
    wanted: readonly (Wanted | undefined)[],
    requests: DocumentRequest[],
  ): (number | undefined)[] {
    const winners = new Map<string, number>();
    const others = new Map<string, number>();
    return wanted.map((want) => {
      if (!want) return undefined;
      const { request } = want;
      // Mostly the id tells them apart.
      const plain = this.#options === undefined && request.rev === undefined;
      const slots = plain ? winners : others;
      const name = plain ? request.id : JSON.stringify(request);
      let slot = slots.get(name);
      if (slot === undefined) slots.set(name, (slot = requests.push(request) - 1));
      return slot;
    });
  }

  /** Undefined where no document can belong to the row. */
  #wanted(row: OpenRow): Wanted | undefined {
    const link = linkOf(row.value);
    const own = textOf(row.key, row.idStart, row.key.length);
    if (!link) return { request: this.#own(own), ownRevision: false };
    let rev: string | undefined;
    if (Object.hasOwn(link, "_rev")) {
      if (typeof link._rev !== "string" || !REVISION.test(link._rev)) return undefined;
      rev = link._rev;
    }
    if (!Object.hasOwn(link, "_id"))
      return { request: { ...this.#own(own), rev }, ownRevision: true };
    if (typeof link._id !== "string") return undefined;
    return {
      request: rev === undefined ? { id: link._id } : { id: link._id, rev },
      ownRevision: false,
    };
  }

  #own(id: string): DocumentRequest {
    return this.#options ? { id, ...this.#options } : { id };
  }
}
