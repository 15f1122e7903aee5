// Servers under test: started as programs of their own, known by the port they print.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { processCpuMs, treeOf } from "./process-tree.js";

export interface ServerProgram {
  readonly port: number;
  /** Processor time of the server's process tree so far, in ms. */
  cpuMs(): number;
  stop(): Promise<void>;
}

/** Starts a program that prints JSON with `port`, or `listening` with a URL. */
export async function startProgram(args: readonly string[]): Promise<ServerProgram> {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface(child.stdout);
  const [line] = (await once(lines, "line")) as [string];
  const told = JSON.parse(line) as { port?: number; listening?: string };
  const port = told.port ?? Number(new URL(told.listening ?? "").port);
  return {
    port,
    cpuMs: () => treeOf(child.pid ?? 0).reduce((sum, pid) => sum + processCpuMs(pid), 0),
    stop: async () => {
      const closed = once(child, "close");
      child.kill("SIGTERM");
      await closed;
    },
  };
}

/** `viewmill serve` over an index directory and the file it was built from, at a free port; more flags as given. */
export function startServe(dir: string, file: string, ...flags: string[]): Promise<ServerProgram> {
  const program = fileURLToPath(new URL("../../indexer/cli/main.js", import.meta.url));
  const fixed = ["--source", file, "--port", "0", "--json", "--quiet"];
  return startProgram([program, "serve", dir, ...fixed, ...flags]);
}
