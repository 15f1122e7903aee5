// PouchDB behind the interface, with a stand-in that answers as PouchDB 9 does for what is used of it.

import { describe, expect, test } from "@jest/globals";
import { PouchSource, type PouchDatabase } from "../../../indexer/sources/index.js";
import { drain, ids, rejection, sliceChunk, withCode } from "./collect.js";

interface Doc {
  readonly _id: string;
  readonly _rev: string;
  readonly _deleted?: boolean;
}

interface Row {
  seq: number;
  id: string;
  changes: { rev: string }[];
  deleted?: boolean;
  doc: Doc;
}

class PouchStandIn {
  readonly name = "shop";
  readonly asked: Readonly<Record<string, unknown>>[] = [];
  closed = false;
  #rows: Row[] = [];
  readonly #live = new Set<(row: Row) => void>();

  put(doc: Doc): void {
    const seq = (this.#rows.at(-1)?.seq ?? 0) + 1;
    const row: Row = {
      seq,
      id: doc._id,
      changes: [{ rev: doc._rev }],
      ...(doc._deleted === true ? { deleted: true } : {}),
      doc,
    };
    this.#rows = [...this.#rows.filter((one) => one.id !== doc._id), row];
    for (const tell of this.#live) tell(row);
  }

  async info(): Promise<{ update_seq: number; doc_count: number }> {
    return Promise.resolve({
      update_seq: this.#rows.at(-1)?.seq ?? 0,
      doc_count: this.#rows.length,
    });
  }

  changes(options: Readonly<Record<string, unknown>>): ReturnType<PouchDatabase["changes"]> {
    this.asked.push(options);
    const since = options["since"] as number;
    const limit = (options["limit"] as number | undefined) ?? Infinity;
    const results = this.#rows.filter((row) => row.seq > since).slice(0, limit);
    const done = Promise.resolve({ results, last_seq: results.at(-1)?.seq ?? since });
    const listeners: ((row: Row) => void)[] = [];
    const tell = (row: Row): void => {
      for (const listener of listeners) listener(row);
    };
    if (options["live"] === true) this.#live.add(tell);
    return {
      then: done.then.bind(done),
      on: (event: string, listener: (value: never) => void) => {
        if (event === "change") listeners.push(listener as (row: Row) => void);
      },
      cancel: () => this.#live.delete(tell),
    };
  }

  get followers(): number {
    return this.#live.size;
  }

  async allDocs({ keys }: { readonly keys?: readonly string[] } = {}): Promise<{
    rows: { id: string; doc?: Doc; value?: { rev: string; deleted?: boolean } }[];
  }> {
    if (keys) {
      const rows = this.#rows.filter(({ id }) => keys.includes(id));
      return Promise.resolve({
        rows: rows.map(({ id, deleted, doc }) => ({
          id,
          value: { rev: doc._rev, ...(deleted === true ? { deleted } : {}) },
        })),
      });
    }
    const found = this.#rows.filter((row) => row.id.startsWith("_design/") && row.deleted !== true);
    return Promise.resolve({ rows: found.map(({ id, doc }) => ({ id, doc })) });
  }

  async get(id: string, options: Readonly<Record<string, unknown>>): Promise<Doc> {
    if (id === "broken") throw new Error("disk on fire");
    const row = this.#rows.find((one) => one.id === id);
    const rev = options["rev"];
    if (!row || (rev === undefined ? row.deleted === true : rev !== row.doc._rev)) {
      throw Object.assign(new Error("missing"), { status: 404 });
    }
    return Promise.resolve(row.doc);
  }

  async close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

describe("a PouchDB database", () => {
  test("is told from another of its name by its own number, where it has one", async () => {
    const plain = new PouchStandIn();
    expect(await new PouchSource(plain).identity()).toEqual({ id: "pouchdb:shop", label: "shop" });
    const numbered = Object.assign(new PouchStandIn(), { id: async () => Promise.resolve("4711") });
    expect(await new PouchSource(numbered).identity()).toEqual({
      id: "pouchdb:4711",
      label: "shop",
    });
  });

  test("is read in pages", async () => {
    const database = new PouchStandIn();
    for (let i = 0; i < 1203; i++) database.put({ _id: `d${i}`, _rev: "1-a" });
    database.put({ _id: "d5", _rev: "2-b", _deleted: true });
    const source = new PouchSource(database);
    source.configure({ conflicts: true });
    const { seen, chunks, lastSeq } = await drain(source);
    expect(seen).toHaveLength(1203);
    expect(chunks).toHaveLength(3);
    expect(seen.at(-1)).toMatchObject({ id: "d5", deleted: true });
    expect(lastSeq).toBe(await source.latest());
    expect((await drain(source, { since: lastSeq })).seen).toEqual([]);
    expect(database.asked[0]).toMatchObject({ include_docs: true, conflicts: true });
    expect(await source.resumable("1204")).toBe(true);
    expect(await source.resumable("1205")).toBe(false);
  });

  test("is followed until it is aborted, and the feed cancelled", async () => {
    const database = new PouchStandIn();
    database.put({ _id: "a", _rev: "1-a" });
    const source = new PouchSource(database);
    const abort = new AbortController();
    const feed = source.changes({ until: "forever", signal: abort.signal })[Symbol.asyncIterator]();
    const take = async (): Promise<string[]> => {
      const next = await feed.next();
      return next.done === true ? [] : ids(sliceChunk(next.value, source));
    };
    expect(await take()).toEqual(["a"]);
    const waiting = take();
    while (database.followers === 0) await new Promise((resolve) => setImmediate(resolve));
    database.put({ _id: "b", _rev: "1-b" });
    expect(await waiting).toEqual(["b"]);
    const last = rejection(take());
    abort.abort();
    expect(await last).toEqual(withCode("INDEXER_ABORTED"));
    expect(database.followers).toBe(0);
  });

  test("gives documents and design documents", async () => {
    const database = new PouchStandIn();
    database.put({ _id: "_design/x", _rev: "1-x" });
    database.put({ _id: "a", _rev: "1-a" });
    database.put({ _id: "gone", _rev: "2-g", _deleted: true });
    const source = new PouchSource(database, { owned: true });
    expect(await source.designDocuments()).toEqual([
      { id: "_design/x", rev: "1-x", json: '{"_id":"_design/x","_rev":"1-x"}' },
    ]);
    expect(
      await source.documents([
        { id: "a" },
        { id: "gone" },
        { id: "gone", rev: "2-g" },
        { id: "no" },
        { id: "gone", deleted: true },
        { id: "no", deleted: true },
      ]),
    ).toEqual([
      '{"_id":"a","_rev":"1-a"}',
      undefined,
      '{"_id":"gone","_rev":"2-g","_deleted":true}',
      undefined,
      '{"_id":"gone","_rev":"2-g","_deleted":true}',
      undefined,
    ]);
    expect(await rejection(source.documents([{ id: "broken" }]))).toEqual(
      withCode("SOURCE_UNREADABLE"),
    );
    await source.close();
    expect(database.closed).toBe(true);
  });
});
