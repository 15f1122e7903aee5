// Queries of a large view: in-process, and over HTTP beside a bare server that answers a constant of the same size.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { ViewIndex } from "../../../indexer/index.js";
import { dataFile } from "../data.js";
import { Random } from "../generator.js";
import { requestsPerSecond } from "../http-load.js";
import { median, short, spread, type Table } from "../numbers.js";
import { measureHere } from "../process-tree.js";
import { startProgram, startServe } from "../server-program.js";
import { check, say, type Report, type Settings, type Subject } from "../subject.js";
import { verifyOpen } from "../verify-index.js";
import { designDocument, expectedOf, type Expected } from "../views.js";

const LOOKUPS = 100_000;
const HTTP_MS = 2000;
const CONNECTIONS = 16;

type Parameters = Readonly<Record<string, unknown>>;

interface Question {
  readonly name: string;
  readonly unit: string;
  readonly http?: (random: Random) => Parameters;
  /** Asks once or often; returns how many units were answered. */
  readonly here: (index: ViewIndex, random: Random) => Promise<number>;
  readonly target?: string;
}

async function many(
  index: ViewIndex,
  times: number,
  parameters: () => Parameters,
  rows?: number,
): Promise<number> {
  for (let i = 0; i < times; i++) {
    const answer = await index.query("one", "by_user", parameters());
    const object = answer.objectSync() ?? (await answer.object());
    if (rows !== undefined)
      check(object.rows.length === rows, `${object.rows.length} rows, not ${rows}`);
  }
  return times;
}

/** The time to the first row, then all of them. */
async function stream(index: ViewIndex, parameters: Parameters, first: number[]): Promise<number> {
  const began = performance.now();
  const answer = await index.query("one", "by_user", parameters);
  let rows = 0;
  for await (const page of answer.pages()) {
    if (rows === 0) first.push(performance.now() - began);
    rows += page.length;
  }
  return rows;
}

function questions(expected: Expected, firstGroup: number[], firstRow: number[]): Question[] {
  const groups = expected.views["by_user"]?.groups ?? new Map<string, number[]>();
  const users = [...groups.keys()].map((text) => JSON.parse(text) as string);
  const rare = users.filter((user) => (groups.get(JSON.stringify(user))?.[0] ?? 0) <= 5);
  const sorted = users.toSorted();
  const startOfRange = (random: Random): string =>
    sorted[random.below(Math.max(1, sorted.length - 1000))] ?? "";
  return [
    {
      name: "key=, a user of at most 5 rows, reduce=false",
      unit: "queries/s",
      target: "≥ 150 000 in-process; over HTTP ≥ 0.6 of the bare server",
      http: (random) => ({ key: random.pick(rare), reduce: false }),
      here: (index, random) =>
        many(index, LOOKUPS, () => ({ key: random.pick(rare), reduce: false })),
    },
    {
      name: "key=, any user, reduced",
      unit: "queries/s",
      http: (random) => ({ key: random.pick(users) }),
      here: (index, random) => many(index, LOOKUPS, () => ({ key: random.pick(users) }), 1),
    },
    {
      name: "startkey=, limit=100, reduce=false",
      unit: "queries/s",
      http: (random) => ({ startkey: startOfRange(random), limit: 100, reduce: false }),
      here: (index, random) =>
        many(
          index,
          LOOKUPS / 20,
          () => ({ startkey: startOfRange(random), limit: 100, reduce: false }),
          100,
        ),
    },
    {
      name: "startkey=, endkey=, reduced",
      unit: "queries/s",
      http: (random) => ({ startkey: startOfRange(random), endkey: "u9\ufff0" }),
      here: (index, random) =>
        many(
          index,
          LOOKUPS / 10,
          () => ({ startkey: startOfRange(random), endkey: "u9\ufff0" }),
          1,
        ),
    },
    {
      name: "everything, reduced",
      unit: "queries/s",
      target: "≤ 1 ms each",
      http: () => ({}),
      here: (index) => many(index, LOOKUPS / 10, () => ({}), 1),
    },
    {
      name: "group_level=1, everything",
      unit: "groups/s",
      target: "≥ 250 000, the first ≤ 20 ms",
      here: (index) => stream(index, { group_level: 1 }, firstGroup),
    },
    {
      name: "all rows, reduce=false",
      unit: "rows/s",
      here: (index) => stream(index, { reduce: false }, firstRow),
    },
  ];
}

function pathOf(parameters: Parameters): string {
  const query = Object.entries(parameters).map(
    ([name, value]) => `${name}=${encodeURIComponent(JSON.stringify(value))}`,
  );
  return `/db/_design/one/_view/by_user?${query.join("&")}`;
}

interface HttpLine {
  readonly name: string;
  readonly bodyBytes: number;
  readonly ours: number[];
  readonly bare: number[];
  readonly cpuUs: number[];
  readonly bareCpuUs: number[];
}

async function overHttp(
  settings: Settings,
  dir: string,
  file: string,
  asked: readonly Question[],
): Promise<HttpLine[]> {
  const program = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
  const server = await startServe(dir, file);
  const lines: HttpLine[] = [];
  try {
    for (const { name, http } of asked) {
      if (!http) continue;
      const random = new Random(3);
      const paths = Array.from({ length: 2000 }, () => pathOf(http(random)));
      const bodies = await Promise.all(
        paths
          .slice(0, 50)
          .map(async (path) => (await fetch(`http://127.0.0.1:${server.port}${path}`)).text()),
      );
      const size = median(bodies.map((body) => Buffer.byteLength(body)));
      const body = join(settings.workDir, "body.json");
      writeFileSync(body, "x".repeat(Math.round(size)));
      const bare = await startProgram([program("../bare-server.js"), body]);
      const line: HttpLine = {
        name,
        bodyBytes: Math.round(size),
        ours: [],
        bare: [],
        cpuUs: [],
        bareCpuUs: [],
      };
      try {
        const once = async (
          of: typeof server,
          rate: number[],
          cpu: number[],
          keep: boolean,
        ): Promise<void> => {
          const before = of.cpuMs();
          const perSecond = await requestsPerSecond(of.port, paths, {
            connections: CONNECTIONS,
            ms: HTTP_MS,
          });
          if (!keep) return;
          rate.push(perSecond);
          cpu.push(((of.cpuMs() - before) * 1000) / (perSecond * (HTTP_MS / 1000)));
        };
        for (let round = -1; round < settings.rounds; round++) {
          await once(server, line.ours, line.cpuUs, round >= 0);
          await once(bare, line.bare, line.bareCpuUs, round >= 0);
        }
      } finally {
        await bare.stop();
      }
      lines.push(line);
    }
  } finally {
    await server.stop();
  }
  return lines;
}

async function run(settings: Settings): Promise<Report> {
  const file = await dataFile(settings.dataDir, settings.docs, { seed: 1 });
  const expected = expectedOf(file, "one");
  const dir = join(settings.workDir, "index");
  const index = await ViewIndex.open({
    dir,
    source: file,
    designDocuments: [designDocument("one")],
    mapIn: "threads",
    threads: 2,
  });
  const firstGroup: number[] = [];
  const firstRow: number[] = [];
  const asked = questions(expected, firstGroup, firstRow);
  const rows: string[][] = [];
  try {
    await index.update();
    await verifyOpen(index, "one", expected);
    for (const { name, unit, here, target = "" } of asked) {
      const rates: number[] = [];
      const cpu: number[] = [];
      for (let round = -1; round < settings.rounds; round++) {
        const measured = await measureHere(() => here(index, new Random(round + 2)));
        if (round < 0) continue;
        rates.push((measured.result * 1000) / measured.wallMs);
        cpu.push((measured.cpuMs * 1000) / measured.result);
      }
      say(`  ${name}: ${spread(rates)} ${unit}`);
      rows.push([name, unit, spread(rates), spread(cpu), target]);
    }
  } finally {
    await index.close();
  }
  const lines = await overHttp(settings, dir, file, asked);
  const tables: Table[] = [
    {
      title: `In-process, ${settings.docs.toLocaleString("en-US")} rows, warm`,
      head: ["query", "unit", "rate", "CPU µs each", "target"],
      rows,
    },
    {
      title: `Over HTTP, ${CONNECTIONS} connections`,
      head: [
        "query",
        "body bytes",
        "viewmill serve, req/s",
        "bare node:http, req/s",
        "viewmill / bare",
        "server CPU µs",
        "bare CPU µs",
      ],
      rows: lines.map(({ name, bodyBytes, ours, bare, cpuUs, bareCpuUs }) => [
        name,
        String(bodyBytes),
        spread(ours),
        spread(bare),
        short(median(ours.map((rate, i) => rate / (bare[i] ?? NaN)))),
        spread(cpuUs),
        spread(bareCpuUs),
      ]),
    },
  ];
  return {
    about:
      "A view `emit(doc.user, 1)` with `_count`. In-process: `index.query(…)` from parameters to an object of parsed rows (streams: to pages of row texts), `update` as by default, so that each query also looks whether the source has changed; one warm-up round. Over HTTP: `viewmill serve` as a program of its own, a client in this process with one request under way on each connection, and in turn a bare `node:http` server answering a constant of the same size. All rows and groups of the view were compared with a naive computation first.",
    tables,
    notes: [
      `The first page of group_level=1 came after ${spread(firstGroup)} ms, of all rows after ${spread(firstRow)} ms.`,
      "Client and server share the machine's cores, so the rates of both servers are bounded by the client too; the CPU columns are the servers' own.",
    ],
    data: { lines },
  };
}

export const queries: Subject = { title: "Queries", run };
