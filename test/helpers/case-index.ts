// The database of a case with an index over it, asked as over HTTP but in this process.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { ViewIndex, type ViewIndexOptions } from "../../indexer/index.js";
import {
  parseQueriesBody,
  parseViewBody,
  parseViewQuery,
  resolveViewQuery,
} from "../../indexer/query/index.js";
import { CaseDatabase } from "./case-database.js";
import { documentsOf, type Case, type CaseQuery, type CaseReply } from "./golden-cases.js";
import { tempDir } from "./temp-dir.js";

const JSON_PARAMETERS = new Set(["key", "keys", "startkey", "start_key", "endkey", "end_key"]);

function parameterText(name: string, value: unknown): string {
  if (value !== null && typeof value === "object" && "__raw" in value) return String(value.__raw);
  return JSON_PARAMETERS.has(name) ? JSON.stringify(value) : String(value);
}

function pairsOf({ params = {} }: CaseQuery): [string, string][] {
  return Object.entries(params).map(([name, value]) => [name, parameterText(name, value)]);
}

/** Status, error and reason of what CouchDB would answer over HTTP; anything else is thrown on. */
export function failureOf(error: unknown): CaseReply {
  const { status, error: name, reason, details } = error as Partial<CaseReply>;
  if (status !== undefined) return { status, error: name, reason };
  const told = details as Partial<CaseReply> | undefined;
  if (told?.status === undefined) throw error;
  return { status: told.status, error: told["error"], reason: told["reason"] };
}

export class CaseIndex {
  readonly database: CaseDatabase;
  readonly index: ViewIndex;
  /** The raw bodies of answers, in order; undefined for failures. */
  readonly texts: (string | undefined)[] = [];

  private constructor(database: CaseDatabase, index: ViewIndex) {
    this.database = database;
    this.index = index;
  }

  /**
   * Writes the documents, then the design document as `_design/t`.
   * @param inMemory - whether the index reads the database in memory instead of the file of changes.
   */
  static async open(
    one: Case,
    options: Partial<ViewIndexOptions> & { readonly inMemory?: boolean } = {},
  ): Promise<CaseIndex> {
    const { inMemory = false, ...others } = options;
    const dir = tempDir();
    const feed = join(dir, "feed.ndjson");
    writeFileSync(feed, "");
    const database = new CaseDatabase(feed);
    for (const json of documentsOf(one)) database.put(json);
    if (one.ddoc) database.put(JSON.stringify({ ...one.ddoc, _id: "_design/t" }));
    const source = inMemory ? database.memory : `changes:${feed}`;
    const index = await ViewIndex.open({
      dir: join(dir, "index"),
      source,
      mapIn: "threads",
      threads: 1,
      ...others,
    });
    return new CaseIndex(database, index);
  }

  async ask(query: CaseQuery): Promise<CaseReply> {
    try {
      const found = await this.index.findView("t", query.view ?? "v");
      const body = JSON.stringify(query.body ?? {});
      if (query.path?.endsWith("/queries")) {
        const results: unknown[] = [];
        for (const one of parseQueriesBody(body)) {
          const resolved = resolveViewQuery(parseViewQuery(pairsOf(query), one), found.shape);
          results.push(await (await this.index.run(found, resolved)).object());
        }
        return { status: 200, results };
      }
      const posted = query.body || query.post ? parseViewBody(body) : undefined;
      const resolved = resolveViewQuery(parseViewQuery(pairsOf(query), posted), found.shape);
      const answer = await this.index.run(found, resolved);
      let text = "";
      for await (const piece of answer.text()) text += piece;
      this.texts.push(text);
      return { status: 200, ...(JSON.parse(text) as object) };
    } catch (error) {
      this.texts.push(undefined);
      return failureOf(error);
    }
  }

  /** Goes through the steps of a case, then its queries: the replies in order. */
  async replies({ steps = [], query, queries = [] }: Case): Promise<CaseReply[]> {
    const replies: CaseReply[] = [];
    for (const step of steps) {
      for (const doc of step.put ?? []) this.database.put(JSON.stringify(doc));
      if (step.del !== undefined) this.database.delete(step.del);
      if (step.purge !== undefined) this.database.purge(step.purge);
      if (step.bulk) this.database.replicate(step.bulk.docs);
      if (step.query) replies.push(await this.ask(step.query));
    }
    for (const one of [...(query ? [query] : []), ...queries]) replies.push(await this.ask(one));
    return replies;
  }

  /** What is recorded of documents that failed. */
  async failures(): Promise<{ id: string; error: string }[]> {
    const failures: { id: string; error: string }[] = [];
    for await (const record of this.index.errors())
      failures.push({ id: record.id, error: record.error });
    return failures;
  }

  async close(): Promise<void> {
    await this.index.close();
  }
}
