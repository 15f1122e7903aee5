// What custom reduces are sent: rows whole, or without keys when our own server runs a function that never looks at them.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import {
  createViewReducer,
  type JsReduceResult,
  type JsReduceRunner,
} from "../../../indexer/reducers/index.js";
import { parseReduceReply } from "../../../indexer/mapping/reduce-task.js";
import { Session } from "../../../viewserver/index.js";
import { entriesOf, rawParts, RUNS, shape, shapedParts, valueRows } from "./rows.js";

const SUM = "function (keys, values) { return sum(values) }";
const LONG = "function (keys, values) { return values.map(function () { return 'xxxxxxxxxx' }) }";
const BY_KEY = "function (keys, values) { return keys === null ? sum(values) : keys.length }";

/** A session as a runner that remembers the rows it was sent. */
class SessionRunner implements JsReduceRunner {
  readonly ours: boolean;
  readonly sent: string[] = [];
  readonly reduceValues?: (sources: readonly string[], values: string) => JsReduceResult[];
  readonly #session: Session;

  /** `bare`: takes values alone, as threads do. */
  constructor(ours: boolean, threshold = 5000, bare = false) {
    this.ours = ours;
    if (bare)
      this.reduceValues = (sources, values) => {
        this.sent.push(values);
        return parseReduceReply(this.#session.reduceValues(sources, values), sources.length);
      };
    this.#session = new Session({
      config: { reduce_limit: true, reduce_limit_threshold: threshold, reduce_limit_ratio: 2 },
    });
  }

  reduce(sources: readonly string[], rows: string): JsReduceResult[] {
    this.sent.push(rows);
    return this.#results(sources, this.#session.reduce(sources, rows));
  }

  rereduce(source: string, values: string, context?: string): JsReduceResult {
    const reply = this.#session.rereduce(source, values, context);
    return this.#results([source], reply)[0] ?? "null";
  }

  #results(sources: readonly string[], reply: ReturnType<Session["reduce"]>): JsReduceResult[] {
    const { error } = reply;
    return error ? sources.map(() => ({ overflow: error.reason })) : [...reply.results];
  }
}

function reducer(specs: readonly string[], js: JsReduceRunner) {
  return createViewReducer({ specs, collation: "root", js });
}

const ROWS = rawParts(entriesOf(valueRows([1, 2, 3])));

describe("the rows that a custom reduce is sent", () => {
  test("have no keys when our server runs a function that never looks at them", async () => {
    const js = new SessionRunner(true);
    expect(await reducer([SUM], js).evaluate(0, ROWS)).toEqual({ value: "6" });
    expect(js.sent).toEqual(["[[null,3],[null,2],[null,1]]"]);

    const bare = new SessionRunner(true, 5000, true);
    expect(await reducer([SUM], bare).evaluate(0, ROWS)).toEqual({ value: "6" });
    expect(bare.sent).toEqual(["[3,2,1]"]);
  });

  test("are what was emitted, long values and several of one key too", async () => {
    const LIST = "function (keys, values) { return values }";
    const long = JSON.stringify("é".repeat(20_000));
    const rows = rawParts(
      entriesOf([
        { key: '"A"', id: "a", values: ["1", "2"] },
        { key: '"a"', id: "b", values: [long] },
        { key: "[1.50]", id: "c", values: ["null"] },
      ]),
    );
    const [whole, ...others] = await Promise.all(
      [new SessionRunner(false), new SessionRunner(true), new SessionRunner(true, 5000, true)].map(
        async (js) => reducer([LIST], js).evaluate(0, rows),
      ),
    );
    expect(others).toEqual([whole, whole]);
  });

  test.each([
    ["of a function that looks at them", true, [BY_KEY]],
    ["of several functions, one of which looks at them", true, [SUM, BY_KEY]],
    ["for a server that is not ours", false, [SUM]],
  ])("are whole: %s", async (_what, ours, specs) => {
    const js = new SessionRunner(ours);
    const view = reducer(specs, js);
    await view.reduce?.([ROWS.slices[0] as never]);
    expect(js.sent).toHaveLength(1);
    expect(js.sent[0]).not.toContain("null");
  });

  test("are measured whole by the overflow rule", async () => {
    // 13 characters a row in the answer, twice that against some 20 with a key, or 9 without.
    const rows = rawParts(
      entriesOf(
        Array.from({ length: 40 }, (_, i) => ({
          key: `"a long key indeed ${i}"`,
          id: `id-${i}`,
          values: ["1"],
        })),
      ),
    );
    for (const [threshold, bare] of [
      [100, false],
      [100, true],
      [5000, true],
    ] as const) {
      const [ours, whole] = [
        new SessionRunner(true, threshold, bare),
        new SessionRunner(false, threshold),
      ];
      expect(await reducer([LONG], ours).evaluate(0, rows)).toEqual(
        await reducer([LONG], whole).evaluate(0, rows),
      );
    }
    const flat = rawParts(entriesOf(valueRows(Array.from({ length: 40 }, () => 1))));
    const [ours, whole] = [new SessionRunner(true, 100), new SessionRunner(false, 100)];
    const outcome = await reducer([LONG], ours).evaluate(0, flat);
    expect(outcome).toMatchObject({ error: "reduce_overflow_error" });
    expect(outcome).toEqual(await reducer([LONG], whole).evaluate(0, flat));
  });

  test("with or without keys, the answer is the same, whatever the shape of the tree", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer(), { minLength: 1, maxLength: 40 }),
        shape,
        fc.boolean(),
        async (values, s, descending) => {
          const entries = entriesOf(valueRows(values));
          const answers = await Promise.all(
            [
              new SessionRunner(false, 200),
              new SessionRunner(true, 200),
              new SessionRunner(true, 200, true),
            ].map(async (js) => {
              const view = reducer([SUM, LONG], js);
              const parts = await shapedParts(view, entries, s);
              return [
                await view.evaluate(0, parts, { descending }),
                await view.evaluate(1, parts, { descending }),
              ];
            }),
          );
          expect(answers[1]).toEqual(answers[0]);
          expect(answers[2]).toEqual(answers[0]);
        },
      ),
      RUNS,
    );
  });
});
