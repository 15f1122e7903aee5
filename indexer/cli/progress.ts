// Progress of an update: a bar on a terminal, a JSON line a second with --json, nothing with --quiet.

import { SingleBar } from "cli-progress";

import type { UpdateProgress } from "../views/update-types.js";

export interface ProgressReporter {
  update(progress: UpdateProgress): void;
  stop(): void;
}

function number(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function megabytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(0)} MiB`;
}

function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  const s = Math.round(seconds);
  return s < 90 ? `${s} s` : `${Math.floor(s / 60)} min ${s % 60} s`;
}

/** Work done and in all, in whatever unit the source can tell. */
function share(progress: UpdateProgress): { done: number; total: number } | undefined {
  if (progress.phase === "merge")
    return { done: progress.merged, total: Math.max(1, progress.mergeTotal) };
  if (progress.bytes !== undefined && progress.bytesTotal !== undefined && progress.bytesTotal > 0)
    return { done: Math.min(progress.bytes, progress.bytesTotal), total: progress.bytesTotal };
  if (progress.changesTotal !== undefined && progress.changesTotal > 0)
    return {
      done: Math.min(progress.documents, progress.changesTotal),
      total: progress.changesTotal,
    };
  return undefined;
}

class JsonLines implements ProgressReporter {
  readonly #intervalMs: number;
  #last = performance.now();
  readonly #began = performance.now();

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  update(progress: UpdateProgress): void {
    const now = performance.now();
    if (now - this.#last < this.#intervalMs) return;
    this.#last = now;
    const seconds = (now - this.#began) / 1000;
    const work = share(progress);
    const line = {
      ...progress,
      seconds: Number(seconds.toFixed(3)),
      documents_per_second: Math.round(progress.mapped / seconds),
      eta_seconds:
        work && work.done > 0
          ? Number(((seconds * (work.total - work.done)) / work.done).toFixed(1))
          : null,
    };
    process.stdout.write(`${JSON.stringify({ progress: line })}\n`);
  }

  stop(): void {
    // Nothing is left on the line.
  }
}

class Bar implements ProgressReporter {
  readonly #bar = new SingleBar({
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
    format:
      " {phase} {bar} {percentage}% │ {docs} documents │ {rate}/s │ {rows} rows │ {bytes} │ {eta_text} left",
  });
  #phase: string | undefined;
  #began = performance.now();
  readonly #start = performance.now();

  update(progress: UpdateProgress): void {
    const work = share(progress) ?? { done: 0, total: 1 };
    if (this.#phase !== progress.phase) {
      if (this.#phase !== undefined) this.#bar.stop();
      this.#phase = progress.phase;
      this.#began = performance.now();
      this.#bar.start(work.total, 0);
    }
    const seconds = (performance.now() - this.#began) / 1000;
    this.#bar.update(work.done, {
      phase: progress.phase === "map" ? "mapping" : "merging",
      docs: number(progress.documents),
      rate: number((progress.mapped * 1000) / Math.max(1, performance.now() - this.#start)),
      rows: number(progress.rows),
      bytes: progress.bytes === undefined ? "" : megabytes(progress.bytes),
      eta_text: work.done > 0 ? duration((seconds * (work.total - work.done)) / work.done) : "–",
    });
  }

  stop(): void {
    if (this.#phase !== undefined) this.#bar.stop();
  }
}

const silent: ProgressReporter = { update: () => undefined, stop: () => undefined };

/** @param options - `intervalMs`: shortest time between JSON lines. */
export function progressReporter(options: {
  readonly json: boolean;
  readonly quiet: boolean;
  readonly intervalMs: number;
}): ProgressReporter {
  if (options.quiet) return silent;
  if (options.json) return new JsonLines(options.intervalMs);
  return process.stderr.isTTY ? new Bar() : silent;
}
