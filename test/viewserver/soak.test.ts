// A long time with functions that leak, throw, log, allocate, loop and exhaust memory: the server does not grow, and every document is
// answered or blamed. TEST_SOAK_SECONDS says how long (20).
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "@jest/globals";
import { MemorySource, ViewIndex } from "../../indexer/index.js";
import { ProtocolClient, streamTransport } from "../../protocol/index.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

const SECONDS = Number(process.env["TEST_SOAK_SECONDS"] ?? 20);
/** Each of the two long tests takes half of it; whatever the machine does besides must not fail them. */
const HALF_MS = SECONDS * 500;
const PATIENCE_MS = SECONDS * 5000 + 100_000;

const MAIN = path.join(import.meta.dirname, "../../viewserver/main.js");
const DOCUMENTS = 2000;
const PAD = "p".repeat(100);

const FUNCTIONS = [
  "function(d){ emit(d.n, null) }",
  "var kept = []; function(d){ kept.push(new Array(200).fill(d.n)); emit(kept.length, 1) }",
  "function(d){ if (d.n % 3 === 0) throw new Error('no ' + d.n); emit(d.n, 2) }",
  "function(d){ log(d); log(d.n); emit(d.n, 3) }",
  "function(d){ var a = []; for (var i = 0; i < 300; i++) a.push({ i: i, pad: d.pad + i }); emit(a.length, 4) }",
  "function(d){ var b = new Uint8Array(100000).fill(d.n); emit(b.length, 5) }",
];
/** Two lines from the function that logs; one from the one that throws. */
const LOGS = 2 * DOCUMENTS + Math.ceil(DOCUMENTS / 3);

/** Resident bytes of a process, on Linux. */
function residentBytes(pid: number): number {
  if (process.platform !== "linux") return 0;
  return Number(readFileSync(`/proc/${pid}/statm`, "latin1").split(" ")[1]) * 4096;
}

/** How much more memory the last quarter of the samples takes than the second one; the first is for warming up. Medians. */
function growthMb(samples: readonly number[]): number {
  const quarter = Math.floor(samples.length / 4);
  const median = (from: number): number =>
    samples.slice(from, from + quarter).sort((a, b) => a - b)[quarter >> 1] ?? NaN;
  return (median(samples.length - quarter) - median(quarter)) / 2 ** 20;
}

/** Maps documents in rounds with one server, until `goesOn` answers false; answers its memory after each. */
async function soak(
  goesOn: (round: number) => boolean,
  resets: boolean,
): Promise<{ rounds: number; wrong: number; logs: number; samples: number[] }> {
  const child = spawn(process.execPath, ["--max-old-space-size=400", MAIN], { env: {} });
  const client = new ProtocolClient(streamTransport(child.stdout, child.stdin));
  const samples: number[] = [];
  let [rounds, wrong, logs] = [0, 0, 0];
  for (; goesOn(rounds); rounds++) {
    if (resets || rounds === 0) {
      await client.prompt(["reset"]);
      for (const source of FUNCTIONS) await client.prompt(["add_fun", source]);
    }
    let lines = "";
    for (let n = 0; n < DOCUMENTS; n++)
      lines += `["map_doc",{"_id":"d${n}","n":${n},"pad":"${PAD}"}]\n`;
    const reply = await client.batch(Buffer.from(lines), DOCUMENTS);
    const answers = Buffer.from(reply.replies).toString("utf8").split("\n");
    const before = resets ? 0 : rounds * DOCUMENTS;
    for (let n = 0; n < DOCUMENTS; n++) {
      const thrown = n % 3 === 0 ? "[]" : `[[${n},2]]`;
      const right = `[[[${n},null]],[[${before + n + 1},1]],${thrown},[[${n},3]],[[300,4]],[[100000,5]]]`;
      if (answers[n] !== right) wrong++;
    }
    logs += reply.logs.length;
    samples.push(residentBytes(child.pid ?? 0));
  }
  client.close();
  child.kill();
  return { rounds, wrong, logs, samples };
}

const GROWTH_MB_MAX = 24;

test(
  "a server that is reset between its rounds does not grow, and answers every document",
  async () => {
    const end = Date.now() + HALF_MS;
    const { rounds, wrong, logs, samples } = await soak(
      (round) => round < 16 || Date.now() < end,
      true,
    );

    expect(wrong).toBe(0);
    expect(logs).toBe(rounds * LOGS);
    expect(growthMb(samples)).toBeLessThan(GROWTH_MB_MAX);
  },
  PATIENCE_MS,
);

test(
  "that measure sees a leak: without resets, what the functions keep shows",
  async () => {
    const { wrong, samples } = await soak((round) => round < 56, false);

    expect(wrong).toBe(0);
    if (process.platform === "linux") expect(growthMb(samples)).toBeGreaterThan(GROWTH_MB_MAX);
  },
  PATIENCE_MS,
);

test(
  "servers that are killed are replaced: every document is answered, or blamed for what it did",
  async () => {
    const map = `function (doc) {
      log(doc.n);
      if (doc.act === "throw") throw new Error("no");
      while (doc.act === "loop") ;
      var kept = [];
      while (doc.act === "heap") kept.push(new Array(1e5).fill(kept));
      while (doc.act === "off-heap") kept.push(new Uint8Array(5e6).fill(1));
      leaked = (this.leaked || []).concat(doc.n).slice(-100);
      emit(doc.n, doc.round);
    }`;
    const kinds: Readonly<Record<string, string>> = {
      throw: "exception",
      loop: "timeout",
      heap: "memory",
      "off-heap": "memory",
    };
    const acts = Object.keys(kinds);
    const source = new MemorySource("soak");
    const index = await ViewIndex.open({
      dir: tempDir(),
      source,
      designDocuments: [{ _id: "_design/d", views: { v: { map } } }],
      mapIn: "processes",
      threads: 2,
      timeoutMs: 1500,
      heapMb: 64,
      memoryMb: 350,
    });
    const end = Date.now() + HALF_MS;
    for (let round = 0; round < 2 || Date.now() < end; round++) {
      const guilty = new Map<string, string>();
      for (let n = 0; n < DOCUMENTS; n++) {
        // Another place in every round.
        const act = n % 400 === (round * 37) % 400 ? acts[Math.floor(n / 400)] : undefined;
        if (act !== undefined) guilty.set(`d${n}`, kinds[act] ?? "");
        source.put({ _id: `d${n}`, n, round, ...(act === undefined ? {} : { act }) });
      }
      await index.update();
      const blamed = new Map<string, string>();
      for await (const { id, kind, view } of index.errors()) {
        expect(view).toBe("v");
        blamed.set(id, kind);
      }
      const answered = (await (await index.query("d", "v")).object()).rows as {
        id: string;
        key: number;
        value: number;
      }[];

      expect(blamed).toEqual(guilty);
      expect(answered.length).toBe(DOCUMENTS - guilty.size);
      expect(answered.filter(({ id, key, value }) => id !== `d${key}` || value !== round)).toEqual(
        [],
      );
      expect(answered.filter(({ id }) => guilty.has(id))).toEqual([]);
    }
    await index.close();
  },
  PATIENCE_MS,
);
