// Threads share one process with the index, and some memory bombs abort a process whatever its limits. So commands that map in threads
// run in a child of this one: when it dies, it is started again, goes on from its last checkpoint and maps what was under way in
// view-server processes (see views/careful.ts), where the guilty document is found.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";

const SUPERVISED = "VIEWMILL_SUPERVISED";
/** Port that the child before this one listened on. */
const PORT = "VIEWMILL_PORT";
const RESTARTS_MAX = 50;
/**
 * glibc gives blocks of this many bytes and more a mapping of their own and returns them to the system when they are freed. Left to
 * itself it raises the limit with every large block that is freed, to 32 MiB, and what an indexer keeps resident grows with the length
 * of the build (figures in test/bench/PROFILES.md). Other allocators ignore it; who has set it keeps his value.
 */
const MALLOC = { MALLOC_MMAP_THRESHOLD_: String(1 << 20) };
/** A child that has said its result and does not end has a thread that cannot be interrupted: it is killed. */
const END_GRACE_MS = 1500;
/** Signals of a process that broke, not of one that was asked to end. */
const BROKEN = new Set(["SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGTRAP", "SIGFPE", "SIGKILL"]);
/** What Node ends with when V8 gives up without a signal. */
const FATAL_EXITS = new Set([5, 7, 134, 139]);

/** True in the child. */
export function isSupervised(): boolean {
  return process.env[SUPERVISED] === "1";
}

/** Commands that may map in threads. */
const GUARDED = new Set(["build", "follow", "serve"]);

/**
 * Whether a command line can be told, without parsing it, to be one that runs in a supervised child: so that the child can start at once.
 * When in doubt, no: then its options are parsed, which says.
 */
export function isSurelyGuarded(argv: readonly string[]): boolean {
  return (
    GUARDED.has(argv[0] ?? "") &&
    // The options that ask for processes, and stdin as a source, in whatever way it is written.
    !argv.some(
      (arg) => arg.startsWith("--server") || arg.startsWith("--map-in") || arg.endsWith("-"),
    )
  );
}

/** In the child: a supervisor that was killed takes it along, or the index would stay locked by a process that nobody sees. */
export function endWithSupervisor(): void {
  process.once("disconnect", () => {
    process.kill(process.pid, "SIGKILL");
  });
  process.channel?.unref();
}

/** The child's last word; results must have been written. */
export function sayResult(exit: number): void {
  process.send?.({ exit });
}

/** In the child: tells which port it listens on, so that another in its place takes the same. */
export function keepPort(port: number): void {
  if (isSupervised()) process.send?.({ port });
}

/** In the child: the port that the one before it listened on; undefined for the first. */
export function keptPort(): number | undefined {
  const port = isSupervised() ? process.env[PORT] : undefined;
  return port === undefined ? undefined : Number(port);
}

/** Runs this program again as a supervised child until it ends in an orderly way. Returns its exit code. */
export async function supervise(argv: readonly string[]): Promise<number> {
  const program = process.argv[1] ?? "";
  let port: number | undefined;
  for (let restarts = 0; ; restarts++) {
    // Not execa: the supervisor is all that stands between a command and its work, and must start at once.
    const child = spawn(process.execPath, [...process.execArgv, program, ...argv], {
      stdio: ["inherit", "inherit", "inherit", "ipc"],
      env: {
        ...MALLOC,
        ...process.env,
        [SUPERVISED]: "1",
        ...(port === undefined ? {} : { [PORT]: String(port) }),
      },
    });
    let said: number | undefined;
    let grace: NodeJS.Timeout | undefined;
    child.on("message", (message) => {
      const told = message as { readonly exit?: number; readonly port?: number };
      if (told.port !== undefined) {
        port = told.port;
        return;
      }
      said = told.exit;
      grace ??= setTimeout(() => child.kill("SIGKILL"), END_GRACE_MS);
    });
    // On a terminal the child gets the signal too; elsewhere only this process does.
    const forward = (signal: NodeJS.Signals): void => {
      if (signal === "SIGTERM" || !process.stdin.isTTY) child.kill(signal);
    };
    process.on("SIGINT", forward);
    process.on("SIGTERM", forward);
    const [exitCode, signal] = (await once(child, "close")) as [
      number | null,
      NodeJS.Signals | null,
    ];
    process.off("SIGINT", forward);
    process.off("SIGTERM", forward);
    clearTimeout(grace);
    if (said !== undefined) return said;
    const broken = signal === null ? FATAL_EXITS.has(exitCode ?? -1) : BROKEN.has(signal);
    if (!broken) return exitCode ?? 128 + (signal === null ? 0 : constants.signals[signal]);
    const how = signal ?? `exit code ${String(exitCode)}`;
    if (restarts >= RESTARTS_MAX) {
      process.stderr.write(
        `viewmill: the indexer died ${restarts + 1} times, last by ${how}; giving up. Try --map-in processes.\n`,
      );
      return 1;
    }
    process.stderr.write(
      `viewmill: the indexer died (${how}); going on from its last checkpoint, carefully.\n`,
    );
  }
}
