// Several processes that answer over the files that one writes.

import { execFileSync } from "node:child_process";
import { Agent } from "node:http";

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";

import { Serving, ask, design, type Answer } from "./serving.js";

const WORKERS = 2;
const serving = new Serving();

beforeAll(async () => {
  serving.feed.put(
    design({
      js: {
        map: "function (doc) { emit(doc.k, doc.v); }",
        reduce: "function (keys, values, again) { return again ? sum(values) : values.length; }",
      },
    }),
  );
  serving.feed.put({ _id: "a", k: 1, v: 1 });
  await serving.start("--workers", String(WORKERS));
});

afterAll(() => serving.remove());

/** One connection is answered by one process. */
async function eachWorker<T>(
  work: (agent: Agent, worker: string) => Promise<T>,
): Promise<Map<string, T>> {
  const results = new Map<string, T>();
  while (results.size < WORKERS) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      const worker = String(
        (await ask(`${serving.url}/db/_design/d/_view/v?limit=0`, { agent })).headers[
          "x-viewmill-worker"
        ],
      );
      if (!results.has(worker)) results.set(worker, await work(agent, worker));
    } finally {
      agent.destroy();
    }
  }
  return results;
}

const rowsOf = (answer: Answer): unknown[] => answer.json["rows"] as unknown[];

describe("serve --workers", () => {
  test("each process answers at a sequence newer than that of its start, as soon as it is written", async () => {
    const began = serving.feed.seq;
    const seqs = await eachWorker(async (agent) => {
      for (let i = 0; i < 20; i++) {
        const seq = serving.feed.put({ _id: "b", k: 2, v: i });
        const answer = await ask(`${serving.db}/_design/d/_view/v?key=2&update_seq=true`, {
          agent,
        });
        expect(answer.status).toBe(200);
        expect(answer.json["update_seq"]).toBe(seq);
        expect(rowsOf(answer)).toEqual([{ id: "b", key: 2, value: i }]);
      }
      return serving.feed.seq;
    });
    expect([...seqs.keys()].sort()).toEqual(["1", "2"]);
    for (const seq of seqs.values()) expect(seq).toBeGreaterThan(began);
  });

  test("update=false reads what is there, whatever the feed has", async () => {
    await serving.view();
    const before = serving.feed.seq;
    serving.feed.put({ _id: "late", k: 9, v: 9 });
    await eachWorkerQuietly(async (agent) => {
      const answer = await ask(
        `${serving.db}/_design/d/_view/v?update=false&key=9&update_seq=true`,
        { agent },
      );
      expect(answer.json["update_seq"]).toBe(before);
      expect(rowsOf(answer)).toEqual([]);
    });
  });

  test("all processes name the same ETag for the same rows", async () => {
    await serving.view();
    const tags = await eachWorker(
      async (agent) => (await ask(`${serving.db}/_design/d/_view/v`, { agent })).headers.etag,
    );
    expect(new Set(tags.values()).size).toBe(1);
    const [etag] = tags.values();
    const again = await eachWorker(async (agent) =>
      ask(`${serving.db}/_design/d/_view/v`, { agent, headers: { "if-none-match": etag } }),
    );
    for (const { status } of again.values()) expect(status).toBe(304);
  });

  test("documents, custom reduces, errors and information are the same everywhere", async () => {
    const paths = [
      "/a",
      "/_design/d",
      "/_design/d/_view/js",
      "/_design/d/_view/v?include_docs=true",
      "/_design/d/_view/none",
      "/_design/d/_info",
      "",
    ];
    for (const path of paths) {
      const texts = await eachWorker(
        async (agent) => (await ask(`${serving.db}${path}`, { agent })).text,
      );
      expect(new Set(texts.values()).size).toBe(1);
    }
    const { json } = await serving.view("/queries", {
      body: { queries: [{ key: 1 }, { key: 2, limit: 0 }] },
    });
    expect((json["results"] as unknown[]).length).toBe(2);
  });

  test("a changed design document is seen by all", async () => {
    serving.feed.put(
      design({ count: { map: "function (doc) { emit(doc._id); }", reduce: "_count" } }),
    );
    const counts = await eachWorker(async (agent) =>
      ask(`${serving.db}/_design/d/_view/count`, { agent }),
    );
    for (const answer of counts.values()) expect(rowsOf(answer)).toEqual([{ key: null, value: 3 }]);
    serving.feed.put(design());
    const gone = await eachWorker(async (agent) =>
      ask(`${serving.db}/_design/d/_view/count`, { agent }),
    );
    for (const { status } of gone.values()) expect(status).toBe(404);
  });

  test("compaction gives all of them a new file", async () => {
    const before = await serving.view();
    expect((await serving.ask("/db/_compact/d", { body: {} })).status).toBe(202);
    for (;;) {
      const { json } = await serving.ask("/db/_design/d/_info");
      if (!(json["view_index"] as { compact_running: boolean }).compact_running) break;
    }
    const seq = serving.feed.put({ _id: "after", k: 5, v: 5 });
    const answers = await eachWorker(async (agent) =>
      ask(`${serving.db}/_design/d/_view/v?update_seq=true`, { agent }),
    );
    for (const { json, status } of answers.values()) {
      expect(status).toBe(200);
      expect(json["update_seq"]).toBe(seq);
      expect(json["total_rows"]).toBe((before.json["total_rows"] as number) + 1);
    }
  });

  test("metrics add up what all have counted", async () => {
    const count = async (): Promise<number> => {
      const { text } = await serving.ask("/_metrics");
      return Number(/^viewmill_query_seconds_count (\d+)$/m.exec(text)?.[1]);
    };
    const before = await count();
    await eachWorker((agent) => ask(`${serving.db}/_design/d/_view/v`, { agent }));
    expect((await count()) - before).toBeGreaterThanOrEqual(2 * WORKERS);
  });

  test("a process that dies is replaced, and the others go on", async () => {
    const children = execFileSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" })
      .split("\n")
      .filter((line) => line.includes("reader-main.js"))
      .map((line) => Number(line.trim().split(" ")[0]));
    const mine = children.find((pid) => isBelow(pid, serving.pid, execFileSync));
    process.kill(mine ?? 0, "SIGKILL");
    for (let i = 0; i < 20; i++) {
      const answer = await serving.view().catch(() => undefined);
      // A connection that the dead process held is lost; whoever asks again is answered.
      if (answer) expect(answer.status).toBe(200);
    }
    await eachWorker((agent) => ask(`${serving.db}/_design/d/_view/v`, { agent }));
    expect(serving.errors).toContain("starting another");
  });

  test("ends in order", async () => {
    expect(await serving.stop()).toBe(0);
  });
});

/** Like `eachWorker`, without asking for an up-to-date index on the way. */
async function eachWorkerQuietly(work: (agent: Agent) => Promise<void>): Promise<void> {
  const seen = new Set<string>();
  while (seen.size < WORKERS) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      const { headers } = await ask(`${serving.db}/_design/d/_view/v?limit=0&update=false`, {
        agent,
      });
      const worker = String(headers["x-viewmill-worker"]);
      if (!seen.has(worker)) await work(agent);
      seen.add(worker);
    } finally {
      agent.destroy();
    }
  }
}

function isBelow(pid: number, ancestor: number, run: typeof execFileSync): boolean {
  let at = pid;
  while (at > 1) {
    if (at === ancestor) return true;
    at = Number(run("ps", ["-o", "ppid=", "-p", String(at)], { encoding: "utf8" }).trim());
  }
  return false;
}
