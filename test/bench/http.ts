// Throughput of key lookups over HTTP, against a bare node:http server that answers a constant of the same size on the same machine, and
// with one and two answering processes. The load comes from processes of its own.
//
//     node dist/test/bench/http.js [seconds=5] [connections=32] [documents=100000]

import { fork } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { Agent, createServer, get } from "node:http";
import type { AddressInfo } from "node:net";

import { Serving, ask, design } from "../indexer/http/serving.js";

interface Load {
  readonly url: string;
  readonly keys: number;
  readonly connections: number;
  readonly milliseconds: number;
}

interface Outcome {
  readonly requests: number;
  readonly errors: number;
  readonly p50: number;
  readonly p99: number;
}

/** Keeps the connections busy; runs in a process of its own. */
async function load({ url, keys, connections, milliseconds }: Load): Promise<Outcome> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const times: number[] = [];
  let errors = 0;
  const end = performance.now() + milliseconds;
  const one = (): Promise<void> =>
    new Promise((resolve) => {
      const began = performance.now();
      get(url + String(Math.floor(Math.random() * keys)), { agent }, (response) => {
        response.resume();
        response.on("end", () => {
          if (response.statusCode !== 200) errors++;
          times.push(performance.now() - began);
          resolve();
        });
      }).on("error", () => {
        errors++;
        resolve();
      });
    });
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < end) await one();
    }),
  );
  agent.destroy();
  times.sort((a, b) => a - b);
  const at = (q: number): number =>
    times[Math.min(times.length - 1, Math.floor(times.length * q))] ?? 0;
  return { requests: times.length, errors, p50: at(0.5), p99: at(0.99) };
}

function measure(what: Load): Promise<Outcome> {
  return new Promise<Outcome>((resolve, reject) => {
    const child = fork(new URL(import.meta.url), ["--load"]);
    child.once("message", (outcome) => {
      resolve(outcome as Outcome);
      child.disconnect();
    });
    child.once("error", reject);
    child.send(what);
  });
}

/** CPU time used so far by a process and those it started, in milliseconds; tells more than rates where others use the machine too. */
function cpuMs(pid: number): number {
  if (process.platform !== "linux") return NaN;
  const stats = new Map<number, { parent: number; ticks: number }>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      stats.set(Number(name), {
        parent: Number(fields[1]),
        ticks: Number(fields[11]) + Number(fields[12]),
      });
    } catch {
      // It has ended meanwhile.
    }
  }
  let ticks = 0;
  for (const [id, stat] of stats) {
    let at: number | undefined = id;
    while (at !== undefined && at !== pid) at = stats.get(at)?.parent;
    if (at === pid) ticks += stat.ticks;
  }
  return ticks * 10;
}

interface Floor {
  readonly rate: number;
  readonly cpu: number;
}

/** Loads the server and prints what came of it, as a share of the floor. */
async function run(name: string, pid: number, what: Load, floor?: Floor): Promise<Floor> {
  await measure({ ...what, milliseconds: 1000 });
  const before = cpuMs(pid);
  const { requests, errors, p50, p99 } = await measure(what);
  const cpu = (1000 * (cpuMs(pid) - before)) / requests;
  const rate = (1000 * requests) / what.milliseconds;
  const share = (part: number): string =>
    (floor ? ` (${Math.round(100 * part)} %)` : "").padStart(8);
  const columns = [
    name.padEnd(30),
    `${Math.round(rate).toLocaleString("en-US").padStart(7)}/s${share(rate / (floor?.rate ?? 1))}`,
    `${cpu.toFixed(1).padStart(5)} µs of CPU${share((floor?.cpu ?? 1) / cpu)}`,
    `p50 ${p50.toFixed(2)} ms  p99 ${p99.toFixed(2)} ms`,
  ];
  console.log(`${columns.join("  ")}${errors > 0 ? `  ${errors} ERRORS` : ""}`);
  return { rate, cpu };
}

/** The constant answers in a process of its own, as the server under test does. */
async function bare(): Promise<{ url: string; pid: number; stop: () => void }> {
  const child = fork(new URL(import.meta.url), ["--bare"]);
  const port = await new Promise<number>((resolve) => {
    child.once("message", (message) => {
      resolve(message as number);
    });
  });
  return { url: `http://127.0.0.1:${port}/`, pid: child.pid ?? 0, stop: () => child.kill() };
}

async function main(): Promise<void> {
  const [seconds = 5, connections = 32, documents = 100_000] = process.argv.slice(2).map(Number);
  const milliseconds = seconds * 1000;
  const serving = new Serving();
  serving.feed.put(design());
  for (let i = 0; i < documents; i += 1000)
    serving.feed.put(
      ...Array.from({ length: 1000 }, (_, j) => ({
        _id: `document-${i + j}`,
        k: i + j,
        v: `value ${i + j}`,
      })),
    );
  try {
    const constant = await bare();
    const load_ = { keys: documents, connections, milliseconds };
    const floor = await run("bare node:http, a constant", constant.pid, {
      ...load_,
      url: `${constant.url}?key=`,
    });
    constant.stop();
    for (const flags of [[], ["--workers", "1"], ["--workers", "2"]]) {
      await serving.start("--cache", "256", ...flags);
      const url = `${serving.db}/_design/d/_view/v?key=`;
      const { status } = await ask(`${url}1`);
      if (status !== 200) throw new Error(`the first query was answered with ${status}`);
      const name = flags.length === 0 ? "one process" : flags.join(" ");
      await run(`${name}, update=true`, serving.pid, { ...load_, url }, floor);
      const stale = `${serving.db}/_design/d/_view/v?update=false&key=`;
      await run(`${name}, update=false`, serving.pid, { ...load_, url: stale }, floor);
      await serving.stop();
    }
  } finally {
    await serving.remove();
  }
}

if (process.argv[2] === "--load")
  process.once("message", (what) => {
    void load(what as Load).then((outcome) => process.send?.(outcome));
  });
else if (process.argv[2] === "--bare") {
  const body = `${JSON.stringify({ total_rows: 100000, offset: 50000 }).slice(0, -1)},"rows":[\r\n{"id":"document-50000","key":50000,"value":"value 50000"}\r\n]}\n`;
  const server = createServer((_request, response) => {
    response
      .writeHead(200, {
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(body),
      })
      .end(body);
  });
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
} else await main();
