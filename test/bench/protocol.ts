// The pipelining experiment: the same documents through one child process with windows of 1, 10 and 100 commands, and of 1 MiB.
//
//   node dist/test/bench/protocol.js [documents] [own | half-duplex] [rounds] [1 | 10 | 100 | any]
//
// `own` is viewmill-server with `emit(doc.user, 1)`; `half-duplex` is a server that reads 4 KiB at a time and writes one line at a
// time, as couchjs does. Prints one JSON line a window: median over the rounds; cpu and context switches are per document, of this
// process (host) and the child (Linux only).

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { mapDocLines, ProtocolClient, streamTransport } from "../../protocol/index.js";
import { generateLines } from "./generator.js";

const documents = Number(process.argv[2] ?? 1_000_000);
const kind = process.argv[3] === "half-duplex" ? "half-duplex" : "own";
const rounds = Number(process.argv[4] ?? 3);
/** The only window, in commands; default all. */
const only = process.argv[5];

const BATCH_BYTES = 4 << 20;
const WINDOWS: readonly [commands: number, bytes: number][] = [
  [1, 1 << 20],
  [10, 1 << 20],
  [100, 1 << 20],
  [Infinity, 1 << 20],
];
const PROGRAM = kind === "own" ? "../../viewserver/main.js" : "../helpers/servers/good.js";
/** Clock ticks of /proc/PID/stat a second. */
const TICKS = 100;

interface Batch {
  readonly chunk: Uint8Array;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  readonly count: number;
}

interface Sample {
  readonly wallUs: number;
  readonly hostCpuUs: number;
  readonly serverCpuUs: number;
  readonly hostSwitches: number;
  readonly serverSwitches: number;
}

function batches(): Batch[] {
  const made: Batch[] = [];
  let texts: string[] = [];
  let bytes = 0;
  const flush = (): void => {
    if (texts.length === 0) return;
    const starts = new Uint32Array(texts.length);
    const ends = new Uint32Array(texts.length);
    let position = 0;
    for (const [index, text] of texts.entries()) {
      starts[index] = position;
      position = ends[index] = position + Buffer.byteLength(text);
      position++;
    }
    made.push({ chunk: Buffer.from(`${texts.join("\n")}\n`), starts, ends, count: texts.length });
    texts = [];
    bytes = 0;
  };
  for (const line of generateLines(documents, { seed: 1 })) {
    texts.push(line);
    bytes += line.length;
    if (bytes >= BATCH_BYTES) flush();
  }
  flush();
  return made;
}

function serverUsage(pid: number): { cpuUs: number; switches: number } {
  if (process.platform !== "linux") return { cpuUs: 0, switches: 0 };
  // The fields after the program's name, which may contain blanks: utime and stime are the 12th and 13th of them.
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const status = readFileSync(`/proc/${pid}/status`, "latin1");
  const switches = [...status.matchAll(/ctxt_switches:\s+(\d+)/g)];
  return {
    cpuUs: ((Number(fields[11]) + Number(fields[12])) * 1e6) / TICKS,
    switches: switches.reduce((sum, match) => sum + Number(match[1]), 0),
  };
}

async function run(
  input: readonly Batch[],
  windowCommands: number,
  windowBytes: number,
): Promise<Sample> {
  const program = fileURLToPath(new URL(PROGRAM, import.meta.url));
  const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const client = new ProtocolClient(streamTransport(child.stdout, child.stdin), {
    windowCommands,
    windowBytes,
    timeoutMs: 60_000,
  });
  await client.prompt(["reset"]);
  await client.prompt(["add_fun", "function (doc) { emit(doc.user, 1) }"]);
  const pid = child.pid ?? 0;
  const [serverBefore, hostBefore] = [serverUsage(pid), process.resourceUsage()];
  const started = performance.now();
  // Two batches under way, so that the window stays full between them.
  let previous: Promise<unknown> = Promise.resolve();
  for (const { chunk, starts, ends, count } of input) {
    const next = client.batch(mapDocLines(chunk, starts, ends, count), count);
    await previous;
    previous = next;
  }
  await previous;
  const wall = performance.now() - started;
  const [serverAfter, hostAfter] = [serverUsage(pid), process.resourceUsage()];
  client.close();
  const hostSwitches =
    hostAfter.voluntaryContextSwitches +
    hostAfter.involuntaryContextSwitches -
    hostBefore.voluntaryContextSwitches -
    hostBefore.involuntaryContextSwitches;
  const hostCpu =
    hostAfter.userCPUTime +
    hostAfter.systemCPUTime -
    hostBefore.userCPUTime -
    hostBefore.systemCPUTime;
  return {
    wallUs: (wall * 1000) / documents,
    hostCpuUs: hostCpu / documents,
    serverCpuUs: (serverAfter.cpuUs - serverBefore.cpuUs) / documents,
    hostSwitches: hostSwitches / documents,
    serverSwitches: (serverAfter.switches - serverBefore.switches) / documents,
  };
}

function median(samples: readonly Sample[], of: (sample: Sample) => number): number {
  const sorted = samples.map(of).sort((a, b) => a - b);
  return Number((sorted[sorted.length >> 1] ?? 0).toFixed(3));
}

const input = batches();
await run(input.slice(0, 1), 1000, 1 << 20);
for (const [commands, bytes] of WINDOWS) {
  const windowCommands = commands === Infinity ? "any" : commands;
  if (only !== undefined && only !== String(windowCommands)) continue;
  const samples: Sample[] = [];
  for (let round = 0; round < rounds; round++) samples.push(await run(input, commands, bytes));
  const wallUs = median(samples, (sample) => sample.wallUs);
  console.log(
    JSON.stringify({
      server: kind,
      windowCommands,
      windowBytes: bytes,
      documents,
      documentsPerSecond: Math.round(1e6 / wallUs),
      wallUs,
      hostCpuUs: median(samples, (sample) => sample.hostCpuUs),
      serverCpuUs: median(samples, (sample) => sample.serverCpuUs),
      hostSwitches: median(samples, (sample) => sample.hostSwitches),
      serverSwitches: median(samples, (sample) => sample.serverSwitches),
    }),
  );
}
