// A database over real HTTP on loopback: pages, broken connections, refusals, following.

import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import {
  CouchSource,
  type Chunk,
  type CouchSourceOptions,
} from "../../../indexer/sources/index.js";
import { drain, ids, rejection, sliceChunk, withCode } from "./collect.js";
import { CouchFixture } from "./couch-fixture.js";

const FAST = { firstMs: 1, longestMs: 4 };
let couch: CouchFixture;
const sources: CouchSource[] = [];

function open(options: CouchSourceOptions = {}, credentials = ""): CouchSource {
  const source = new CouchSource(couch.url(credentials), {
    backoff: FAST,
    heartbeatMs: 200,
    ...options,
  });
  sources.push(source);
  return source;
}

function fill(count: number, from = 0): string[] {
  const made = Array.from({ length: count }, (_, i) => `doc-${from + i}`);
  for (const id of made) couch.put({ _id: id, _rev: "1-a", text: `käse 😀 ${id}`, "2": 1, "1": 2 });
  return made;
}

beforeEach(async () => {
  couch = new CouchFixture();
  await couch.start();
});

afterEach(async () => {
  for (const source of sources.splice(0)) await source.close();
  await couch.stop();
});

describe("a database", () => {
  test.each([
    [undefined, false],
    [{}, false],
    [{ partitioned: true }, true],
  ])("with the properties %j tells whether it is partitioned", async (props, partitioned) => {
    couch.props = props;
    const source = open();
    await source.identity();
    expect(source.partitioned).toBe(partitioned);
  });
});

describe("the feed of a database", () => {
  test("is read in pages and delivered in chunks, documents as they were sent", async () => {
    const made = fill(57);
    const source = open({ pageRows: 10 });
    const { seen, chunks, lastSeq } = await drain(source, { chunkBytes: 300 });
    expect(ids(seen)).toEqual(made);
    expect(seen[3]?.doc).toBe('{"1":2,"2":1,"_id":"doc-3","_rev":"1-a","text":"käse 😀 doc-3"}');
    expect(lastSeq).toBe('"57-x"');
    expect(await source.latest()).toBe('"57-x"');
    expect(chunks.length).toBeGreaterThan(5);
    const feeds = couch.requests.filter((one) => one.includes("_changes"));
    expect(feeds).toHaveLength(6);
    expect(feeds[1]).toContain("since=10-x");
    expect(feeds[0]).not.toContain("conflicts");
  });

  test("goes on from any chunk's sequence", async () => {
    const made = fill(30);
    const source = open({ pageRows: 7 });
    const { chunks } = await drain(source, { chunkBytes: 400 });
    let known = 0;
    for (const chunk of chunks) {
      known += sliceChunk(chunk, source).length;
      const rest = await drain(source, { since: chunk.lastSeq });
      expect(ids(rest.seen)).toEqual(made.slice(known));
    }
  });

  test("says deletions, and an empty feed is no chunk", async () => {
    expect((await drain(open())).chunks).toEqual([]);
    couch.put({ _id: "a", _rev: "1-a" });
    couch.put({ _id: "a", _rev: "2-b", _deleted: true });
    const { seen } = await drain(open());
    expect(seen.map((one) => [one.id, one.deleted])).toEqual([["a", true]]);
  });

  test("survives connections that break in the middle of a row", async () => {
    const made = fill(40);
    couch.trouble = { breakFeed: { times: 3, rows: 4 } };
    const warnings: string[] = [];
    const source = open({ onWarning: (message) => warnings.push(message) });
    expect(ids((await drain(source)).seen)).toEqual(made);
    expect(warnings).toHaveLength(3);
  });

  test("survives statuses that pass", async () => {
    const made = fill(5);
    for (const status of [503, 500, 429]) {
      couch.trouble = { fail: { times: 2, status } };
      expect(ids((await drain(open())).seen)).toEqual(made);
    }
  });

  test("may rewind: rows repeat, none is missing", async () => {
    const made = fill(20);
    couch.trouble = { rewind: 3 };
    const { seen } = await drain(open({ pageRows: 9 }));
    expect(new Set(ids(seen))).toEqual(new Set(made));
    expect(seen.length).toBeGreaterThan(20);
  });

  test("may be printed with any line breaks", async () => {
    const made = fill(6);
    couch.trouble = { pretty: true };
    const { seen } = await drain(open());
    expect(ids(seen)).toEqual(made);
    expect(JSON.parse(seen[0]?.doc ?? "")).toMatchObject({ _id: "doc-0", text: "käse 😀 doc-0" });
  });

  test("carries conflicts, deleted conflicts and local sequences only when they are wanted", async () => {
    couch.put({ _id: "a", _rev: "2-a", _conflicts: ["1-x"], _deleted_conflicts: ["1-y"] });
    couch.put({ _id: "b", _rev: "1-b", _deleted: true });
    const wanting = async (wants: object): Promise<string[]> => {
      const source = open();
      source.configure({ conflicts: false, deletedConflicts: false, localSeq: false, ...wants });
      return (await drain(source)).seen.map((one) => one.doc);
    };
    const deletion = '{"_id":"b","_rev":"1-b","_deleted":true}';
    expect(await wanting({})).toEqual(['{"_id":"a","_rev":"2-a"}', deletion]);
    expect(await wanting({ conflicts: true })).toEqual([
      '{"_id":"a","_rev":"2-a","_conflicts":["1-x"]}',
      deletion,
    ]);
    expect(await wanting({ conflicts: true, deletedConflicts: true, localSeq: true })).toEqual([
      '{"_id":"a","_rev":"2-a","_conflicts":["1-x"],"_deleted_conflicts":["1-y"],"_local_seq":7}',
      deletion,
    ]);
  });

  test("knows how much is to come", async () => {
    fill(12);
    expect(await open().extent(undefined)).toEqual({ changes: 12 });
    expect(await open().extent('"10-x"')).toEqual({ changes: 2 });
    expect(await open().extent('"12-x"')).toEqual({ changes: 0 });
  });
});

describe("following a database", () => {
  async function take(feed: AsyncGenerator<Chunk>, count: number): Promise<string[]> {
    const found: string[] = [];
    while (found.length < count) {
      const next = await feed.next();
      if (next.done === true) break;
      found.push(...ids(sliceChunk(next.value, sources[0] as CouchSource)));
    }
    return found;
  }

  test("delivers changes as they come, and after the server was away", async () => {
    const made = fill(3);
    const abort = new AbortController();
    const feed = open().changes({ until: "forever", signal: abort.signal });
    expect(await take(feed, 3)).toEqual(made);
    let waiting = take(feed, 1);
    couch.put({ _id: "live", _rev: "1-a" });
    expect(await waiting).toEqual(["live"]);
    waiting = take(feed, 2);
    couch.endFeeds();
    couch.put({ _id: "later", _rev: "1-a" });
    const { port } = couch;
    await couch.stop();
    couch.put({ _id: "offline", _rev: "1-a" });
    await couch.start(port);
    expect(await waiting).toEqual(["later", "offline"]);
    const last = rejection(take(feed, 1));
    abort.abort();
    expect(await last).toEqual(withCode("INDEXER_ABORTED"));
  });

  test("notices a connection on which nothing comes any more", async () => {
    const warnings: string[] = [];
    const source = open({ heartbeatMs: 30, onWarning: (message) => warnings.push(message) });
    const feed = source.changes({ until: "forever" });
    const waiting = take(feed, 1);
    // The fixture sends no heartbeats.
    while (warnings.length === 0) await new Promise((resolve) => setImmediate(resolve));
    couch.put({ _id: "a", _rev: "1-a" });
    expect(await waiting).toEqual(["a"]);
    expect(warnings[0]).toContain("no byte came for 90 ms");
    await feed.return();
  });

  test("ends with an error when the database was deleted and made anew", async () => {
    fill(1);
    const feed = open().changes({ until: "forever" });
    await take(feed, 1);
    const waiting = rejection(take(feed, 1));
    couch.instanceStart = "1800000000";
    while (couch.followers === 0) await new Promise((resolve) => setImmediate(resolve));
    couch.endFeeds();
    expect(await waiting).toEqual(withCode("SOURCE_CHANGED"));
  });
});

describe("the identity of a database", () => {
  test("is its server, its name and when it was made, where the server tells", async () => {
    const before = await open().identity();
    expect(before.label).toBe(couch.url());
    couch.instanceStart = "1800000000";
    expect((await open().identity()).id).not.toBe(before.id);
    couch.version = "2.3.1";
    const old = await open().identity();
    couch.instanceStart = "1900000000";
    expect(await open().identity()).toEqual(old);
  });

  test("is checked at each drain", async () => {
    fill(1);
    const source = open();
    await drain(source);
    couch.instanceStart = "1800000000";
    expect(await rejection(drain(source))).toEqual(withCode("SOURCE_CHANGED"));
  });
});

describe("refusals", () => {
  const SECRET = "pa55word";

  function expectNoSecret(error: unknown, warnings: string[] = []): void {
    const shown = [
      (error as Error).message,
      (error as Error).stack,
      JSON.stringify(error),
      ...warnings,
    ];
    expect(shown.join("\n")).not.toContain(SECRET);
  }

  test("a wrong password is said at once, without the password", async () => {
    couch.auth = { user: "anna", password: "right" };
    const error = await rejection(drain(open({}, `anna:${SECRET}@`)));
    expect(error).toEqual(withCode("SOURCE_UNAUTHORIZED"));
    expect((error as Error).message).toContain("Name or password is incorrect");
    expect(couch.requests.length).toBeLessThan(4);
    expectNoSecret(error);
    expect((await rejection(open({}, `anna:${SECRET}@`).latest())) as Error).toEqual(
      withCode("SOURCE_UNAUTHORIZED"),
    );
  });

  test("the right password works from URL, options and environment, and shows nowhere", async () => {
    couch.auth = { user: "anna b", password: `${SECRET}:ä%` };
    fill(2);
    const inUrl = open({}, `anna%20b:${encodeURIComponent(`${SECRET}:ä%`)}@`);
    expect((await drain(inUrl)).seen).toHaveLength(2);
    expect((await inUrl.identity()).label).toBe(couch.url());
    expect((await drain(open({ user: "anna b", password: `${SECRET}:ä%` }))).seen).toHaveLength(2);
    process.env["VIEWMILL_COUCHDB_USER"] = "anna b";
    process.env["VIEWMILL_COUCHDB_PASSWORD"] = `${SECRET}:ä%`;
    try {
      expect((await drain(open())).seen).toHaveLength(2);
    } finally {
      delete process.env["VIEWMILL_COUCHDB_USER"];
      delete process.env["VIEWMILL_COUCHDB_PASSWORD"];
    }
  });

  test("an unreachable server is said after a few attempts", async () => {
    const url = couch.url(`anna:${SECRET}@`);
    await couch.stop();
    const warnings: string[] = [];
    const source = new CouchSource(url, {
      backoff: FAST,
      onWarning: (message) => warnings.push(message),
    });
    const error = await rejection(drain(source));
    expect(error).toEqual(withCode("SOURCE_UNREACHABLE"));
    expect((error as Error).message).toContain("ECONNREFUSED");
    expect(warnings.length).toBeGreaterThan(1);
    expectNoSecret(error, warnings);
    await couch.start();
  });

  test("a database that is not there is said", async () => {
    couch.exists = false;
    const error = await rejection(drain(open()));
    expect(error).toEqual(withCode("SOURCE_NOT_FOUND"));
    expect((error as Error).message).toContain("/db");
  });

  test("a URL that names no database, or is none, is refused", () => {
    expect(() => new CouchSource(`http://anna:${SECRET}@127.0.0.1:1/`)).toThrow(
      withCode("SOURCE_USAGE"),
    );
    expect(() => new CouchSource(`http://anna:${SECRET}@:1/db`)).toThrow(withCode("SOURCE_USAGE"));
    expect(() => new CouchSource("http://127.0.0.1:1/db?x=1")).toThrow(withCode("SOURCE_USAGE"));
  });

  test("a server that is no CouchDB is said", async () => {
    couch.trouble = { fail: { times: 10, status: 200 } };
    expect(await rejection(drain(open()))).toEqual(withCode("SOURCE_HTTP"));
  });

  test("a row beyond the limit is refused", async () => {
    couch.put({ _id: "a", _rev: "1-a", text: "x".repeat(200_000) });
    const source = open({ lineBytesMax: 100_000 });
    expect(await rejection(drain(source))).toEqual(withCode("SOURCE_LINE_TOO_LONG"));
  });
});

describe("documents of a database", () => {
  test("come by id and revision, in the order asked", async () => {
    couch.put({ _id: "a", _rev: "1-a", n: 1 });
    couch.put({ _id: "a", _rev: "2-b", n: 2, _conflicts: ["2-x"] });
    couch.put({ _id: "d/é", _rev: "1-d", _deleted: true });
    expect(
      await open().documents([
        { id: "a" },
        { id: "nope" },
        { id: "a", rev: "1-a" },
        { id: "a", conflicts: true },
        { id: "d/é" },
        { id: "d/é", deleted: true },
        { id: "nope", deleted: true },
        { id: "d/é", rev: "1-d" },
        { id: "a", rev: "7-z" },
      ]),
    ).toEqual([
      '{"_id":"a","_rev":"2-b","n":2}',
      undefined,
      '{"_id":"a","_rev":"1-a","n":1}',
      '{"_id":"a","_rev":"2-b","n":2,"_conflicts":["2-x"]}',
      undefined,
      '{"_id":"d/é","_rev":"1-d","_deleted":true}',
      undefined,
      '{"_id":"d/é","_rev":"1-d","_deleted":true}',
      undefined,
    ]);
    expect(await open().documents([])).toEqual([]);
  });

  test("come many at once", async () => {
    const made = fill(2500);
    const found = await open().documents(made.map((id) => ({ id })));
    expect(found.map((json) => (JSON.parse(json ?? "{}") as { _id: string })._id)).toEqual(made);
    expect(couch.requests).toHaveLength(3);
  });

  test("design documents come apart", async () => {
    fill(3);
    couch.put({ _id: "_design/a", _rev: "1-a", views: {} });
    couch.put({ _id: "_design/b", _rev: "2-b", _deleted: true });
    expect(await open().designDocuments()).toEqual([
      { id: "_design/a", rev: "1-a", json: '{"_id":"_design/a","_rev":"1-a","views":{}}' },
    ]);
  });

  test("a purge asks for a rebuild; how the sequence is written does not", async () => {
    const source = open();
    const first = await source.purges(undefined);
    expect(first.reset).toBe(false);
    couch.purgeSeq = "0-other";
    expect((await source.purges(first.purgeSeq)).reset).toBe(false);
    couch.purgeSeq = "1-abc";
    expect((await source.purges(first.purgeSeq)).reset).toBe(true);
  });
});
