// include_docs: which document belongs to a row (VIEWS §12), and how documents are asked for.

import { describe, expect, test } from "@jest/globals";
import type { DocumentRequest } from "../../../indexer/sources/source.js";
import { answerOf, ask, textOf } from "../../helpers/ask-view.js";
import { documentsOf, modelView, type EmittedRow } from "../../helpers/view-model.js";

type Doc = Record<string, unknown>;

const DOCUMENTS = new Map<string, Doc>([
  ["a", { _id: "a", _rev: "2-aa", own: 1 }],
  ["b", { _id: "b", _rev: "1-bb", own: 2 }],
  ["gone", { _id: "gone", _rev: "3-gg", _deleted: true }],
]);

function row(id: string, value: unknown): EmittedRow {
  return { id, key: "1", value: JSON.stringify(value) };
}

async function docOf(id: string, value: unknown): Promise<unknown> {
  const view = await modelView([row(id, value)], { documents: documentsOf(DOCUMENTS) });
  const rows = (await ask(view, "include_docs=true")).body["rows"] as Doc[];
  return rows[0]?.["doc"];
}

describe("the document of a row", () => {
  test("is the row's own, as it is now", async () => {
    expect(await docOf("a", 5)).toEqual(DOCUMENTS.get("a"));
    expect(await docOf("a", null)).toEqual(DOCUMENTS.get("a"));
    expect(await docOf("a", "_id")).toEqual(DOCUMENTS.get("a"));
    expect(await docOf("a", [{ _id: "b" }])).toEqual(DOCUMENTS.get("a"));
    expect(await docOf("a", { deep: { _id: "b" } })).toEqual(DOCUMENTS.get("a"));
    expect(await docOf("missing", null)).toBeNull();
    expect(await docOf("gone", null)).toBeNull();
  });

  test("is the one that the value's _id names", async () => {
    expect(await docOf("a", { _id: "b" })).toEqual(DOCUMENTS.get("b"));
    expect(await docOf("a", { _id: "missing" })).toBeNull();
    expect(await docOf("a", { _id: "gone" })).toBeNull();
    expect(await docOf("a", { _id: null })).toBeNull();
    expect(await docOf("a", { _id: 5 })).toBeNull();
  });

  test("is the revision that the value's _rev names, of the named document or the row's own", async () => {
    expect(await docOf("a", { _id: "b", _rev: "1-bb" })).toEqual(DOCUMENTS.get("b"));
    expect(await docOf("a", { _id: "b", _rev: "1-xx" })).toBeNull();
    expect(await docOf("a", { _rev: "2-aa" })).toEqual(DOCUMENTS.get("a"));
    expect(await docOf("a", { _rev: "1-aa" })).toBeNull();
    expect(await docOf("a", { _rev: 7 })).toBeNull();
    expect(await docOf("a", { _id: "b", _rev: "nonsense" })).toBeNull();
  });

  test("may be a deleted revision when it is linked by id, never when it is the row's own", async () => {
    expect(await docOf("a", { _id: "gone", _rev: "3-gg" })).toEqual(DOCUMENTS.get("gone"));
    expect(await docOf("gone", { _rev: "3-gg" })).toBeNull();
  });

  test("comes after the value, as the source wrote it", async () => {
    const view = await modelView([row("a", 1)], {
      documents: () => Promise.resolve(['{"_id":"a","n":1.0}']),
    });
    expect(await textOf(answerOf(view, "include_docs=true"))).toBe(
      '{"total_rows":1,"offset":0,"rows":[\r\n{"id":"a","key":1,"value":1,"doc":{"_id":"a","n":1.0}}\r\n]}\n',
    );
  });
});

describe("asking for documents", () => {
  const many = Array.from({ length: 450 }, (_, i) =>
    row(`d${String(i).padStart(4, "0")}`, { n: i }),
  );

  test("goes in batches, and each document is asked for once in a batch", async () => {
    const calls: number[] = [];
    const view = await modelView(
      [...many, row("x", { _id: "d0000" }), row("y", { _id: "d0000" })],
      {
        documents: (requests) => {
          calls.push(requests.length);
          return Promise.resolve(requests.map(({ id }) => JSON.stringify({ _id: id })));
        },
      },
    );
    const rows = (await ask(view, "include_docs=true")).body["rows"] as { id: string; doc: Doc }[];
    expect(rows.slice(0, 450).every(({ id, doc }) => doc["_id"] === id)).toBe(true);
    expect(rows.slice(450).map(({ doc }) => doc["_id"])).toEqual(["d0000", "d0000"]);
    expect(calls.length).toBeLessThan(10);
    expect(calls.reduce((a, b) => a + b, 0)).toBe(451);
  });

  test("stops with the reader", async () => {
    let asked = 0;
    const view = await modelView(many, {
      documents: (requests) => {
        asked += requests.length;
        return Promise.resolve(requests.map(() => "{}"));
      },
    });
    for await (const page of answerOf(view, "include_docs=true").pages()) {
      expect(page.length).toBeGreaterThan(0);
      break;
    }
    expect(asked).toBeLessThan(200);
    asked = 0;
    await ask(view, "include_docs=true&skip=7&limit=3");
    expect(asked).toBe(3);
  });

  test("is asked for once as a row's own and once as a linked one, where that is not the same", async () => {
    const asked: DocumentRequest[] = [];
    const documents = (requests: readonly DocumentRequest[]): Promise<string[]> => {
      asked.push(...requests);
      return Promise.resolve(requests.map(({ attachments }) => `{"att":${attachments === true}}`));
    };
    const view = await modelView([row("a", null), row("b", { _id: "a" })], { documents });
    const { body } = await ask(view, "include_docs=true&attachments=true");
    expect((body["rows"] as Doc[]).map(({ doc }) => doc)).toEqual([{ att: true }, { att: false }]);
    expect(asked).toEqual([{ id: "a", attachments: true }, { id: "a" }]);
  });

  test("passes conflicts and attachments on for own documents only", async () => {
    const seen: DocumentRequest[] = [];
    const view = await modelView([row("a", 1), row("b", { _id: "a" })], {
      documents: (requests) => {
        seen.push(...requests);
        return Promise.resolve(requests.map(() => undefined));
      },
    });
    await ask(view, "include_docs=true&conflicts=true&attachments=true&att_encoding_info=true");
    expect(seen).toEqual([
      { id: "a", conflicts: true, attachments: true, attEncodingInfo: true },
      { id: "a" },
    ]);
    seen.length = 0;
    await ask(view, "conflicts=true&attachments=true");
    expect(seen).toEqual([]);
  });

  test("a source that fails fails the query", async () => {
    const view = await modelView(many, {
      documents: () => Promise.reject(new Error("no database")),
    });
    await expect(ask(view, "include_docs=true")).rejects.toThrow("no database");
  });
});
