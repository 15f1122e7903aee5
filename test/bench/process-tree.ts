// Programs measured from outside: wall time, processor time of the whole process tree, peak memory of the tree (PSS, so that shared pages
// count once), and what others did to the machine meanwhile. Processor time and memory need Linux; elsewhere they are NaN.

import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** Clock ticks a second in /proc. */
const TICKS = 100;
const SAMPLE_MS = 200;

/** What one run of a program took. */
export interface Usage {
  readonly wallMs: number;
  /** User and system time of the program and all its descendants. */
  readonly cpuMs: number;
  /** Greatest sum of PSS over the tree that was sampled; NaN when it was not. */
  readonly peakPssBytes: number;
  /** Greatest resident memory of one process of the tree (VmHWM, as last sampled); NaN when it was not. */
  readonly peakRssBytes: number;
  /** Cores that other processes kept busy meanwhile, on average. */
  readonly othersCores: number;
  readonly stdout: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Sample the tree's memory five times a second. Costs the machine about a percent. Default false. */
  readonly memory?: boolean;
}

/** Fields of /proc/PID/stat after the program's name, which may contain blanks. */
function statFields(path: string): readonly string[] {
  const stat = readFileSync(path, "latin1");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** Processor time of children that have ended and were waited for, theirs included, in ms. */
export function endedChildrenCpuMs(): number {
  if (process.platform !== "linux") return NaN;
  const fields = statFields("/proc/self/stat");
  return ((Number(fields[13]) + Number(fields[14])) * 1000) / TICKS;
}

/** Processor time of one live process, in ms. */
export function processCpuMs(pid: number): number {
  if (process.platform !== "linux") return NaN;
  const fields = statFields(`/proc/${pid}/stat`);
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS;
}

/** Time that all cores together were busy since boot, in ms. */
export function machineBusyMs(): number {
  if (process.platform !== "linux") return NaN;
  const [line = ""] = readFileSync("/proc/stat", "latin1").split("\n", 1);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return ((user + nice + system + irq + softirq) * 1000) / TICKS;
}

/** A process and all that descend from it. */
export function treeOf(pid: number): number[] {
  const tree = [pid];
  for (const member of tree) {
    try {
      for (const task of readdirSync(`/proc/${member}/task`))
        tree.push(
          ...readFileSync(`/proc/${member}/task/${task}/children`, "latin1")
            .split(" ")
            .filter(Boolean)
            .map(Number),
        );
    } catch {
      // It has ended meanwhile.
    }
  }
  return tree;
}

/** Sum of PSS over a process tree, in bytes. */
export function treePssBytes(pid: number): number {
  let sum = 0;
  for (const member of treeOf(pid)) {
    try {
      const found = /^Pss:\s+(\d+) kB/m.exec(
        readFileSync(`/proc/${member}/smaps_rollup`, "latin1"),
      );
      sum += Number(found?.[1] ?? 0) * 1024;
    } catch {
      // It has ended meanwhile.
    }
  }
  return sum;
}

/** Greatest VmHWM in a process tree, in bytes: the most that the largest of its processes ever had resident. */
export function treeHighWaterBytes(pid: number): number {
  let most = 0;
  for (const member of treeOf(pid)) {
    try {
      const found = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${member}/status`, "latin1"));
      most = Math.max(most, Number(found?.[1] ?? 0) * 1024);
    } catch {
      // It has ended meanwhile.
    }
  }
  return most;
}

/**
 * Runs a program to its end. Only one at a time.
 * @throws Error with what it wrote to stderr when it ends with anything but 0.
 */
export async function runMeasured(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<Usage> {
  const cpuBefore = endedChildrenCpuMs();
  const ownBefore = process.cpuUsage();
  const busyBefore = machineBusyMs();
  const began = performance.now();
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...options.env },
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on("data", (bytes: Buffer) => out.push(bytes));
  child.stderr.on("data", (bytes: Buffer) => err.push(bytes));
  let peak = options.memory && process.platform === "linux" ? 0 : NaN;
  let peakRss = peak;
  const sampler = Number.isNaN(peak)
    ? undefined
    : setInterval(() => {
        peak = Math.max(peak, treePssBytes(child.pid ?? 0));
        peakRss = Math.max(peakRss, treeHighWaterBytes(child.pid ?? 0));
      }, SAMPLE_MS);
  const { promise, resolve, reject } = deferred<number | null>();
  let exited = began;
  child.on("error", reject);
  child.on("exit", () => (exited = performance.now()));
  child.on("close", resolve);
  const exit = await promise.finally(() => {
    clearInterval(sampler);
  });
  const wallMs = exited - began;
  const stderr = Buffer.concat(err).toString();
  if (exit !== 0)
    throw new Error(
      `${command} ${args.join(" ")} ended with ${String(exit)}: ${stderr.slice(-2000)}`,
    );
  const cpuMs = endedChildrenCpuMs() - cpuBefore;
  const own = process.cpuUsage(ownBefore);
  const othersMs = machineBusyMs() - busyBefore - cpuMs - (own.user + own.system) / 1000;
  return {
    wallMs,
    cpuMs,
    peakPssBytes: peak,
    peakRssBytes: peakRss,
    othersCores: Math.max(0, othersMs / wallMs),
    stdout: Buffer.concat(out).toString(),
  };
}

function deferred<T>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
} {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** What this process (all its threads) did while a call ran. */
export interface OwnUsage {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly othersCores: number;
}

/** Measures a call in this process. */
export async function measureHere<T>(
  call: () => T | Promise<T>,
): Promise<OwnUsage & { readonly result: T }> {
  const busy = machineBusyMs();
  const cpu = process.cpuUsage();
  const began = performance.now();
  const result = await call();
  const wallMs = performance.now() - began;
  const { user, system } = process.cpuUsage(cpu);
  const cpuMs = (user + system) / 1000;
  return {
    result,
    wallMs,
    cpuMs,
    othersCores: Math.max(0, (machineBusyMs() - busy - cpuMs) / wallMs),
  };
}
