// Answers recorded from CouchDB, asked over HTTP while a feed grows: all of them of a server in this process, and a few, with TEST_RUNS=10
// all, of the program `viewmill serve`, one in three of those answered by two processes.

import { afterAll, describe, expect, test } from "@jest/globals";

import { MappingRuntime } from "../../../indexer/index.js";
import { startServer } from "../../../indexer/http/index.js";
import { ViewIndex } from "../../../indexer/view-index.js";
import {
  goldenViewCases,
  sameAnswer,
  type GoldenQuery,
  type GoldenStep,
} from "../../helpers/golden.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";
import { ask, Feed, Serving, type Answer } from "./serving.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 1);
const cases = goldenViewCases();
removeTempDirs();
const every = Math.max(1, Math.ceil(cases.length / (7 * RUNS)));

function matches(want: GoldenQuery, { status, json }: Answer): boolean {
  if (status !== want.status) return false;
  if (status === 200) return sameAnswer(want.answer, json);
  const { error, reason } = want.answer as { error: string; reason: string };
  return json["error"] === error && json["reason"] === reason;
}

/** Lets the feed grow step by step and asks each step's queries. Returns what was answered wrongly. */
async function wrongOf(
  steps: readonly GoldenStep[],
  feed: Feed,
  urlOf: () => Promise<string>,
): Promise<string[]> {
  const wrong: string[] = [];
  for (const [i, { changes, queries }] of steps.entries()) {
    feed.append(changes);
    const url = await urlOf();
    for (const query of queries) {
      const path = `/db/_design/${query.ddoc}/_view/${query.view}${query.query === "" ? "" : `?${query.query}`}`;
      const answer = await ask(
        `${url}${path}`,
        query.body === undefined ? {} : { body: query.body },
      );
      if (!matches(query, answer))
        wrong.push(`step ${i} ${path}: ${answer.status} ${answer.text.slice(0, 300)}`);
    }
  }
  return wrong;
}

describe("a server answers as CouchDB did", () => {
  const runtime = new MappingRuntime({ mapIn: "threads", threads: 1 });
  afterAll(() => runtime.close());

  test.each(cases)("$name", async ({ steps }) => {
    const dir = tempDir();
    const feed = new Feed(dir);
    const index = await ViewIndex.open({
      dir: `${dir}/index`,
      source: `changes:${feed.path}`,
      runtime,
    });
    const server = await startServer({ index, port: 0 });
    try {
      expect(await wrongOf(steps, feed, () => Promise.resolve(server.url))).toEqual([]);
    } finally {
      await server.close();
      await index.close();
    }
  });
});

describe("the program serve answers as CouchDB did", () => {
  test.each(
    cases.filter((_, i) => i % every === 0).map((one, i) => ({ ...one, workers: i % 3 === 0 })),
  )("$name (workers: $workers)", async ({ steps, workers }) => {
    const serving = new Serving();
    const started = async (): Promise<string> => {
      if (serving.url === "") await serving.start(...(workers ? ["--workers", "2"] : []));
      return serving.url;
    };
    try {
      expect(await wrongOf(steps, serving.feed, started)).toEqual([]);
    } finally {
      await serving.remove();
    }
  });
});
