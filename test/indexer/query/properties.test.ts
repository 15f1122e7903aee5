// Any parameters, however wrong, give an answer or a specified error; any answer is the one a plain filter over all rows gives.

import fc from "fast-check";
import { describe, expect, test } from "@jest/globals";
import { encodeKeyText } from "../../../indexer/collation/index.js";
import {
  parseViewQuery,
  PARAMETER_NAMES,
  parseViewBody,
  QueryError,
  resolveViewQueries,
  resolveViewQuery,
  runViewQuery,
} from "../../../indexer/query/index.js";
import {
  arrayElements,
  cutArray,
  objectMembers,
  sameTerm,
} from "../../../indexer/query/json-slices.js";
import { answerOf } from "../../helpers/ask-view.js";
import { compareBytes } from "../../helpers/memory-tree.js";
import { storeTree } from "../../helpers/store-tree.js";
import { modelView, type EmittedRow, type ModelOptions } from "../../helpers/view-model.js";

const runs = { numRuns: Number(process.env["TEST_RUNS"] ?? 200) };

const key = fc.oneof(
  fc.constantFrom(null, true, false, "", "a", "A", "b"),
  fc.integer({ min: 0, max: 3 }),
  fc.array(fc.constantFrom(1, 2, "a"), { maxLength: 3 }),
  fc.constantFrom({}, { a: 1 }),
);
const id = fc.constantFrom("a", "b", "c", "d");
const rows = fc.array(
  fc.record({
    id,
    key: key.map((k) => JSON.stringify(k)),
    value: fc.integer({ min: 0, max: 9 }).map(String),
  }),
  { maxLength: 40 },
);

describe("parameters", () => {
  const value = fc.oneof(
    fc.constantFrom(
      "",
      "true",
      "FALSE",
      "lazy",
      "ok",
      "-1",
      "0",
      "3",
      "1e3",
      "[]",
      '["a"]',
      '["a",1]',
      "[1,",
      "{}",
      "null",
    ),
    fc.json(),
    fc.string(),
    fc.string({ unit: "binary" }),
  );
  const names = fc.oneof(fc.constantFrom(...PARAMETER_NAMES), fc.string());

  test("of any kind give an answer or a specified error", async () => {
    const views = [
      await modelView([{ id: "a", key: '"a"', value: "1" }]),
      await modelView([{ id: "a", key: '"a"', value: "1" }], { reduce: "_sum", collation: "raw" }),
    ];
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(names, value)),
        fc.option(fc.oneof(fc.json(), fc.string())),
        async (params, body) => {
          for (const view of views) {
            try {
              const parsed = parseViewQuery(
                params,
                body === null ? undefined : parseViewBody(body),
              );
              const answer = await runViewQuery(
                resolveViewQuery(parsed, view),
                view.context,
              ).object();
              expect(Array.isArray(answer.rows)).toBe(true);
            } catch (error) {
              expect(error).toBeInstanceOf(QueryError);
              expect(error).toMatchObject({ status: 400, reason: expect.any(String) });
            }
          }
        },
      ),
      runs,
    );
  });

  test("in bodies of several queries likewise", async () => {
    const view = await modelView([]);
    const entry = fc.oneof(fc.jsonValue(), fc.dictionary(names, fc.jsonValue()));
    fc.assert(
      fc.property(fc.array(entry), (queries) => {
        try {
          expect(resolveViewQueries([], JSON.stringify({ queries }), view)).toHaveLength(
            queries.length,
          );
        } catch (error) {
          expect(error).toBeInstanceOf(QueryError);
        }
      }),
      runs,
    );
  });
});

describe("slices of JSON", () => {
  const blanks = fc.constantFrom(undefined, 1, "\t");

  test("are the parts of what JSON.parse sees, whatever the blanks", () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), blanks, (list, space) => {
        const parts = arrayElements(` ${JSON.stringify(list, null, space)}\n`);
        expect(parts.map((part) => JSON.parse(part) as unknown)).toEqual(
          JSON.parse(JSON.stringify(list)),
        );
      }),
      runs,
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string(), fc.jsonValue())), blanks, (list, space) => {
        const gap = space === undefined ? "" : "\n ";
        const text = `{${list.map(([n, v]) => `${gap}${JSON.stringify(n)}${gap}:${gap}${JSON.stringify(v, null, space)}`).join(",")}}`;
        const members = objectMembers(text);
        expect(members.map(([name, json]) => [name, JSON.parse(json) as unknown])).toEqual(
          JSON.parse(JSON.stringify(list)),
        );
      }),
      runs,
    );
  });

  test("of the first elements are what slice gives", () => {
    fc.assert(
      fc.property(
        fc.array(fc.jsonValue(), { minLength: 1 }),
        fc.integer({ min: 1, max: 5 }),
        (list, count) => {
          expect(cutArray(JSON.stringify(list), count)).toBe(JSON.stringify(list.slice(0, count)));
        },
      ),
      runs,
    );
    expect(cutArray("[]", 1)).toBe("[]");
    expect(cutArray('"[1,2]"', 1)).toBe('"[1,2]"');
  });

  test("are the same term however they are written, not when members change places", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (json) => {
        expect(sameTerm(JSON.stringify(json), JSON.stringify(json, null, 2))).toBe(true);
      }),
      runs,
    );
    expect(sameTerm('{"a":1,"b":2}', '{"b":2,"a":1}')).toBe(false);
    expect(sameTerm('"\\u0061"', '"a"')).toBe(true);
    expect(sameTerm("1", "1.0")).toBe(false);
    expect(sameTerm("1.0", "10e-1")).toBe(true);
  });
});

/** All rows in scan order as a query without parameters shows them, with what ranges are made of. */
interface PlainRow {
  readonly key: string;
  readonly id: string;
  readonly value: string;
}

describe("answers", () => {
  /** Leaves of a plain tree, or the storage engine's. */
  const trees: fc.Arbitrary<ModelOptions> = fc.oneof(
    fc.integer({ min: 1, max: 6 }).map((leafEntries) => ({ leafEntries })),
    fc.constant({ tree: storeTree }),
  );
  const query = fc.record(
    {
      startkey: key,
      endkey: key,
      startkey_docid: id,
      endkey_docid: id,
      inclusive_end: fc.boolean(),
      descending: fc.boolean(),
      skip: fc.nat({ max: 50 }),
      limit: fc.nat({ max: 50 }),
      keys: fc.array(key, { minLength: 2, maxLength: 4 }),
    },
    { requiredKeys: [] },
  );
  const bytesOf = (json: string): Uint8Array => encodeKeyText("root", json);

  interface Wanted {
    startkey?: unknown;
    endkey?: unknown;
    startkey_docid?: string;
    endkey_docid?: string;
    inclusive_end?: boolean;
    descending?: boolean;
  }

  function parametersOf(wanted: object): string {
    return Object.entries(wanted)
      .map(
        ([name, value]) =>
          `${name}=${typeof value === "string" && name.endsWith("docid") ? value : JSON.stringify(value)}`,
      )
      .join("&");
  }

  /** VIEWS §9 for one row, said once more: no byte ranges. */
  function inRange(row: PlainRow, q: Wanted): boolean {
    const sign = q.descending === true ? -1 : 1;
    const against = (bound: unknown, docId: string | undefined, openId: number): number => {
      const byKey = compareBytes(bytesOf(row.key), bytesOf(JSON.stringify(bound)));
      if (byKey !== 0) return sign * byKey;
      if (docId === undefined) return openId;
      return sign * compareBytes(Buffer.from(row.id), Buffer.from(docId));
    };
    if ("startkey" in q && against(q.startkey, q.startkey_docid, 0) < 0) return false;
    if (!("endkey" in q)) return true;
    const end = against(q.endkey, q.endkey_docid, 0);
    return q.inclusive_end === false ? end < 0 : end <= 0;
  }

  test("of map queries are a filter over all rows, cut by skip and limit", async () => {
    await fc.assert(
      fc.asyncProperty(rows, query, trees, async (emitted: EmittedRow[], q, tree) => {
        const wanted: Wanted = { ...q };
        if (q.keys) {
          delete wanted.startkey;
          delete wanted.endkey;
        }
        const view = await modelView(emitted, tree);
        const all = (
          await answerOf(view, `descending=${String(q.descending === true)}`).object()
        ).rows.map((row) => ({
          id: row.id ?? "",
          key: JSON.stringify(row.key),
          value: JSON.stringify(row.value),
        }));
        let answer;
        try {
          answer = await answerOf(view, parametersOf(wanted)).object();
        } catch (error) {
          expect(error).toMatchObject({
            reason: expect.stringContaining("No rows can match your key range"),
          });
          return;
        }
        const lists = q.keys
          ? (q.descending === true ? q.keys.toReversed() : q.keys).map((k) =>
              all.filter((row) => inRange(row, { ...wanted, startkey: k, endkey: k })),
            )
          : [all.filter((row) => inRange(row, wanted))];
        const skip = q.skip ?? 0;
        const matching = lists.flat().slice(skip, skip + (q.limit ?? Infinity));
        expect(answer.total_rows).toBe(all.length);
        expect(
          answer.rows.map((row) => [row.id, JSON.stringify(row.key), JSON.stringify(row.value)]),
        ).toEqual(matching.map((row) => [row.id, row.key, row.value]));
        const first = lists.find((list) => list.length > 0)?.[0];
        if (first) expect(answer.offset).toBe(Math.min(all.length, all.indexOf(first) + skip));
      }),
      runs,
    );
  });

  test("of reduce queries group the rows that the map query shows", async () => {
    const grouping = fc.constantFrom("", "group=true", "group_level=1", "group_level=2");
    await fc.assert(
      fc.asyncProperty(rows, query, grouping, trees, async (emitted, q, group, tree) => {
        const { startkey, endkey, descending, inclusive_end, skip = 0, limit = Infinity } = q;
        const range = parametersOf(
          Object.fromEntries(
            Object.entries({ startkey, endkey, descending, inclusive_end }).filter(
              ([, value]) => value !== undefined,
            ),
          ),
        );
        const view = await modelView(emitted, { ...tree, reduce: "_sum" });
        let mapped;
        try {
          mapped = (await answerOf(view, `reduce=false&${range}`).object()).rows;
        } catch (error) {
          expect(error).toBeInstanceOf(QueryError);
          return;
        }
        const level =
          group === "" ? 0 : group === "group=true" ? Infinity : Number(group.slice(-1));
        const sums = new Map<string, number>();
        for (const row of mapped) {
          const whole = row.key;
          const shown =
            level === 0
              ? null
              : Array.isArray(whole)
                ? (whole as unknown[]).slice(0, level)
                : whole;
          const name = JSON.stringify(shown);
          sums.set(name, (sums.get(name) ?? 0) + Number(row.value));
        }
        const cut = `${limit === Infinity ? "" : `&limit=${limit}`}&skip=${skip}`;
        const answer = await answerOf(view, `${group}&${range}${cut}`).object();
        expect(answer.rows.map((row) => [JSON.stringify(row.key), row.value])).toEqual(
          [...sums].slice(skip, skip + limit),
        );
      }),
      runs,
    );
  });
});
