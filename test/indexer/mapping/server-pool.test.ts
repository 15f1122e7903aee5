// View servers on loan: a spare one stands ready for when one dies.

import { existsSync, readFileSync, watch } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, describe, expect, test } from "@jest/globals";

import type { ServerLease } from "../../../indexer/mapping/process-mapper.js";
import { ServerPool } from "../../../indexer/mapping/server-pool.js";
import { ownServer } from "../../../indexer/mapping/server-process.js";
import type { GroupConfig } from "../../../indexer/mapping/types.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const CONFIG: GroupConfig = {
  key: "g",
  lib: undefined,
  maps: ["function (doc) { if (doc.much) for (var i = 0; i < 50; i++) log(i); emit(doc._id); }"],
  collations: ["root"],
  collationVersion: 1,
  reduces: [[]],
  labels: ["v"],
  includeDesign: false,
  partitioned: false,
  partitionedIds: false,
  limits: { reduceLimit: false, threshold: 5000, ratio: 2 },
  strict: false,
};

let pool: ServerPool | undefined;
afterEach(async () => {
  await pool?.close();
});

/** Servers that note when they have started. */
class Started {
  readonly #dir = tempDir();
  readonly #file = join(this.#dir, "started");
  readonly pool: ServerPool;

  constructor(size: number) {
    const program = fileURLToPath(new URL("../../helpers/servers/starts.js", import.meta.url));
    const command = {
      file: process.execPath,
      args: [program, this.#file],
      env: {},
      own: true,
    };
    this.pool = pool = new ServerPool(command, size, { timeoutMs: 20_000, memoryMb: 1000 });
  }

  pids(): number[] {
    if (!existsSync(this.#file)) return [];
    return readFileSync(this.#file, "latin1").split("\n").filter(Boolean).map(Number);
  }

  /** Waits until so many have started. */
  async until(count: number): Promise<number[]> {
    const watcher = watch(this.#dir);
    try {
      while (this.pids().length < count)
        await new Promise<void>((resolve) =>
          watcher.once("change", () => {
            resolve();
          }),
        );
      return this.pids();
    } finally {
      watcher.close();
    }
  }
}

async function pidOf({ server }: ServerLease): Promise<number> {
  return Number(await server.client.prompt(["pid"]));
}

describe("a pool of view servers", () => {
  test("starts no spare for work that is soon over", async () => {
    const started = new Started(1);
    await started.pool.use(CONFIG, undefined, pidOf);

    await started.pool.close();
    expect(started.pids().length).toBe(1);
  });

  test("has a spare running before a server dies, which takes its place; then another one", async () => {
    const started = new Started(1);
    await started.pool.use(CONFIG, undefined, pidOf);
    await started.pool.use(CONFIG, undefined, async (lease) => {
      const [first, spare] = await started.until(2);
      expect(await pidOf(lease)).toBe(first);

      process.kill(first as number, "SIGKILL");
      await lease.replace();
      expect(await pidOf(lease)).toBe(spare);
      expect(await lease.server.client.prompt(["map_doc", { _id: "a" }])).toEqual([[["a", null]]]);

      const [, , next] = await started.until(3);
      process.kill(spare as number, "SIGKILL");
      await lease.replace();
      expect(await pidOf(lease)).toBe(next);
    });
  });

  test("gives a living one in the place of a spare that died while it waited", async () => {
    const started = new Started(1);
    await started.pool.use(CONFIG, undefined, pidOf);
    await started.pool.use(CONFIG, undefined, async (lease) => {
      const [first, spare] = await started.until(2);
      process.kill(spare as number, "SIGKILL");
      process.kill(first as number, "SIGKILL");
      await lease.replace();

      expect([first, spare]).not.toContain(await pidOf(lease));
    });
  });
});

test("our own server keeps as many log lines of a document as its options say", async () => {
  pool = new ServerPool(ownServer(64, false, { logLinesMax: 3 }), 1, {
    timeoutMs: 20_000,
    memoryMb: 1000,
  });
  const lines = Buffer.from('["map_doc",{"_id":"a","much":1}]\n["map_doc",{"_id":"b"}]\n');
  const { logs } = await pool.use(CONFIG, undefined, ({ server }) => server.client.batch(lines, 2));

  expect(logs).toEqual([
    ...["0", "1", "2", "log_limit: 47 further log lines were dropped"].map((text) => ({
      index: 0,
      text,
    })),
  ]);
});
