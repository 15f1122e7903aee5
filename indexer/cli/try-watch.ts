// `viewmill try --watch`: the command runs in a child process of its own for each save, so that modules are loaded afresh and nothing a run
// does outlives it. The child tells which files it read; their folders are watched.

import { fork, type ChildProcess } from "node:child_process";
import { existsSync, watch, type FSWatcher } from "node:fs";
import { basename, dirname, join } from "node:path";

/** An editor saves in several steps: wait for the last. */
const SETTLE_MS = 60;

/** What a run tells its parent before it ends. */
export interface WatchMessage {
  readonly files: readonly string[];
  /** In these any file counts. */
  readonly folders: readonly string[];
}

const WATCHED = "VIEWMILL_TRY_WATCHED";

/** Tells the watcher, if there is one, what this run depends on. */
export function tellFiles(what: {
  readonly files: Iterable<string>;
  readonly folders: Iterable<string>;
}): void {
  if (process.env[WATCHED] !== "1") return;
  process.send?.({ files: [...what.files], folders: [...what.folders] } satisfies WatchMessage);
}

/**
 * Runs the command now and after each change of a file it read, until SIGINT or SIGTERM.
 *
 * @param argv - the command without `--watch`.
 * @param first - files to watch even if the first run cannot tell any.
 */
export async function watchRuns(
  argv: readonly string[],
  first: readonly string[],
  quiet: boolean,
): Promise<void> {
  const program = process.argv[1] ?? "";
  const watchers = new Map<string, FSWatcher>();
  const files = new Set(first);
  const folders = new Set<string>();
  let child: ChildProcess | undefined;
  let timer: NodeJS.Timeout | undefined;
  let ended = false;
  const observe = (): void => {
    for (const folder of new Set([...[...files].map((file) => dirname(file)), ...folders])) {
      if (watchers.has(folder) || !existsSync(folder)) continue;
      const watcher = watch(folder, (_event, name) => {
        const counts = folders.has(folder) && name?.startsWith(".") !== true;
        if (name === null || counts || files.has(join(folder, name))) again();
      });
      watcher.on("error", () => {
        watchers.delete(folder);
      });
      watchers.set(folder, watcher);
    }
  };
  const run = (): void => {
    child?.kill("SIGKILL");
    const started = fork(program, [...argv], {
      stdio: "inherit",
      execArgv: process.execArgv,
      env: { ...process.env, [WATCHED]: "1" },
    });
    child = started;
    started.on("message", (message: WatchMessage) => {
      for (const file of message.files) files.add(file);
      for (const folder of message.folders) folders.add(folder);
      observe();
    });
    started.once("close", () => {
      if (child !== started || ended) return;
      child = undefined;
      observe();
      if (!quiet)
        process.stderr.write(
          `viewmill: watching ${[...watchers.keys()].map((folder) => basename(folder)).join(", ")} …\n`,
        );
    });
  };
  const again = (): void => {
    clearTimeout(timer);
    timer = setTimeout(run, SETTLE_MS);
  };
  observe();
  run();
  await new Promise<void>((resolve) => {
    const stop = (): void => {
      process.off("SIGINT", stop);
      process.off("SIGTERM", stop);
      resolve();
    };
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
  });
  ended = true;
  clearTimeout(timer);
  child?.kill("SIGKILL");
  for (const watcher of watchers.values()) watcher.close();
}
