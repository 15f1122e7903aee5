// What more answering processes bring, beside the controls that tell our own cost from the machine's: a bare server once, twice on two
// ports, and twice behind node:cluster; and two servers of ours that know nothing of each other.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { ViewIndex } from "../../../indexer/index.js";
import { dataFile } from "../data.js";
import { short, spread, median } from "../numbers.js";
import { machineBusyMs, processCpuMs } from "../process-tree.js";
import { startProgram, startServe, type ServerProgram } from "../server-program.js";
import { check, say, type Report, type Settings, type Subject } from "../subject.js";
import { designDocument, expectedOf } from "../views.js";

const DOCUMENTS_MAX = 100_000;
/** In all, shared by two clients, so that a configuration of two servers is asked just as one is. */
const CONNECTIONS = 16;
const SECONDS = 2;
/** Windows in which others took more of a core than this are taken again … */
const OTHERS_MAX = 0.08;
/** … but not for ever. */
const TRIES = 3;

interface Config {
  readonly name: string;
  readonly start: () => Promise<ServerProgram[]>;
}

interface Line {
  readonly name: string;
  readonly rates: number[];
  readonly cpuUs: number[];
  readonly clientUs: number[];
  readonly others: number[];
}

interface Window {
  readonly rate: number;
  readonly cpuUs: number;
  readonly clientUs: number;
  readonly others: number;
}

const program = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** wrk costs a third of a client in JavaScript: with that one, the client would be what is measured. */
async function load(port: number, script: string): Promise<{ requests: number; cpuMs: number }> {
  const args = ["-t1", `-c${CONNECTIONS / 2}`, `-d${SECONDS}s`, "-s", script];
  const child = spawn("wrk", [...args, `http://127.0.0.1:${port}`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  let cpuMs = 0;
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    text += part;
  });
  const watch = setInterval(() => {
    try {
      cpuMs = processCpuMs(child.pid ?? 0);
    } catch {
      // It has ended.
    }
  }, 20);
  await once(child, "close");
  clearInterval(watch);
  check(!/Non-2xx|Socket errors/.test(text), `wrk met errors: ${text}`);
  return { requests: Number(/(\d+) requests in/.exec(text)?.[1]), cpuMs };
}

async function window(servers: readonly ServerProgram[], script: string): Promise<Window> {
  const [first, second = first] = servers;
  const cpu = (): number => servers.reduce((sum, server) => sum + server.cpuMs(), 0);
  const before = { cpu: cpu(), busy: machineBusyMs(), at: performance.now() };
  const clients = await Promise.all(
    [first, second].map((server) => load(server?.port ?? 0, script)),
  );
  const wallMs = performance.now() - before.at;
  const cpuMs = cpu() - before.cpu;
  const requests = clients.reduce((sum, client) => sum + client.requests, 0);
  const clientMs = clients.reduce((sum, client) => sum + client.cpuMs, 0);
  return {
    rate: requests / SECONDS,
    cpuUs: (cpuMs * 1000) / requests,
    clientUs: (clientMs * 1000) / requests,
    others: Math.max(0, (machineBusyMs() - before.busy - cpuMs - clientMs) / wallMs),
  };
}

async function run(settings: Settings): Promise<Report> {
  const docs = Math.min(settings.docs, DOCUMENTS_MAX);
  const file = await dataFile(settings.dataDir, docs, { seed: 1 });
  const users = [...(expectedOf(file, "one").views["by_user"]?.groups.keys() ?? [])];
  const dirs = [join(settings.workDir, "index"), join(settings.workDir, "other")] as const;
  const index = await ViewIndex.open({
    dir: dirs[0],
    source: file,
    designDocuments: [designDocument("one")],
    mapIn: "threads",
  });
  await index.update();
  await index.close();
  cpSync(dirs[0], dirs[1], { recursive: true });
  const script = join(settings.workDir, "lookup.lua");
  const asked = users.slice(0, 5000).map((user) => JSON.stringify(encodeURIComponent(user)));
  writeFileSync(
    script,
    `local users = {${asked.join(",")}}\nrequest = function()\n  return wrk.format("GET", "/db/_design/one/_view/by_user?key=" .. users[math.random(#users)])\nend\n`,
  );
  const body = join(settings.workDir, "body.json");
  writeFileSync(body, '{"rows":[\r\n{"key":null,"value":123456}\r\n]}\n');

  const serve = (dir: string, ...flags: string[]): Promise<ServerProgram> =>
    startServe(dir, file, ...flags);
  const bare = (count: string): Promise<ServerProgram> =>
    startProgram([program("../bare-server.js"), body, count]);
  const configs: Config[] = [
    { name: "bare server", start: async () => [await bare("1")] },
    { name: "two bare servers, two ports", start: async () => [await bare("1"), await bare("1")] },
    { name: "bare server, node:cluster of two", start: async () => [await bare("2")] },
    { name: "serve", start: async () => [await serve(dirs[0])] },
    {
      name: "two of serve, two ports, each its own index",
      start: async () => [await serve(dirs[0]), await serve(dirs[1])],
    },
    { name: "serve --workers 1", start: async () => [await serve(dirs[0], "--workers", "1")] },
    { name: "serve --workers 2", start: async () => [await serve(dirs[0], "--workers", "2")] },
  ];
  const lines: Line[] = [];
  for (const { name, start } of configs) {
    const line: Line = { name, rates: [], cpuUs: [], clientUs: [], others: [] };
    const servers = await start();
    try {
      for (let i = 0; i < 2; i++) await window(servers, script);
      for (let round = 0; round < settings.rounds; round++) {
        let one = await window(servers, script);
        for (let again = 1; again < TRIES && one.others > OTHERS_MAX; again++)
          one = await window(servers, script);
        line.rates.push(one.rate);
        line.cpuUs.push(one.cpuUs);
        line.clientUs.push(one.clientUs);
        line.others.push(one.others);
      }
    } finally {
      for (const server of servers) await server.stop();
    }
    say(`  ${name}: ${spread(line.rates)} requests/s, ${spread(line.cpuUs)} µs`);
    lines.push(line);
  }
  const rateOf = (name: string): number =>
    median(lines.find((line) => line.name === name)?.rates ?? []);
  const times = (more: string, one: string): string => short(rateOf(more) / rateOf(one));
  const ratio = `Throughput with 2 workers over 1 on 2 cores: ${times("serve --workers 2", "serve --workers 1")} (over one process without workers: ${times("serve --workers 2", "serve")}).`;
  say(`  ${ratio}`);
  return {
    about: `Reduced lookups by key over HTTP (\`key=\`, any of ${asked.length} users, ${docs.toLocaleString("en-US")} documents, \`update=true\`, everything cached), ${CONNECTIONS} connections from two wrk processes on the same two cores, windows of ${SECONDS} s. A window in which others took more than ${OTHERS_MAX * 100} % of a core was taken again, twice at most.`,
    tables: [
      {
        head: ["servers", "requests/s", "server CPU µs each", "wrk CPU µs each", "others, cores"],
        rows: lines.map((line) => [
          line.name,
          spread(line.rates),
          spread(line.cpuUs),
          spread(line.clientUs),
          spread(line.others, 2),
        ]),
      },
    ],
    notes: [
      ratio,
      `Controls: two bare servers over one ${times("two bare servers, two ports", "bare server")}, behind node:cluster ${times("bare server, node:cluster of two", "bare server")}; two of ours that know nothing of each other over one ${times("two of serve, two ports, each its own index", "serve")}.`,
    ],
    data: { lines },
  };
}

export const workers: Subject = { title: "Answering processes", run };
