// A sound index is proved; whatever is wrong with one is found, all of it, with its place.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { describe, expect, test } from "@jest/globals";
import { execa } from "execa";

import { Store, type TreeOp } from "../../../btree/index.js";
import { encodeKeyText } from "../../../indexer/collation/index.js";
import { ViewIndex, type GroupVerification } from "../../../indexer/index.js";
import { errorKey } from "../../../indexer/views/error-entry.js";
import { groupReducers } from "../../../indexer/views/group-reducers.js";
import { encodeIdEntry, rowKey } from "../../../indexer/views/id-entry.js";
import { encodeRowValue } from "../../../indexer/views/row-value.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const program = fileURLToPath(new URL("../../../indexer/cli/main.js", import.meta.url));

const MAP_ONLY = {
  _id: "_design/plain",
  views: {
    v: {
      map: "function (doc) { if (doc.bad) throw new Error('bad'); emit(doc.k, doc.n); emit(doc.k, 2); emit([doc._id], 'é'); }",
    },
  },
};
const REDUCING = {
  _id: "_design/reducing",
  views: {
    sums: { map: "function (doc) { if (doc.n) emit([doc.k, doc._id], doc.n); }", reduce: "_sum" },
    custom: {
      map: "function (doc) { if (doc.n) emit(doc.k, doc.n); }",
      reduce: "function (k, v) { return sum(v); }",
    },
    raw: {
      map: "function (doc) { emit({ z: doc.k, a: [doc.n] }, null); }",
      options: { collation: "raw" },
    },
  },
};

function lines(from: number, to: number, salt: number): string {
  let text = "";
  for (let i = from; i < to; i++)
    text += `${JSON.stringify({ _id: `doc-${i}`, k: (i * 7) % 50, n: i % 9 === 0 ? 0 : i + salt, ...(i % 10 === salt ? { bad: true } : {}) })}\n`;
  return text;
}

async function built(designs: object[], documents = 2000): Promise<string> {
  const dir = tempDir();
  const log = join(dir, "log.ndjson");
  const place = join(dir, "index");
  writeFileSync(log, lines(0, documents, 0));
  const index = await ViewIndex.open({
    dir: place,
    source: log,
    designDocuments: designs,
    mapIn: "threads",
    threads: 1,
  });
  await index.update();
  writeFileSync(log, lines(documents / 4, documents, 1));
  await index.update();
  await index.close();
  // Tests damage and count nodes: none of the ids is to wait in the log.
  const store = await Store.open(fileOf(place), {
    mode: "write",
    reducers: groupReducers.countsOnly,
  });
  await store.settle();
  await store.commit({ sync: false });
  await store.close();
  return place;
}

async function verified(dir: string): Promise<readonly GroupVerification[]> {
  const index = await ViewIndex.open({ dir, readOnly: true, mapIn: "threads", threads: 1 });
  try {
    return await index.verify();
  } finally {
    await index.close();
  }
}

function fileOf(dir: string): string {
  return join(dir, readdirSync(dir).find((name) => name.endsWith(".vmx")) ?? "");
}

/** Writes into the trees behind the index's back. Only for groups without reduces. */
async function tamper(dir: string, changes: Record<string, TreeOp[]>): Promise<void> {
  const store = await Store.open(fileOf(dir), {
    mode: "write",
    reducers: groupReducers.countsOnly,
  });
  await store.apply(new Map(Object.entries(changes)), store.state);
  await store.commit({ sync: true });
  await store.close();
}

const id = (name: string): Uint8Array => Buffer.from(name);
const row = (key: string, name: string): Uint8Array => rowKey(encodeKeyText("root", key), id(name));
const value = (json: string): Uint8Array =>
  encodeRowValue({ keyText: undefined, values: [Buffer.from(json)] });

describe("verifying an index", () => {
  test("proves what builds and updates made", async () => {
    const dir = await built([MAP_ONLY, REDUCING]);
    const reports = await verified(dir);
    expect(reports).toHaveLength(2);
    for (const report of reports) expect(report.faults).toEqual([]);
    expect(reports[0]?.trees.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["ids", "errors", "view:0"]),
    );
    const { stdout, exitCode } = await execa(process.execPath, [program, "verify", dir]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("_design/plain");
    expect(stdout.match(/sound: /g)).toHaveLength(2);
  });

  test("finds every row, id and error record that lacks its counterpart", async () => {
    const dir = await built([MAP_ONLY]);
    await tamper(dir, {
      "view:0": [
        { key: row("14", "doc-502"), value: undefined },
        { key: row("8", "doc-600"), value: value("1") },
        { key: row("9", "nobody"), value: value("1") },
      ].sort((a, b) => Buffer.compare(a.key, b.key)),
      ids: [
        { key: id("doc-700"), value: encodeIdEntry(0, new Uint8Array(8), []) },
        { key: id("doc-799"), value: encodeIdEntry(1, new Uint8Array(8), []) },
        { key: id("doc-900"), value: undefined },
      ],
      errors: [
        { key: errorKey(id("doc-503"), 0), value: Buffer.from('{"id":"doc-503"}') },
        { key: errorKey(id("stranger"), 0), value: Buffer.from('{"id":"stranger"}') },
      ],
    });
    const [report] = await verified(dir);
    const told = (report?.faults ?? []).map(
      ({ tree, what }) => `${tree ?? ""}: ${what.replace(/^entry \d+ \(key [0-9a-f…]*\): /, "")}`,
    );
    expect(told.sort()).toEqual(
      [
        'ids: document "doc-502" has no row for v 14',
        'view:0: the row 8 of document "doc-600", which its id entry does not list',
        'view:0: the row 9 of document "nobody", which the id tree does not have',
        'view:0: the row 0 of document "doc-700", which its id entry does not list',
        'view:0: the row ["doc-700"] of document "doc-700", which its id entry does not list',
        'ids: document "doc-799" is flagged as failing and has no error record',
        'view:0: the row 43 of document "doc-799", which its id entry does not list',
        'view:0: the row ["doc-799"] of document "doc-799", which its id entry does not list',
        'view:0: the row 0 of document "doc-900", which the id tree does not have',
        'view:0: the row ["doc-900"] of document "doc-900", which the id tree does not have',
        'errors: an error record of document "doc-503", which is not flagged as failing',
        'errors: the error record of document "stranger", which the id tree does not have',
      ].sort(),
    );
    for (const { offset } of report?.faults ?? []) expect(offset).toBeGreaterThan(12_287);
  });

  test("finds entries that break their format", async () => {
    const dir = await built([MAP_ONLY]);
    const dropped = (key: string, json: string): Uint8Array =>
      encodeRowValue({ keyText: Buffer.from(key), values: [Buffer.from(json)] });
    const droppedRows = [
      ["doc-1995", { tree: 0, row: dropped("4", "1") }],
      ["doc-1996", { tree: 1, row: dropped("3", "1") }],
      ["doc-1997", { tree: 0, row: dropped("3", '{"cut":') }],
      ["doc-1998", { tree: 0, row: value("1") }],
    ] as const;
    await tamper(dir, {
      "view:0": [{ key: row("7", "doc-501"), value: value('{"cut":') }],
      ids: [
        ...droppedRows.map(([name, dropped]) => ({
          key: id(name),
          value: encodeIdEntry(0, new Uint8Array(8), [{ tree: 0, key: encodeKeyText("root", "3") }], [dropped]), // prettier-ignore
        })),
        { key: id("doc-1999"), value: new Uint8Array(3) },
      ],
    });
    const [report] = await verified(dir);
    const told = (report?.faults ?? [])
      .map(({ tree, what }) => `${tree ?? ""}: ${what}`)
      .join("\n");
    expect(told).toMatch(/view:0: .*its value cannot be understood: SyntaxError/);
    expect(told).toMatch(/ids: .*the id entry is too short/);
    expect(told).toMatch(/a dropped row of document "doc-1995" displaces no row that there is/);
    expect(told).toMatch(/a dropped row of document "doc-1996" is of a tree that has none/);
    expect(told).toMatch(/ids: .*646f632d31393937.*its value cannot be understood: SyntaxError/);
    expect(told).toMatch(/a dropped row of document "doc-1998" has no key/);
  });

  test("a damaged node, a foreign file and a missing one are faults, told with exit 1", async () => {
    const dir = await built([REDUCING], 400);
    const path = fileOf(dir);
    const sound = readFileSync(path);
    const store = await Store.open(path, { mode: "read", reducers: groupReducers.countsOnly });
    const { offset = 0, size = 0 } = store.snapshot().tree("ids").root ?? {};
    await store.close();
    const damaged = Buffer.from(sound);
    damaged.writeUInt8(damaged.readUInt8(offset + size - 3) ^ 4, offset + size - 3);
    writeFileSync(path, damaged);
    const run = await execa(process.execPath, [program, "verify", dir, "reducing", "--json"], {
      reject: false,
    });
    expect(run.exitCode).toBe(1);
    const { ok, files } = JSON.parse(run.stdout) as { ok: boolean; files: GroupVerification[] };
    expect(ok).toBe(false);
    expect(files[0]?.faults).toEqual([expect.objectContaining({ offset, tree: "ids" })]);
    const plain = await execa(process.execPath, [program, "verify", dir], { reject: false });
    expect(plain.exitCode).toBe(1);
    expect(plain.stdout).toContain(`fault at byte ${offset} in ids: `);

    const other = await built([MAP_ONLY], 400);
    writeFileSync(path, readFileSync(fileOf(other)));
    expect((await verified(dir))[0]?.faults.map(({ what }) => what)).toContainEqual(
      expect.stringMatching(/^the file belongs to the group/),
    );

    rmSync(path);
    expect((await verified(dir))[0]?.faults).toEqual([
      expect.objectContaining({ offset: 0, what: expect.stringContaining("does not exist") }),
    ]);
  });

  test("can be stopped", async () => {
    const dir = await built([MAP_ONLY], 400);
    const index = await ViewIndex.open({ dir, readOnly: true });
    await expect(index.verify(undefined, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "INDEXER_ABORTED",
    });
    await index.close();
  });
});

describe("viewmill info --tree", () => {
  test("tells how many operations wait in the log of each tree, also after a compaction while the program runs", async () => {
    const dir = tempDir();
    const source = join(dir, "log.ndjson");
    const place = join(dir, "index");
    writeFileSync(source, lines(0, 200, 0));
    const index = await ViewIndex.open({
      dir: place,
      source,
      designDocuments: [MAP_ONLY],
      mapIn: "threads",
      threads: 1,
    });
    const waiting = async (): Promise<unknown> => {
      const args = [program, "info", place, "--tree"];
      const table = (await execa(process.execPath, args)).stdout;
      return /^tree .* waiting\s[^]*^ids .* (\d+)$/m.exec(table)?.[1];
    };
    await index.update();
    expect(await waiting()).toBe("0");
    writeFileSync(source, lines(0, 200, 0).replace(/"k":0/g, '"k":1'));
    await index.update();
    expect(await waiting()).toBe("4");
    await index.compact();
    expect(await waiting()).toBe("0");
    writeFileSync(source, lines(0, 200, 0));
    await index.update();
    expect(await waiting()).toBe("4");
    await index.close();
  });

  test("tells how the trees are built", async () => {
    const dir = await built([MAP_ONLY]);
    const { stdout } = await execa(process.execPath, [program, "info", dir, "--tree"]);
    expect(stdout).toMatch(
      /^_design\/plain {2}.*\.vmx\n[\d,]+ bytes, [\d,]+ live, [\d,]+ dead \(\d+ %\)\ntree +depth +inner nodes +leaves +rows +entries/,
    );
    expect(stdout).toMatch(/^ids +2 +1 +\d+ +1500 +1500 +\d+/m);
    const { files } = JSON.parse(
      (await execa(process.execPath, [program, "info", dir, "--tree", "--json"])).stdout,
    ) as {
      files: {
        fileBytes: number;
        liveBytes: number;
        deadBytes: number;
        trees: { name: string }[];
      }[];
    };
    expect(files[0]?.trees.map(({ name }) => name).sort()).toEqual(["errors", "ids", "view:0"]);
    expect(files[0]?.fileBytes).toBe((files[0]?.liveBytes ?? 0) + (files[0]?.deadBytes ?? 0));
  });
});
