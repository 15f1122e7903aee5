// The pipelining experiment, in pieces: each server with each window is a contender of its own, since a million
// commands that wait for each other take long.

import type { Report, Settings, Subject } from "../subject.js";
import { linesOf, tableOf, type Line } from "./scripts.js";

const SERVERS = { own: "viewmill-server", "half-duplex": "a half-duplex server" } as const;
const WINDOWS = ["1", "10", "100", "any"] as const;

type Server = keyof typeof SERVERS;

const PIECES = (Object.keys(SERVERS) as Server[]).flatMap((server) =>
  WINDOWS.map((window) => ({ name: `${server}-${window}`, server, window })),
);

async function run(settings: Settings): Promise<Report> {
  const { docs, rounds, only, before = {} } = settings;
  const measured: Record<string, Line> = {};
  for (const { name, server, window } of PIECES) {
    const earlier = before[name] as Line | undefined;
    if (only.length > 0 && !only.includes(name)) {
      if (earlier !== undefined) measured[name] = earlier;
      continue;
    }
    const [line] = await linesOf(["protocol.js", docs, server, rounds, window]);
    measured[name] = { ...line, rounds, at: new Date().toISOString().slice(0, 16) };
  }
  const tables = (Object.keys(SERVERS) as Server[]).map((server) => {
    const lines = PIECES.filter((piece) => piece.server === server).flatMap(({ name }): Line[] =>
      measured[name] ? [measured[name]] : [],
    );
    return tableOf(
      SERVERS[server],
      lines.map(({ server: _server, at: _at, ...rest }): Line => rest),
    );
  });
  const times = Object.values(measured)
    .map(({ at }) => String(at))
    .sort();
  return {
    about:
      "The same documents through one child process with windows of 1, 10 and 100 unanswered commands, and of 1 MiB of them: our own server, and a server that reads 4 KiB at a time and writes a line at a time. A window of 1 is the strict half-duplex of CouchDB's own client. Microseconds and context switches are per document; host is this side, server the child.",
    tables,
    notes: [
      `Each line is a run of its own (\`--only own-1\`, …), between ${times[0] ?? "–"} and ${times.at(-1) ?? "–"} UTC.`,
    ],
    data: measured,
  };
}

export const pipelining: Subject = {
  title: "Experiment: pipelining",
  run,
  contenders: PIECES.map(({ name }) => name),
};
