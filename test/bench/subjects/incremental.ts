// Random changes of documents that are indexed: how long until the index has them, durably; against two indexed tables in sqlite.

import { join } from "node:path";

import { ViewIndex } from "../../../indexer/index.js";
import { parseViewQuery, resolveViewQuery } from "../../../indexer/query/index.js";
import { ChangesFeed, type Change, type ChangeKind } from "../changes-feed.js";
import { median, short, spread, type Table } from "../numbers.js";
import { measureHere, type OwnUsage } from "../process-tree.js";
import { openSqlite, rivalVersion, type Sqlite } from "../rivals.js";
import { check, say, type Report, type Settings, type Subject } from "../subject.js";
import { verifyOpen } from "../verify-index.js";
import { designDocument, expectedOf } from "../views.js";

const SIZES: readonly (readonly [changes: number, rounds: number])[] = [
  [100, 9],
  [10_000, 9],
  [100_000, 5],
];
const WARM_UP = 2;
const KINDS: readonly ChangeKind[] = ["rows unchanged", "keys changed"];

/** The same data as a person would keep it: documents by id, and rows by key and id. */
class Tables {
  readonly #database: Sqlite;
  readonly #setDocument;
  readonly #removeRow;
  readonly #addRow;

  constructor(path: string) {
    this.#database = openSqlite(path);
    this.#database.exec(
      "CREATE TABLE documents (id TEXT PRIMARY KEY, rev TEXT, user TEXT) WITHOUT ROWID; CREATE TABLE rows (user TEXT, id TEXT, value INTEGER, PRIMARY KEY (user, id)) WITHOUT ROWID",
    );
    this.#setDocument = this.#database.prepare("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)");
    this.#removeRow = this.#database.prepare("DELETE FROM rows WHERE user = ? AND id = ?");
    this.#addRow = this.#database.prepare("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)");
  }

  load(feed: ChangesFeed): void {
    const order = feed.ids
      .map((_, i) => i)
      .sort((a, b) => ((feed.ids[a] ?? "") < (feed.ids[b] ?? "") ? -1 : 1));
    this.#database.exec("BEGIN");
    for (const i of order) this.#setDocument.run(feed.ids[i], "1", feed.userOf(i));
    const byUser = order.sort((a, b) =>
      feed.userOf(a) < feed.userOf(b) ? -1 : feed.userOf(a) > feed.userOf(b) ? 1 : 0,
    );
    for (const i of byUser) this.#addRow.run(feed.userOf(i), feed.ids[i], 1);
    this.#database.exec("COMMIT");
    this.#database.pragma("wal_checkpoint(TRUNCATE)");
  }

  apply(changes: readonly Change[]): void {
    this.#database.exec("BEGIN");
    for (const { id, rev, userBefore, user } of changes) {
      this.#setDocument.run(id, rev, user);
      if (user === userBefore) continue;
      this.#removeRow.run(userBefore, id);
      this.#addRow.run(user, id, 1);
    }
    this.#database.exec("COMMIT");
  }

  count(user: string): unknown {
    const row = this.#database
      .prepare("SELECT count(*) AS n FROM rows WHERE user = ?")
      .get(user) as { n: number };
    return row.n;
  }

  close(): void {
    this.#database.close();
  }
}

interface Line {
  readonly changes: number;
  readonly kind: ChangeKind;
  readonly ours: OwnUsage[];
  readonly theirs: OwnUsage[];
  viewRootMoved: number;
  bytesWritten: number[];
}

async function run(settings: Settings): Promise<Report> {
  const feed = await ChangesFeed.create(
    settings.dataDir,
    join(settings.workDir, "feed.ndjson"),
    settings.docs,
  );
  const index = await ViewIndex.open({
    dir: join(settings.workDir, "index"),
    source: `changes:${feed.path}`,
    designDocuments: [designDocument("one")],
    mapIn: "threads",
    threads: 2,
  });
  const tables = new Tables(join(settings.workDir, "tables.sqlite"));
  const lines: Line[] = [];
  try {
    say("  building both");
    await index.update();
    tables.load(feed);
    for (const [changes, rounds] of SIZES) {
      if (changes > settings.docs) continue;
      for (const kind of KINDS) {
        const line: Line = {
          changes,
          kind,
          ours: [],
          theirs: [],
          viewRootMoved: 0,
          bytesWritten: [],
        };
        for (let round = -WARM_UP; round < rounds; round++) {
          const made = feed.make(changes, kind);
          feed.append(made);
          const before = await stateOf(index);
          const ours = await measureHere(() => index.update());
          const after = await stateOf(index);
          check(
            ours.result.mapped === changes,
            `${ours.result.mapped} documents mapped, not ${changes}`,
          );
          const theirs = await measureHere(() => {
            tables.apply(made);
          });
          if (round < 0) continue;
          line.ours.push(ours);
          line.theirs.push(theirs);
          line.bytesWritten.push(after.bytes - before.bytes);
          if (after.version !== before.version) line.viewRootMoved++;
        }
        if (kind === "rows unchanged")
          check(line.viewRootMoved === 0, "view nodes were written though no row changed");
        say(`  ${changes} ${kind}: ${spread(line.ours.map(({ wallMs }) => wallMs))} ms`);
        lines.push(line);
      }
    }
    await verifyOpen(index, "one", expectedOf(feed.base, "one", feed.latest));
    const answer = await index.query("one", "by_user", { key: "u1", update: "false" });
    check(
      (await answer.object()).rows[0]?.value === tables.count("u1"),
      "sqlite counts other rows",
    );
  } finally {
    tables.close();
    await index.close();
  }
  return report(lines, settings);
}

async function stateOf(index: ViewIndex): Promise<{ version: string; bytes: number }> {
  const found = await index.findView("one", "by_user");
  const query = resolveViewQuery(parseViewQuery([["update", "false"]]), found.shape);
  const { version, release } = await index.prepare(found, query);
  release();
  const { groups } = await index.info();
  return { version, bytes: groups[0]?.sizes.file ?? 0 };
}

function report(lines: readonly Line[], settings: Settings): Report {
  const table: Table = {
    title: `Changes into ${settings.docs.toLocaleString("en-US")} documents of 250 B`,
    head: [
      "changes",
      "what changes",
      "viewmill ms",
      "CPU ms",
      "µs/change",
      "sqlite ms",
      "CPU ms",
      "viewmill / sqlite",
      "MB written",
      "view nodes written",
    ],
    rows: lines.map(({ changes, kind, ours, theirs, viewRootMoved, bytesWritten }) => [
      changes.toLocaleString("en-US"),
      kind,
      spread(ours.map(({ wallMs }) => wallMs)),
      spread(ours.map(({ cpuMs }) => cpuMs)),
      short((median(ours.map(({ wallMs }) => wallMs)) * 1000) / changes),
      spread(theirs.map(({ wallMs }) => wallMs)),
      spread(theirs.map(({ cpuMs }) => cpuMs)),
      short(median(ours.map(({ wallMs }, i) => wallMs / (theirs[i]?.wallMs ?? NaN)))),
      short(median(bytesWritten) / 1e6),
      viewRootMoved === 0 ? "none" : `in ${viewRootMoved} of ${ours.length}`,
    ]),
  };
  return {
    about: `Random documents of an index of \`emit(doc.user, 1)\` with \`_count\` change: an amount that no row shows, or the user, which is the key. Timed: \`index.update()\` in-process, the index open and two threads warm (${WARM_UP} rounds before), from reading the feed to the synced commit. Beside it, in turn, the same changes, already parsed, as one transaction of ${rivalVersion("better-sqlite3")} on \`documents(id, user)\` and \`rows(user, id, value)\`, WITHOUT ROWID, WAL, synchronous=FULL. At the end all rows and groups equal a naive computation over the changed documents, and sqlite agrees on a sample.`,
    tables: [table],
    notes: [],
    data: { lines },
  };
}

export const incremental: Subject = { title: "Incremental updates", run };
