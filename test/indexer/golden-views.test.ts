// Every answer recorded from CouchDB, asked in-process over a growing changes file.

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, describe, expect, test } from "@jest/globals";

import { parseViewBody, parseViewQuery, resolveViewQuery } from "../../indexer/query/index.js";
import { ViewIndex } from "../../indexer/view-index.js";
import { MappingRuntime } from "../../indexer/views/runtime.js";
import { goldenViewCases, sameAnswer, type GoldenQuery } from "../helpers/golden.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

// Threads are slow to start: all cases share them.
const runtime = new MappingRuntime({ mapIn: "threads", threads: 1 });
afterAll(() => runtime.close());

interface Reply {
  readonly status: number;
  readonly body: unknown;
}

async function ask(index: ViewIndex, query: GoldenQuery): Promise<Reply> {
  try {
    const parameters = [...new URLSearchParams(query.query)];
    const body = query.body === undefined ? undefined : parseViewBody(JSON.stringify(query.body));
    const found = await index.findView(query.ddoc, query.view);
    const answer = await index.run(
      found,
      resolveViewQuery(parseViewQuery(parameters, body), found.shape),
    );
    return { status: 200, body: await answer.object() };
  } catch (error) {
    const {
      status,
      error: name,
      reason,
      details,
    } = error as {
      status?: number;
      error?: string;
      reason?: string;
      details?: { status?: number; error?: string; reason?: string };
    };
    if (status !== undefined) return { status, body: { error: name, reason } };
    if (details?.status !== undefined)
      return { status: details.status, body: { error: details.error, reason: details.reason } };
    throw error;
  }
}

function matches(want: GoldenQuery, got: Reply): boolean {
  if (got.status !== want.status) return false;
  if (want.status === 200) return sameAnswer(want.answer, got.body);
  const expected = want.answer as { error: string; reason: string };
  const told = got.body as { error: string; reason: string };
  return expected.error === told.error && expected.reason === told.reason;
}

describe("answers as CouchDB gave them", () => {
  const tally = { right: 0, wrong: 0 };

  afterAll(() => {
    process.stderr.write(`golden view queries: ${tally.right} right, ${tally.wrong} wrong\n`);
  });

  test.each(goldenViewCases())("$name", async ({ steps }) => {
    const dir = tempDir();
    const feed = join(dir, "feed.ndjson");
    writeFileSync(feed, "");
    const wrong: string[] = [];
    const index = await ViewIndex.open({
      dir: join(dir, "index"),
      source: `changes:${feed}`,
      runtime,
    });
    try {
      for (const step of steps) {
        appendFileSync(feed, step.changes.map((row) => `${JSON.stringify(row)}\n`).join(""));
        for (const query of step.queries) {
          const got = await ask(index, query);
          if (matches(query, got)) tally.right++;
          else {
            tally.wrong++;
            wrong.push(
              `${query.ddoc}/${query.view}?${decodeURIComponent(query.query)} ${query.body === undefined ? "" : JSON.stringify(query.body)}\n  want ${query.status} ${JSON.stringify(query.answer).slice(0, 300)}\n  got  ${got.status} ${JSON.stringify(got.body).slice(0, 300)}`,
            );
          }
        }
      }
    } finally {
      await index.close();
    }
    expect(wrong).toEqual([]);
  });
});
