// What the view server costs above its floor: one thread that parses a document, calls the map function and prints the rows, with no
// isolation and no protocol. First in one process by `Session.mapDocument`, then the compiled program fed through a pipe; CPU time, not
// wall time, each the best of five, in turn. usage: node dist/test/bench/viewserver.js [DOCUMENTS]
import { spawn } from "node:child_process";
import path from "node:path";
import { runInThisContext } from "node:vm";
import { Session } from "../../viewserver/index.js";

const MAP = "function (doc) { if (doc.user) emit(doc.user, 1); }";
const ROUNDS = 5;
const documents = Number(process.argv[2] ?? 200_000);

function makeDocuments(count: number, bytes: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    const doc = {
      _id: `doc${String(i).padStart(8, "0")}`,
      _rev: `1-${"abcdef0123456789".repeat(2)}`,
      type: "order",
      user: `user${(i * 7919) % 5000}`,
      amount: ((i * 37) % 10_000) / 100,
      tags: ["red", "blue", `t${i % 10}`],
      items: [] as object[],
    };
    let size = JSON.stringify(doc).length;
    while (size < bytes - 40) {
      const item = { sku: `A${doc.items.length}`, quantity: i % 5, note: "é bien" };
      doc.items.push(item);
      size += JSON.stringify(item).length + 1;
    }
    return JSON.stringify(doc);
  });
}

/** Microseconds of CPU for each document. */
function cpu(docs: readonly string[], map: (text: string) => string): number {
  const before = process.cpuUsage();
  for (const doc of docs) map(doc);
  const used = process.cpuUsage(before);
  return (used.user + used.system) / docs.length;
}

/** The best of each, taken in turn: what the machine does besides changes from second to second. */
async function bestInTurn(
  first: () => number | Promise<number>,
  second: () => number | Promise<number>,
): Promise<[first: number, second: number]> {
  let best: [number, number] = [Infinity, Infinity];
  for (let round = 0; round < ROUNDS; round++)
    best = [Math.min(best[0], await first()), Math.min(best[1], await second())];
  return best;
}

function floorMap(): (text: string) => string {
  let rows: unknown[] = [];
  const emit = (key: unknown, value: unknown): void => {
    rows.push([key, value]);
  };
  const make = runInThisContext(`(function (emit) { return ${MAP} })`) as (
    e: typeof emit,
  ) => (doc: unknown) => void;
  const map = make(emit);
  return (text) => {
    rows = [];
    map(JSON.parse(text));
    return JSON.stringify([rows]);
  };
}

const REPORT = `data:text/javascript,process.on("exit",()=>{const u=process.cpuUsage();process.stderr.write("CPU "+(u.user+u.system))})`;
const FLOOR = `
  const fs = await import("node:fs");
  const buffer = Buffer.allocUnsafe(1 << 20);
  let rows = [], carry = "", n = 0;
  const map = new Function("emit", ${JSON.stringify(`return ${MAP}`)})((k, v) => { rows.push([k, v]); });
  for (;;) {
    const read = fs.readSync(0, buffer, 0, buffer.length, null);
    if (read === 0) break;
    const text = carry + buffer.toString("utf8", 0, read);
    let from = 0;
    for (let end; (end = text.indexOf("\\n", from)) >= 0; from = end + 1) {
      rows = [];
      map(JSON.parse(text.slice(from, end)));
      n += JSON.stringify([rows]).length;
    }
    carry = text.slice(from);
  }`;

/** Microseconds of CPU that a child needs for its whole life. */
async function childCpu(args: readonly string[], blocks: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, ["--import", REPORT, ...args], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdout.resume();
  for (const block of blocks) {
    if (!child.stdin.write(block))
      await new Promise((resolve) => child.stdin.once("drain", resolve));
  }
  child.stdin.end();
  await new Promise((resolve) => child.once("close", resolve));
  return Number(/CPU (\d+)/.exec(stderr)?.[1]);
}

function inBlocks(lines: readonly string[]): string[] {
  const blocks: string[] = [];
  for (let i = 0; i < lines.length; i += 1000)
    blocks.push(lines.slice(i, i + 1000).join("\n") + "\n");
  return blocks;
}

const main = path.join(import.meta.dirname, "../../viewserver/main.js");
for (const bytes of [250, 10_000]) {
  const docs = makeDocuments(Math.ceil(bytes > 1000 ? documents / 6 : documents), bytes);
  const session = new Session();
  session.handle('["reset"]');
  session.handle(JSON.stringify(["add_fun", MAP]));
  const map = floorMap();
  const [floor, mapped] = await bestInTurn(
    () => cpu(docs, map),
    () => cpu(docs, (text) => session.mapDocument(text)),
  );

  const commands = [
    '["reset"]',
    JSON.stringify(["add_fun", MAP]),
    ...docs.map((doc) => `["map_doc",${doc}]`),
  ];
  const floorBlocks = inBlocks(docs);
  const blocks = inBlocks(commands);
  const [pipeFloor, pipe] = await bestInTurn(
    async () => (await childCpu(["--input-type=module", "-e", FLOOR], floorBlocks)) / docs.length,
    async () => (await childCpu([main], blocks)) / docs.length,
  );
  console.log(
    JSON.stringify({
      documents: docs.length,
      documentBytes: Math.round(
        docs.reduce((sum, doc) => sum + Buffer.byteLength(doc), 0) / docs.length,
      ),
      floorUs: round(floor),
      sessionUs: round(mapped),
      sessionRatio: round(mapped / floor),
      pipeFloorUs: round(pipeFloor),
      pipeUs: round(pipe),
      pipeRatio: round(pipe / pipeFloor),
    }),
  );
}

function round(n: number): number {
  return Math.round(n * 100) / 100;
}
