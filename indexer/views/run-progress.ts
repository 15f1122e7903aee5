// What a build under way has done so far: one line a chunk, in feed order, in `<signature>.runs/progress`. A killed build goes on from
// the last whole line. Lines carry a checksum and are not synced one by one: being killed loses nothing, a power loss costs what
// came after the last synced checkpoint.
//
//   line = JSON TAB crc32 of the JSON in 8 hex digits LF; the first one is the header

import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";

import { damagedSegments, type SegmentRef } from "../../btree/index.js";
import { isSegment, type EntrySet, type GroupSegments } from "../mapping/types.js";
import { syncFolder } from "./durable-file.js";

/** What must be equal for a build to be resumed. */
export interface RunHeader {
  /** Of the entries in the segments (group-index.ts). */
  readonly format: number;
  readonly signature: string;
  /** The group's checkpoint, from which the feed is read; null in a first build. */
  readonly since: string | null;
  readonly source: string;
  readonly collation: number;
  /** One pass over the feed may serve several groups; they resume together. */
  readonly pass: string;
  /** The machine's boot when the build began: after another one, unsynced run files may hold anything. */
  readonly boot: string;
}

/** Counters of a build, kept with its progress. */
export interface RunCounts {
  readonly documents: number;
  readonly mapped: number;
  readonly failed: number;
  readonly rows: number;
}

export interface RunChunk {
  readonly number: number;
  readonly lastSeq: string;
  /** Segments by tree: ids, errors, views. Paths are relative to the runs folder. */
  readonly segments: readonly (readonly SegmentRef[])[];
  readonly counts: RunCounts;
  readonly feedBytes: number | undefined;
}

const PROGRESS_FILE = "progress";

export class RunProgress {
  readonly folder: string;
  readonly chunks: RunChunk[] = [];
  #fd: number;
  #unsynced = new Set<string>();
  #length = 0;

  private constructor(folder: string, fd: number) {
    this.folder = folder;
    this.#fd = fd;
  }

  /** Begins anew: what was in the folder is removed. */
  static begin(folder: string, header: RunHeader): RunProgress {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const progress = new RunProgress(folder, openSync(join(folder, PROGRESS_FILE), "w"));
    progress.#append(header);
    return progress;
  }

  /** The header of a build that was left in the folder. */
  static header(folder: string): RunHeader | undefined {
    const [first] = readLines(folder);
    return first?.value as RunHeader | undefined;
  }

  /** Goes on with a build that was left in the folder: its whole lines whose run files are long enough, at most `chunksMax`. */
  static resume(folder: string, chunksMax: number): RunProgress {
    const path = join(folder, PROGRESS_FILE);
    const rebooted = RunProgress.header(folder)?.boot !== bootId();
    const progress = new RunProgress(folder, openSync(path, "r+"));
    let end = 0;
    for (const [n, line] of readLines(folder).entries()) {
      if (n > 0) {
        const chunk = line.value as RunChunk;
        if (
          progress.chunks.length >= chunksMax ||
          chunk.number !== n - 1 ||
          !filesHold(folder, chunk, rebooted)
        )
          break;
        progress.chunks.push(chunk);
      }
      end = line.end;
    }
    ftruncateSync(progress.#fd, end);
    progress.#length = end;
    return progress;
  }

  get last(): RunChunk | undefined {
    return this.chunks.at(-1);
  }

  /** Name of the run file that a chunk's task writes. */
  runPath(number: number): string {
    return join(this.folder, `${number}.run`);
  }

  /** Records a chunk; the one before it must be recorded already. */
  record(chunk: Omit<RunChunk, "segments">, parts: readonly GroupSegments[]): void {
    const trees = parts[0]?.views.length ?? 0;
    const lists: SegmentRef[][] = Array.from({ length: trees + 2 }, () => []);
    for (const part of parts) {
      for (const [i, set] of [part.ids, part.errors, ...part.views].entries()) {
        if (set) (lists[i] as SegmentRef[]).push(relative(this.folder, set));
      }
    }
    for (const list of lists) for (const { path } of list) this.#unsynced.add(path);
    const line: RunChunk = { ...chunk, segments: lists };
    this.#append(line);
    this.chunks.push(line);
  }

  /** All segments of one tree: 0 ids, 1 errors, 2… views. */
  segments(tree: number): SegmentRef[] {
    return this.chunks.flatMap(({ segments }) =>
      (segments[tree] ?? []).map((ref) => ({ ...ref, path: join(this.folder, ref.path) })),
    );
  }

  /** Makes everything recorded so far survive a power loss. */
  sync(): void {
    for (const name of this.#unsynced) {
      const fd = openSync(join(this.folder, name), "r");
      try {
        fsyncSync(fd);
      } finally {
        closeSync(fd);
      }
    }
    this.#unsynced.clear();
    fsyncSync(this.#fd);
    syncFolder(this.folder);
  }

  close(): void {
    if (this.#fd < 0) return;
    closeSync(this.#fd);
    this.#fd = -1;
  }

  /** The build is over: nothing of it is needed any more. */
  remove(): void {
    this.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #append(value: RunHeader | RunChunk): void {
    const json = JSON.stringify(value);
    const bytes = Buffer.from(`${json}\t${checksum(json)}\n`);
    for (let done = 0; done < bytes.length;)
      done += writeSync(this.#fd, bytes, done, bytes.length - done, this.#length + done);
    this.#length += bytes.length;
  }
}

function checksum(json: string): string {
  return crc32(json).toString(16).padStart(8, "0");
}

function relative(folder: string, set: EntrySet): SegmentRef {
  if (!isSegment(set))
    throw new Error("viewmill bug: entries in memory cannot be recorded as runs");
  return { ...set, path: set.path.slice(folder.length + 1) };
}

/** @param deep - look into the segments too, which costs reading them. */
function filesHold(folder: string, chunk: RunChunk, deep: boolean): boolean {
  const refs = chunk.segments.flat().map((ref) => ({ ...ref, path: join(folder, ref.path) }));
  const whole = refs.every(
    ({ path, offset, length }) => existsSync(path) && statSync(path).size >= offset + length,
  );
  return whole && (!deep || damagedSegments(refs).length === 0);
}

/** Names the present run of the machine; empty where it cannot be told. */
export function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return "";
  }
}

/** The whole, undamaged lines from the beginning. */
function readLines(folder: string): { value: unknown; end: number }[] {
  const path = join(folder, PROGRESS_FILE);
  if (!existsSync(path)) return [];
  const bytes = readFileSync(path);
  const lines: { value: unknown; end: number }[] = [];
  for (let start = 0; ;) {
    const end = bytes.indexOf(0x0a, start);
    if (end < 0) return lines;
    const [json, crc] = bytes.toString("utf8", start, end).split("\t");
    if (json === undefined || crc !== checksum(json)) return lines;
    lines.push({ value: JSON.parse(json), end: end + 1 });
    start = end + 1;
  }
}
