// Every answer recorded from a running CouchDB, asked of the query engine over a plain in-memory index.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import {
  parseViewBody,
  parseViewQuery,
  QueryError,
  resolveViewQuery,
  runViewQuery,
} from "../../../indexer/query/index.js";
import { documentsOf, mapRows, modelView, type ModelView } from "../../helpers/view-model.js";

const FOLDER = join(process.cwd(), "test/fixtures/golden/views");

interface GoldenQuery {
  readonly ddoc: string;
  readonly view: string;
  readonly query: string;
  readonly body?: unknown;
  readonly status: number;
  readonly answer: Record<string, unknown>;
}
type Doc = Record<string, unknown>;
interface Golden {
  readonly steps: readonly {
    readonly changes: readonly {
      readonly id: string;
      readonly deleted?: boolean;
      readonly doc: Doc;
    }[];
    readonly queries: readonly GoldenQuery[];
  }[];
}
interface DesignViews {
  readonly views: Record<string, { readonly map: string; readonly reduce?: string }>;
}

/**
 * Numbers by value to 12 digits; member order counts only inside keys. Sums of great numbers that cancel out depend on where the
 * leaves of a tree end, which no one promises: those get a little more room.
 */
function same(a: unknown, b: unknown, ordered = false): boolean {
  if (typeof a === "number" && typeof b === "number") {
    return a === b || Math.abs(a - b) <= Math.max(1e-7, 1e-11 * Math.max(Math.abs(a), Math.abs(b)));
  }
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, i) => same(item, b[i], ordered));
  }
  const [left, right] = [Object.entries(a), Object.entries(b)];
  if (left.length !== right.length) return false;
  return left.every(([name, value], i) => {
    if (ordered && right[i]?.[0] !== name) return false;
    return Object.hasOwn(b, name) && same(value, (b as Doc)[name], ordered || name === "key");
  });
}

/** `require` of the one library the recorded design documents have. */
const lib = (): unknown => ({ f: (doc: Doc) => [Number(doc["i"]) % 7, doc["_id"]] });

async function views(docs: ReadonlyMap<string, Doc>, needed: ReadonlySet<string>) {
  const made = new Map<string, ModelView>();
  const mapped = [...docs.values()].filter(
    (doc) => doc["_deleted"] !== true && !String(doc["_id"]).startsWith("_design/"),
  );
  for (const name of needed) {
    const [ddoc, view] = name.split("/") as [string, string];
    const design = docs.get(`_design/${ddoc}`) as unknown as DesignViews;
    const { map, reduce } = design.views[view] as { map: string; reduce?: string };
    const rows = mapRows(map, mapped, lib);
    made.set(name, await modelView(rows, { reduce, documents: documentsOf(docs) }));
  }
  return made;
}

async function ask(view: ModelView, query: GoldenQuery) {
  try {
    const params = new URLSearchParams(query.query);
    const body = query.body === undefined ? undefined : parseViewBody(JSON.stringify(query.body));
    const resolved = resolveViewQuery(parseViewQuery(params, body), view);
    let text = "";
    for await (const chunk of runViewQuery(resolved, view.context).text()) text += chunk;
    return { status: 200, body: JSON.parse(text) as Doc };
  } catch (error) {
    if (!(error instanceof QueryError)) throw error;
    return { status: error.status, body: { error: error.error, reason: error.reason } as Doc };
  }
}

const files = existsSync(FOLDER)
  ? readdirSync(FOLDER).filter((name) => name.endsWith(".json"))
  : [];

describe("answers recorded from CouchDB", () => {
  test.each(files.length > 0 ? files : ["(no recorded cases here)"])("%s", async (file) => {
    if (files.length === 0) return;
    const golden = JSON.parse(readFileSync(join(FOLDER, file), "utf8")) as Golden;
    const docs = new Map<string, Doc>();
    const wrong: string[] = [];
    for (const step of golden.steps) {
      for (const { id, deleted, doc } of step.changes) {
        docs.set(id, deleted === true ? { ...doc, _deleted: true } : doc);
      }
      const needed = new Set(step.queries.map(({ ddoc, view }) => `${ddoc}/${view}`));
      const made = await views(docs, needed);
      for (const query of step.queries) {
        const got = await ask(made.get(`${query.ddoc}/${query.view}`) as ModelView, query);
        const { error, reason } = query.answer;
        const want = query.status === 200 ? query.answer : { error, reason };
        if (got.status === query.status && same(want, got.body)) continue;
        wrong.push(
          `${query.view}?${decodeURIComponent(query.query)} ${JSON.stringify(query.body ?? "")}: ` +
            `wanted ${JSON.stringify(want).slice(0, 2000)}, got ${JSON.stringify(got).slice(0, 2000)}`,
        );
      }
    }
    expect(wrong).toEqual([]);
  });
});
