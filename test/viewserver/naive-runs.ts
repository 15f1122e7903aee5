// Sees that an attack works where nothing defends.
import { spawn } from "node:child_process";
import path from "node:path";
import { setTimeout } from "node:timers/promises";

import { expect } from "@jest/globals";

import { attackSource, type Attack, type NaiveEnd } from "./attacks.js";
import { FORGED_LINE } from "./forgeries.js";
import { ESCAPED_EXIT, runNaively, runNeighbours } from "./naive.js";
import { NEIGHBOUR, NEIGHBOUR_ROWS } from "./neighbours.js";

/** One that runs so long hangs. */
const HANG_MS = 5000;

interface Ended {
  /** Code or signal. */
  readonly exit: number | string | null;
  readonly stdout: string;
}

async function child(
  how: "--attack" | "--serve",
  source: string,
  ...flags: readonly string[]
): Promise<Ended> {
  const child = spawn(
    process.execPath,
    [...flags, path.join(import.meta.dirname, "naive.js"), how, source],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  let stdout = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  return new Promise((resolve) => {
    const timer = globalThis.setTimeout(() => child.kill("SIGKILL"), HANG_MS);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ exit: signal ?? code, stdout });
    });
  });
}

const shared: object[] = [Object.prototype, Array.prototype, Function.prototype];

/** Prototypes of this host that an attack changed. */
export const pollution = (): object[] => shared.filter((o) => Object.hasOwn(o, "polluted"));

const exitsWith =
  (exit: Ended["exit"], ...flags: readonly string[]) =>
  async (source: string): Promise<void> => {
    expect((await child("--attack", source, ...flags)).exit).toBe(exit);
  };

/** How each end is seen. */
const seen: Readonly<Record<NaiveEnd, (source: string) => void | Promise<void>>> = {
  escapes: (source) => {
    expect(runNaively(source)).toContain("ESCAPED");
  },
  "escapes later": async (source) => {
    const emitted = runNaively(source);
    for (let i = 0; i < 500 && !emitted.includes("ESCAPED"); i++) await setTimeout(1);
    expect(emitted).toContain("ESCAPED");
  },
  // Under jest the naive host is itself a context, whose errors near the end of the stack come from elsewhere.
  "escapes in a process": exitsWith(ESCAPED_EXIT),
  pollutes: (source) => {
    try {
      runNaively(source);
      expect(pollution()).not.toEqual([]);
    } finally {
      for (const o of shared) Reflect.deleteProperty(o, "polluted");
    }
  },
  "harms its neighbour": (source) => {
    expect(runNeighbours("function () {}", NEIGHBOUR)).toEqual(NEIGHBOUR_ROWS);
    let rows: unknown;
    try {
      rows = runNeighbours(source, NEIGHBOUR);
    } catch {
      rows = "the other function failed";
    }
    expect(rows).not.toEqual(NEIGHBOUR_ROWS);
  },
  "forges a reply": async (source) => {
    expect((await child("--serve", source)).stdout.split("\n")).toContain(FORGED_LINE);
  },
  kills: exitsWith(1),
  aborts: exitsWith("SIGABRT", "--max-old-space-size=32"),
  hangs: exitsWith("SIGKILL"),
};

export const naiveEnds: readonly string[] = Object.keys(seen);

/** Fails unless the attack works against a naive host. */
export async function expectNaively(attack: Attack): Promise<void> {
  await seen[attack.naive](attackSource(attack));
}
