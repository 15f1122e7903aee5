// A database that keeps its revisions, in a file of changes or in memory: what CouchDB's feed would say about it, for both.

import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";

import { MemorySource } from "../../indexer/index.js";

interface Leaf {
  readonly rev: string;
  readonly deleted: boolean;
  /** Raw JSON without `_rev` and `_revisions`. */
  readonly json: string;
}

function generation({ rev }: Leaf): number {
  return Number.parseInt(rev, 10);
}

/** The winner first: not deleted, then the longest history, then the greater hash. */
function byRank(a: Leaf, b: Leaf): number {
  if (a.deleted !== b.deleted) return a.deleted ? 1 : -1;
  return generation(b) - generation(a) || (a.rev < b.rev ? 1 : -1);
}

function without(json: string, names: readonly string[]): string {
  const doc = JSON.parse(json) as Record<string, unknown>;
  return names.some((name) => name in doc)
    ? JSON.stringify(
        Object.fromEntries(Object.entries(doc).filter(([name]) => !names.includes(name))),
      )
    : json.trim();
}

export class CaseDatabase {
  readonly #leaves = new Map<string, Leaf[]>();
  readonly #feed: string;
  /** The same in memory, where purges can be told. */
  readonly memory = new MemorySource("cases");
  #seq = 0;

  /** @param feed - the file of changes, appended to. */
  constructor(feed: string) {
    this.#feed = feed;
  }

  /** A write in place of the winner. @param json - raw JSON text, kept as written. */
  put(json: string): void {
    const { _id: id, _deleted: deleted } = JSON.parse(json) as { _id: string; _deleted?: boolean };
    const leaves = this.#leaves.get(id) ?? [];
    const [winner] = leaves;
    const next = (winner ? generation(winner) : 0) + 1;
    const rev = `${next}-${createHash("md5").update(`${next}${json}`).digest("hex")}`;
    const leaf = { rev, deleted: deleted === true, json: json.trim() };
    this.#save(id, [leaf, ...leaves.slice(1)]);
  }

  delete(id: string): void {
    this.put(JSON.stringify({ _id: id, _deleted: true }));
  }

  /** Revisions as a replicator writes them, with their histories: the feed tells the winner of each document, once. */
  replicate(docs: readonly Readonly<Record<string, unknown>>[]): void {
    const touched = new Set<string>();
    for (const doc of docs) {
      const id = doc["_id"] as string;
      const rev = doc["_rev"] as string;
      const { start = 0, ids = [] } =
        (doc["_revisions"] as { start: number; ids: string[] } | undefined) ?? {};
      const ancestors = new Set(ids.slice(1).map((hash, i) => `${start - 1 - i}-${hash}`));
      const leaf = {
        rev,
        deleted: doc["_deleted"] === true,
        json: without(JSON.stringify(doc), ["_rev", "_revisions"]),
      };
      const others = (this.#leaves.get(id) ?? []).filter((one) => !ancestors.has(one.rev));
      this.#leaves.set(id, [leaf, ...others]);
      touched.add(id);
    }
    for (const id of touched) this.#save(id, this.#leaves.get(id) ?? []);
  }

  /** Leaves no trace in the feed: only `memory` can tell. */
  purge(id: string): void {
    this.#leaves.delete(id);
    this.memory.purge(id);
  }

  #save(id: string, leaves: Leaf[]): void {
    leaves.sort(byRank);
    this.#leaves.set(id, leaves);
    const [winner, ...losers] = leaves;
    if (!winner) return;
    const revs = (deleted: boolean): string[] =>
      losers.filter((one) => one.deleted === deleted).map(({ rev }) => rev);
    const more = { _conflicts: revs(false), _deleted_conflicts: revs(true) };
    const tail = Object.entries(more)
      .filter(([, list]) => list.length > 0)
      .map(([name, list]) => `,"${name}":${JSON.stringify(list)}`)
      .join("");
    const doc = `${winner.json.slice(0, -1)},"_rev":"${winner.rev}"${tail}}`;
    const row = `"id":${JSON.stringify(id)},"changes":[{"rev":"${winner.rev}"}],${winner.deleted ? '"deleted":true,' : ""}"doc":${doc}`;
    appendFileSync(this.#feed, `{"seq":"${++this.#seq}-x",${row}}\n`);
    this.memory.put(doc);
  }
}
