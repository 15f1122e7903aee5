// Load: writers append while hundreds of readers ask over kept connections. Each answer is checked against the sequence it claims, and
// no query may be answered with a state older than what was written before it was sent. TEST_RUNS makes it longer.

import { execFileSync } from "node:child_process";
import { Agent } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";

import { afterEach, describe, expect, test } from "@jest/globals";

import { Serving, ask, design } from "./serving.js";

const WRITERS = 50;
const RUNS = Number(process.env["TEST_RUNS"] ?? 1);
/** Answers to check with 200, and then with 950 readers: first while all that it needs for so many grows, then to see whether more does. */
const PHASES = [
  [200, 1500 * RUNS],
  [950, 4000 * RUNS],
  [950, 6000 * RUNS],
] as const;
/** So often the server's memory is looked at in a phase. */
const LOOKS = 20;
/** What its later half may need more than its earlier one, and what the noise of two garbage collectors may add. */
const GROWTH_MAX = 1.05;
const NOISE_BYTES = 6 * 2 ** 20;

let serving: Serving | undefined;

afterEach(async () => {
  await serving?.remove();
  serving = undefined;
});

/** Everything that was written, by writer: the sequence of its n-th document. */
class Log {
  readonly seqs: readonly number[][] = Array.from({ length: WRITERS }, () => []);

  /** How many documents the writer had written up to the sequence. */
  count(writer: number, seq: number): number {
    const seqs = this.seqs[writer] as number[];
    let low = 0;
    let high = seqs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((seqs[middle] as number) <= seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Appends until told to stop; each writer's n-th document has the value n, and one of its documents is written anew each time. */
async function write(
  feed: Serving["feed"],
  log: Log,
  writer: number,
  stopped: () => boolean,
): Promise<void> {
  while (!stopped()) {
    const n = (log.seqs[writer] as number[]).length + 1;
    feed.put({ _id: `last-${writer}`, k: ["last", writer], v: n });
    (log.seqs[writer] as number[]).push(feed.put({ _id: `${writer}-${n}`, k: writer, v: n }));
    // Every writer writes some ten times a second, at its own times.
    await new Promise((resolve) => setTimeout(resolve, 60 + Math.random() * 80));
    await nextTurn();
  }
}

interface Checked {
  readonly times: number[];
  readonly wrong: string[];
}

async function read(
  db: string,
  feed: Serving["feed"],
  log: Log,
  agent: Agent,
  left: () => boolean,
  checked: Checked,
): Promise<void> {
  while (left()) {
    const writer = Math.floor(Math.random() * WRITERS);
    const kind = Math.floor(Math.random() * 3);
    const query =
      kind === 0
        ? `sum?key=${writer}`
        : kind === 1
          ? `v?key=${writer}`
          : `v?key=${encodeURIComponent(JSON.stringify(["last", writer]))}`;
    const before = feed.seq;
    const began = performance.now();
    const { status, json, text } = await ask(`${db}/_design/d/_view/${query}&update_seq=true`, {
      agent,
    });
    checked.times.push(performance.now() - began);
    const seq = json["update_seq"] as number;
    const rows = (json["rows"] ?? []) as { value: number; id?: string }[];
    const count = log.count(writer, seq);
    let right = status === 200 && seq >= before;
    if (kind === 0)
      right &&=
        count === 0
          ? rows.length === 0
          : rows.length === 1 && rows[0]?.value === (count * (count + 1)) / 2;
    else if (kind === 1)
      right &&=
        rows.length === count &&
        rows.reduce((sum, { value }) => sum + value, 0) === (count * (count + 1)) / 2;
    // Its newest value is written just before the document that counts.
    else
      right &&=
        count === 0 ||
        (rows.length === 1 &&
          ((rows[0]?.value ?? 0) === count || (rows[0]?.value ?? 0) === count + 1));
    if (!right)
      checked.wrong.push(
        `${query} sent at ${before}: ${status} ${text.slice(0, 200)}, of ${count} documents`,
      );
  }
}

/** Resident bytes of the server's processes. */
function residentBytes(pid: number): number {
  const lines = execFileSync("ps", ["-eo", "pid=,ppid=,rss="], { encoding: "utf8" })
    .trim()
    .split("\n");
  const processes = lines.map(
    (line) => line.trim().split(/\s+/).map(Number) as [number, number, number],
  );
  const tree = new Set([pid]);
  for (let grown = true; grown;) {
    grown = false;
    for (const [child, parent] of processes)
      if (tree.has(parent) && !tree.has(child)) {
        tree.add(child);
        grown = true;
      }
  }
  return processes
    .filter(([child]) => tree.has(child))
    .reduce((sum, [, , rss]) => sum + rss * 1024, 0);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The first and the last, and both halves' means. */
function megabytes(bytes: readonly number[]): string {
  const half = bytes.length >> 1;
  return [bytes[0] ?? 0, mean(bytes.slice(0, half)), mean(bytes.slice(half)), bytes.at(-1) ?? 0]
    .map((one) => Math.round(one / 2 ** 20))
    .join(" … ");
}

describe("under load", () => {
  test.each([[[]], [["--workers", "2"]]])(
    "serve %j answers each query, and rightly",
    async (flags) => {
      serving = new Serving();
      const { feed } = serving;
      feed.put(design());
      await serving.start(...flags);
      const { db, pid } = serving;
      await ask(`${db}/_design/d/_view/v`);
      const log = new Log();
      let stopped = false;
      const writers = Array.from({ length: WRITERS }, (_, writer) =>
        write(feed, log, writer, () => stopped),
      );
      let resident: number[] = [];
      try {
        for (const [readers, answers] of PHASES) {
          const checked: Checked = { times: [], wrong: [] };
          const agents = Array.from(
            { length: readers },
            () => new Agent({ keepAlive: true, maxSockets: 1 }),
          );
          let asked = 0;
          resident = [];
          const left = (): boolean => {
            if (asked % Math.floor(answers / LOOKS) === 0) resident.push(residentBytes(pid));
            return asked++ < answers;
          };
          const began = performance.now();
          await Promise.all(agents.map((agent) => read(db, feed, log, agent, left, checked)));
          const seconds = (performance.now() - began) / 1000;
          for (const agent of agents) agent.destroy();
          checked.times.sort((a, b) => a - b);
          const [p50, p90, p99] = [0.5, 0.9, 0.99].map((q) =>
            Math.round(checked.times[Math.floor(checked.times.length * q)] ?? 0),
          );
          process.stdout.write(
            `load ${JSON.stringify(flags)}: ${WRITERS} writers, ${readers} readers, ${answers} answers in ${seconds.toFixed(1)} s: p50 ${p50} ms, p90 ${p90} ms, p99 ${p99} ms, ${feed.seq} changes, ${megabytes(resident)} MiB\n`,
          );
          expect(checked.wrong.slice(0, 5)).toEqual([]);
        }
      } finally {
        stopped = true;
        await Promise.all(writers);
      }
      // The phases before have warmed it up.
      const half = resident.length >> 1;
      expect(mean(resident.slice(half))).toBeLessThan(
        GROWTH_MAX * mean(resident.slice(0, half)) + NOISE_BYTES,
      );
      expect(serving.errors).toBe("");
    },
    // It ends after so many answers, however busy the machine is.
    240_000 * RUNS,
  );
});
