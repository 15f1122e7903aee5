// Answers recorded from CouchDB, asked through `viewmill serve` over a growing feed: a few of them by default, all with TEST_RUNS=10. One
// in three is asked of two answering processes.

import { describe, expect, test } from "@jest/globals";

import { goldenViewCases, sameAnswer, type GoldenQuery } from "../../helpers/golden.js";
import { Serving, type Answer } from "./serving.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 1);
const cases = goldenViewCases();
const every = Math.max(1, Math.ceil(cases.length / (7 * RUNS)));

function matches(want: GoldenQuery, { status, json }: Answer): boolean {
  if (status !== want.status) return false;
  if (status === 200) return sameAnswer(want.answer, json);
  const { error, reason } = want.answer as { error: string; reason: string };
  return json["error"] === error && json["reason"] === reason;
}

describe("over HTTP, answers as CouchDB gave them", () => {
  test.each(
    cases.filter((_, i) => i % every === 0).map((one, i) => ({ ...one, workers: i % 3 === 0 })),
  )("$name (workers: $workers)", async ({ steps, workers }) => {
    const serving = new Serving();
    const wrong: string[] = [];
    try {
      serving.feed.append(steps[0]?.changes ?? []);
      await serving.start(...(workers ? ["--workers", "2"] : []));
      for (const [i, step] of steps.entries()) {
        if (i > 0) serving.feed.append(step.changes);
        for (const query of step.queries) {
          const path = `/db/_design/${query.ddoc}/_view/${query.view}${query.query === "" ? "" : `?${query.query}`}`;
          const answer = await serving.ask(
            path,
            query.body === undefined ? {} : { body: query.body },
          );
          if (!matches(query, answer))
            wrong.push(`step ${i} ${path}: ${answer.status} ${answer.text.slice(0, 300)}`);
        }
      }
    } finally {
      await serving.remove();
    }
    expect(wrong).toEqual([]);
  });
});
