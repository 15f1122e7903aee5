// Every view case that records answers, asked in this process over a changes file that grows as the case says.

import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, describe, expect, test } from "@jest/globals";

import { MappingRuntime, ViewIndex } from "../../indexer/index.js";
import { CaseIndex, failureOf } from "../helpers/case-index.js";
import { CaseDatabase } from "../helpers/case-database.js";
import {
  caseOf,
  casesOf,
  documentsOf,
  queriesOf,
  recordedMembers,
  withoutRevisions,
  type Case,
  type CaseReply,
} from "../helpers/golden-cases.js";
import { sameAnswer } from "../helpers/golden.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

const runtime = new MappingRuntime({
  mapIn: "threads",
  server: undefined,
  threads: 1,
  timeoutMs: 5000,
  heapMb: 512,
  memoryMb: 1024,
});

afterAll(() => runtime.close());

function recorded(one: Case): CaseReply[] {
  return ((one.expected?.["results"] as CaseReply[] | undefined) ?? [one.expected]) as CaseReply[];
}

/** Where the replies are not as recorded. */
function differences(want: readonly CaseReply[], got: readonly CaseReply[]): unknown[] {
  expect(got).toHaveLength(want.length);
  return want.flatMap((reply, i) => {
    const told = withoutRevisions(recordedMembers(reply, got[i] as CaseReply));
    return sameAnswer(withoutRevisions(reply), told) ? [] : [{ query: i, want: reply, got: told }];
  });
}

async function opened<T>(
  one: Case,
  options: Parameters<typeof CaseIndex.open>[1],
  use: (index: CaseIndex) => Promise<T>,
): Promise<T> {
  const index = await CaseIndex.open(one, { runtime, ...options });
  try {
    return await use(index);
  } finally {
    await index.close();
  }
}

const all = casesOf("answers");
const refused = all.filter((one) => one.expected?.["ddoc_put"] !== undefined);
const special = new Set([
  ...refused.map(({ id }) => id),
  "keys-empty-array",
  "docs-lone-surrogate-rejected",
  "signature-ignores-unrelated-fields",
]);
const plain = all.filter(({ id }) => !special.has(id));

function named(cases: readonly Case[]): [string, Case][] {
  return cases.map((one) => [one.id, one]);
}

describe("answers as CouchDB gave them", () => {
  test.each(named(plain))("%s", async (_id, one) => {
    const inMemory = one.steps?.some(({ purge }) => purge !== undefined) ?? false;
    await opened(one, { inMemory }, async (index) => {
      const replies = await index.replies(one);

      expect(differences(recorded(one), replies)).toEqual([]);
      if (one.expected_text)
        expect(index.texts.map((text) => text?.replace(/[\r\n]/g, ""))).toEqual(one.expected_text);
    });
  });

  test("keys-empty-array", async () => {
    const one = caseOf("keys-empty-array");
    const queries = queriesOf(one);
    const want = recorded(one);
    const [everything] = want.splice(
      queries.findIndex(({ all_docs: allDocs }) => allDocs),
      1,
    );
    const views = { ...one, queries: queries.filter(({ all_docs: allDocs }) => !allDocs) };
    await opened(views, {}, async (index) => {
      expect(differences(want, await index.replies(views))).toEqual([]);
    });

    // There is no _all_docs; a view over all documents takes its place, whose offset is a number.
    const map = "function (doc) { emit(doc._id, { rev: doc._rev }); }";
    const design = { _id: "_design/t", views: { v: { map } }, options: { include_design: true } };
    await opened(one, { designDocuments: [design] }, async (index) => {
      const reply = await index.ask({ params: { keys: [] } });

      expect(reply).toEqual({ ...everything, offset: 0 });
    });
  });

  test("docs-lone-surrogate-rejected", async () => {
    const one = caseOf("docs-lone-surrogate-rejected");
    const [want] = recorded(one);
    const { put_errors: refusals, ...reply } = want as CaseReply;
    expect(refusals).toHaveLength(1);

    // As CouchDB has it: it refuses the document.
    const kept = { ...one, docs: documentsOf(one).filter((json) => !json.includes("\\ud83d")) };
    await opened(kept, {}, async (index) => {
      expect(differences([reply], await index.replies(kept))).toEqual([]);
    });
    // And where a source hands it over.
    await opened(one, {}, async (index) => {
      const [got] = await index.replies(one);

      expect(got?.["rows"]).toEqual([
        { id: "b", key: "ok", value: null },
        { id: "a", key: "\ufffd", value: null },
      ]);
      expect(await index.ask({ params: { key: "\ufffd" } })).toMatchObject({
        rows: [{ id: "a" }],
      });
    });
  });
});

describe("design documents that CouchDB does not take", () => {
  test.each(named(refused))("%s", async (_id, one) => {
    const { status, error, reason } = one.expected?.["ddoc_put"] as CaseReply;
    const want = {
      status,
      error,
      // A recorded reason is exact; what the property says of the others is their beginning.
      reason:
        reason ?? expect.stringContaining("Compilation of the map function in the 'v' view failed"),
    };

    const given = await ViewIndex.open({
      dir: tempDir(),
      designDocuments: [{ ...one.ddoc, _id: "_design/t" }],
      runtime,
    }).catch(failureOf);

    expect(given).toEqual(want);
    await opened(one, {}, async (index) => {
      expect(await index.replies(one)).toEqual([want]);
    });
  });
});

test("signature-ignores-unrelated-fields", async () => {
  const one = caseOf("signature-ignores-unrelated-fields");
  const same: Record<string, boolean> = {};
  for (const { name, ddoc, other = false } of one.variants ?? []) {
    const dir = tempDir();
    const feed = join(dir, "feed.ndjson");
    writeFileSync(feed, "");
    const database = new CaseDatabase(feed);
    for (const json of documentsOf(one)) database.put(json);
    database.put(JSON.stringify({ ...one.ddoc, _id: "_design/t" }));
    const place = join(dir, "index");
    const index = await ViewIndex.open({ dir: place, source: `changes:${feed}`, runtime });
    try {
      await index.update();
      const before = (await index.signatures()).get("_design/t");
      const id = other ? "_design/other" : "_design/t";
      database.put(JSON.stringify({ ...ddoc, _id: id }));
      const { mapped } = await index.update();
      same[name] = (await index.signatures()).get(id) === before;

      // Another signature is another file, and maps all documents.
      const files = readdirSync(place).filter((file) => file.endsWith(".vmx"));
      expect([name, files.length, mapped > 0]).toEqual([name, same[name] ? 1 : 2, !same[name]]);
    } finally {
      await index.close();
    }
  }

  expect(same).toEqual(one.expected?.["same_index_as_base"]);
});
