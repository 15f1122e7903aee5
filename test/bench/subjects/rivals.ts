// The same documents and the same view in PouchDB on leveldb, in sqlite with an extracted, indexed column, and in a Map in memory.

import { join } from "node:path";

import { ViewIndex } from "../../../indexer/index.js";
import { dataFile } from "../data.js";
import { readLines } from "../lines.js";
import { Random } from "../generator.js";
import { median, short, spread, type Table } from "../numbers.js";
import { measureHere } from "../process-tree.js";
import { openPouch, openSqlite, rivalVersion } from "../rivals.js";
import { check, say, type Report, type Settings, type Subject } from "../subject.js";
import { designDocument, expectedOf, type Expected } from "../views.js";

const DOCUMENTS_MAX = 100_000;
const LOOKUPS = 50_000;
/** A PouchDB lookup takes milliseconds. */
const POUCH_LOOKUPS = 300;

/** One engine, as this bench asks it. */
interface Engine {
  readonly name: string;
  readonly lookups: number;
  /** Puts documents there; not timed as building, where documents are elsewhere anyway. */
  load(): Promise<void> | void;
  build(): unknown;
  lookup(user: string): Promise<number> | number;
  /** All groups; returns how many rows they count in all, and how many there are. */
  group(): Promise<[groups: number, rows: number]> | [groups: number, rows: number];
  close(): Promise<void> | void;
}

function viewmill(file: string, dir: string): Engine {
  let index: ViewIndex | undefined;
  const open = async (): Promise<ViewIndex> =>
    (index ??= await ViewIndex.open({
      dir,
      source: file,
      designDocuments: [designDocument("one")],
      mapIn: "threads",
      threads: 2,
    }));
  return {
    name: "viewmill, 2 threads",
    lookups: LOOKUPS,
    load: () => undefined,
    build: async () => (await open()).update(),
    lookup: async (user) => {
      const answer = await (await open()).query("one", "by_user", { key: user, reduce: false });
      return (answer.objectSync() ?? (await answer.object())).rows.length;
    },
    group: async () => {
      const answer = await (await open()).query("one", "by_user", { group: true });
      const { rows } = await answer.object();
      return [rows.length, rows.reduce((sum, { value }) => sum + (value as number), 0)];
    },
    close: async () => {
      await index?.close();
    },
  };
}

function pouchdb(file: string, dir: string): Engine {
  const database = openPouch(dir);
  return {
    name: rivalVersion("pouchdb"),
    lookups: POUCH_LOOKUPS,
    load: async () => {
      let batch: object[] = [];
      for (const line of readLines(file)) {
        batch.push(JSON.parse(line) as object);
        if (batch.length < 1000) continue;
        await database.bulkDocs(batch);
        batch = [];
      }
      await database.bulkDocs(batch);
      await database.put(designDocument("one"));
    },
    build: () => database.query("one/by_user", { reduce: false, limit: 1 }),
    lookup: async (user) =>
      (await database.query("one/by_user", { key: user, reduce: false })).rows.length,
    group: async () => {
      const { rows } = await database.query("one/by_user", { group: true });
      return [rows.length, rows.reduce((sum, { value }) => sum + (value as number), 0)];
    },
    close: () => database.close(),
  };
}

function sqlite(file: string, path: string): Engine {
  const database = openSqlite(path);
  database.exec("CREATE TABLE documents (id TEXT PRIMARY KEY, user TEXT, body TEXT) WITHOUT ROWID");
  const insert = database.prepare("INSERT INTO documents VALUES (?, ?, ?)");
  const find = database.prepare("SELECT id, 1 FROM documents WHERE user = ? ORDER BY id");
  const group = database.prepare("SELECT user, count(*) AS n FROM documents GROUP BY user");
  return {
    name: `${rivalVersion("better-sqlite3")}, parse, insert, index`,
    lookups: LOOKUPS,
    load: () => undefined,
    build: () => {
      database.exec("BEGIN");
      for (const line of readLines(file)) {
        const doc = JSON.parse(line) as { _id: string; user: string };
        insert.run(doc._id, doc.user, line);
      }
      database.exec("CREATE INDEX by_user ON documents (user, id)");
      database.exec("COMMIT");
    },
    lookup: (user) => find.all(user).length,
    group: () => {
      const rows = group.all() as { n: number }[];
      return [rows.length, rows.reduce((sum, { n }) => sum + n, 0)];
    },
    close: () => {
      database.close();
    },
  };
}

function map(file: string): Engine {
  const users = new Map<string, string[]>();
  return {
    name: "a Map in memory",
    lookups: LOOKUPS,
    load: () => undefined,
    build: () => {
      for (const line of readLines(file)) {
        const doc = JSON.parse(line) as { _id: string; user: string };
        const ids = users.get(doc.user);
        if (ids) ids.push(doc._id);
        else users.set(doc.user, [doc._id]);
      }
    },
    lookup: (user) => users.get(user)?.length ?? 0,
    group: () => {
      let rows = 0;
      for (const ids of users.values()) rows += ids.length;
      return [users.size, rows];
    },
    close: () => undefined,
  };
}

interface Figures {
  readonly name: string;
  readonly buildMs: number[];
  readonly buildCpuMs: number[];
  readonly lookupsPerSecond: number[];
  readonly groupMs: number[];
}

async function measureEngine(engine: Engine, expected: Expected, figures: Figures): Promise<void> {
  const groups = expected.views["by_user"]?.groups ?? new Map<string, number[]>();
  const users = [...groups.keys()].map((text) => JSON.parse(text) as string);
  const random = new Random(5);
  await engine.load();
  say(`  ${engine.name}: building`);
  const built = await measureHere(() => engine.build());
  figures.buildMs.push(built.wallMs);
  figures.buildCpuMs.push(built.cpuMs);
  const chosen = Array.from({ length: engine.lookups }, () => random.pick(users));
  for (const user of chosen) {
    const count = await engine.lookup(user);
    check(
      count === groups.get(JSON.stringify(user))?.[0],
      `${engine.name}: ${count} rows of ${user}`,
    );
  }
  const lookups = await measureHere(async () => {
    // No await where there is nothing to wait for: a turn of the event loop costs as much as a lookup.
    for (const user of chosen) {
      const count = engine.lookup(user);
      if (typeof count !== "number") await count;
    }
  });
  figures.lookupsPerSecond.push((engine.lookups * 1000) / lookups.wallMs);
  for (let i = 0; i < 2; i++) {
    const grouped = await measureHere(() => engine.group());
    check(
      grouped.result[0] === groups.size && grouped.result[1] === expected.views["by_user"]?.rows,
      `${engine.name}: ${grouped.result.join(" groups, ")} rows`,
    );
    if (i > 0) figures.groupMs.push(grouped.wallMs);
  }
  await engine.close();
}

async function run(settings: Settings): Promise<Report> {
  const documents = Math.min(settings.docs, DOCUMENTS_MAX);
  const file = await dataFile(settings.dataDir, documents, { seed: 1 });
  const expected = expectedOf(file, "one");
  const all: Figures[] = [];
  for (let round = 0; round < settings.rounds; round++) {
    const at = (name: string): string => join(settings.workDir, `${name}-${round}`);
    const engines = [
      viewmill(file, at("index")),
      pouchdb(file, at("pouch")),
      sqlite(file, at("sqlite")),
      map(file),
    ];
    for (const [i, engine] of engines.entries()) {
      const figures = (all[i] ??= {
        name: engine.name,
        buildMs: [],
        buildCpuMs: [],
        lookupsPerSecond: [],
        groupMs: [],
      });
      await measureEngine(engine, expected, figures);
    }
  }
  const [ours] = all;
  const times = (figures: Figures, of: (f: Figures) => number[], faster: boolean): string => {
    if (!ours || figures === ours) return "1";
    const mine = median(of(ours));
    const theirs = median(of(figures));
    return short(faster ? mine / theirs : theirs / mine);
  };
  const table: Table = {
    title: `${documents.toLocaleString("en-US")} documents of 250 B, ${(expected.views["by_user"]?.groups.size ?? 0).toLocaleString("en-US")} users`,
    head: [
      "engine",
      "build s",
      "CPU s",
      "viewmill is × faster",
      "key lookups/s",
      "× faster",
      "group=true, ms",
      "× faster",
    ],
    rows: all.map((figures) => [
      figures.name,
      spread(figures.buildMs.map((ms) => ms / 1000)),
      spread(figures.buildCpuMs.map((ms) => ms / 1000)),
      times(figures, (f) => f.buildMs, false),
      spread(figures.lookupsPerSecond),
      times(figures, (f) => f.lookupsPerSecond, true),
      spread(figures.groupMs),
      times(figures, (f) => f.groupMs, false),
    ]),
  };
  return {
    about:
      "The same documents and view everywhere: `emit(doc.user, 1)` with `_count`. Build: from the documents to an index that answers, in this process; viewmill opens the directory and starts its threads in that time, and reads the file itself, as sqlite (which also stores the documents) and the Map do; PouchDB has the documents in its database before the clock starts. Lookup: all rows of one user, users drawn evenly from all, one after the other, each answer an array of rows. Group: all users with their counts. Every answer is compared with a naive computation.",
    tables: [table],
    notes: [],
    data: { figures: all },
  };
}

export const rivals: Subject = { title: "Rivals", run };
