// What must hold where a view case says it in words.

import { expect } from "@jest/globals";

import type { ViewIndexOptions } from "../../indexer/index.js";
import type { CaseIndex } from "../helpers/case-index.js";
import type { Case, CaseReply } from "../helpers/golden-cases.js";

/** Opens the case's index, uses it and closes it. */
export type Use = (
  options: Partial<ViewIndexOptions> & { readonly inMemory?: boolean },
  use: (index: CaseIndex) => Promise<void>,
) => Promise<void>;

interface CaseRow {
  readonly id?: string;
  readonly key: unknown;
  readonly value: unknown;
}

function rowsOf(reply: CaseReply | undefined): readonly CaseRow[] {
  expect(reply?.status).toBe(200);
  return reply?.["rows"] as CaseRow[];
}

/** Ids of the rows of `v`, and what is recorded of documents that failed. */
async function isolated(index: CaseIndex): Promise<{ ids: unknown[]; failures: unknown[] }> {
  const rows = rowsOf(await index.ask({}));
  return { ids: rows.map(({ id }) => id), failures: await index.failures() };
}

/** CouchDB's way: the whole group fails, again and again, until the document is another one; what runs functions goes on. */
async function failsTheGroup(use: Use, one: Case, want: CaseReply): Promise<void> {
  for (const mapIn of ["threads", "processes"] as const)
    // A file of changes would keep the revision that fails.
    await use({ strict: true, mapIn, inMemory: true }, async (index) => {
      expect(await index.replies(one)).toEqual(one.queries ? [want, want] : [want]);

      index.database.put('{"_id":"a","k":3}');
      expect(rowsOf(await index.ask({})).map(({ id }) => id)).toEqual(["b", "a"]);
    });
}

export const viewProperties: Readonly<Record<string, (use: Use, one: Case) => Promise<void>>> = {
  "keys-control-chars-ignorable": (use, one) =>
    use({}, async (index) => {
      const [groups, found] = await index.replies(one);
      const [group, ...others] = rowsOf(groups);

      expect(others).toEqual([]);
      expect(group?.value).toBe(4);
      expect(["ab", "a\u0001b", "a\u0000b", "a\u200db"]).toContain(group?.key);
      expect(rowsOf(found).map(({ id }) => id)).toEqual(["a", "b", "c", "d"]);
    }),

  "map-throws-fatal-error": async (use, one) => {
    await failsTheGroup(use, one, { status: 500, error: "my_error", reason: "because" });
    for (const mapIn of ["threads", "processes"] as const)
      await use({ mapIn }, async (index) => {
        expect(await isolated(index)).toEqual({
          ids: ["b"],
          failures: [{ id: "a", error: "my_error" }],
        });
      });
  },

  "map-throws-fatal-string": async (use, one) => {
    const reason = "function raised 'fatal_error'";
    await failsTheGroup(use, one, { status: 500, error: "map_runtime_error", reason });
    for (const mapIn of ["threads", "processes"] as const)
      await use({ mapIn }, async (index) => {
        expect(await isolated(index)).toEqual({
          ids: ["b"],
          failures: [{ id: "a", error: "map_runtime_error" }],
        });
      });
  },

  "map-extra-statements": (use, one) =>
    use({}, async (index) => {
      const replies = await index.replies(one);

      expect(replies.map((reply) => rowsOf(reply))).toEqual([
        [{ id: "a", key: 1, value: 1 }],
        [{ id: "a", key: 2, value: 1 }],
      ]);
    }),

  "lib-module-throws": (use, one) =>
    use({}, async (index) => {
      const replies = await index.replies(one);

      expect(replies.map((reply) => rowsOf(reply))).toEqual([
        [{ id: "a", key: "failed", value: 1 }],
        [],
      ]);
      // The view that had no library is told apart from the one that did without.
      expect(await index.failures()).toHaveLength(1);
    }),

  "update-seq-reported": (use, one) =>
    use({}, async (index) => {
      const [first] = await index.replies(one);

      expect(first).toMatchObject({ total_rows: 1, offset: 0, update_seq: "2-x" });
      expect(rowsOf(first)).toEqual([{ id: "a", key: 1, value: null }]);
      index.database.put('{"_id":"b","k":2}');
      expect(await index.ask({ params: { update_seq: true, update: false } })).toEqual(first);
      expect(await index.ask({ params: { update_seq: true } })).toMatchObject({
        total_rows: 2,
        update_seq: "3-x",
      });
    }),

  "reduce-throws-null": (use, one) =>
    use({}, async (index) => {
      const [reduced, rows] = await index.replies(one);

      expect(rowsOf(reduced)).toEqual([{ key: null, value: null }]);
      expect(rowsOf(rows)).toEqual([{ id: "d0", key: "a", value: 1 }]);
    }),

  "reduce-sum-object-with-number": (use, one) =>
    use({}, async (index) => {
      const [groups] = await index.replies(one);

      expect(rowsOf(groups)).toEqual([
        { key: "x", value: 1 },
        {
          key: "y",
          value: expect.objectContaining({ error: "builtin_reduce_error", caused_by: 4 }),
        },
      ]);
    }),

  "reduce-sum-float-tolerance": (use, one) =>
    use({}, async (index) => {
      const [row, ...others] = rowsOf((await index.replies(one))[0]);

      expect(others).toEqual([]);
      expect(row?.key).toBe(1);
      expect(Math.abs((row?.value as number) - 0.6)).toBeLessThan(1e-12);
    }),

  "reduce-stats-mixed": (use, one) =>
    use({}, async (index) => {
      const [groups, whole] = await index.replies(one);
      const stats = (n: number) => ({ sum: n, count: 1, min: n, max: n, sumsqr: n * n });

      expect(rowsOf(groups)).toEqual([
        { key: 1, value: [1, 10].map(stats) },
        { key: 2, value: stats(4) },
        { key: 3, value: [1, 2, 3].map(stats) },
      ]);
      expect(whole).toEqual({ status: 500, error: "invalid_value", reason: expect.any(String) });
    }),

  "map-named-function": async (use, one) => {
    await use({}, async (index) => {
      expect(rowsOf((await index.replies(one))[0])).toEqual([{ id: "a", key: "a", value: 1 }]);
    });
    // CouchDB's engine refuses it.
    await use({ strict: true }, async (index) => {
      expect(await index.replies(one)).toEqual([
        { status: 400, error: "compilation_error", reason: expect.stringContaining("'v' view") },
      ]);
    });
  },

  "map-async-function": async (use, one) => {
    for (const strict of [false, true])
      await use({ strict }, async (index) => {
        expect(await index.replies(one)).toEqual([
          {
            status: 400,
            error: "compilation_error",
            reason: expect.stringMatching(
              /^Compilation of the map function in the 'v' view failed.*async/,
            ),
          },
        ]);
      });
  },

  "ddoc-update-during-query": async (use, one) => {
    await use({}, async (index) => {
      const [before, after] = await index.replies(one);

      expect(rowsOf(before).map(({ key }) => key)).toEqual([3]);
      expect(rowsOf(after).map(({ key }) => key)).toEqual([6]);
    });
    // And in the middle of many queries: each answers from the old index or from the new one, those asked later only from the new.
    await use({}, async (index) => {
      const [, { put: [changed] = [] } = {}] = one.steps ?? [];
      const early = Array.from({ length: 8 }, () => index.ask({}));
      index.database.put(JSON.stringify(changed));
      const late = Array.from({ length: 8 }, () => index.ask({}));
      for (const reply of await Promise.all(early)) expect([3, 6]).toContain(rowsOf(reply)[0]?.key);
      for (const reply of await Promise.all(late)) expect(rowsOf(reply)[0]?.key).toBe(6);
    });
  },
};
