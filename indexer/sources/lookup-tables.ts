// The tables of a document lookup: kept in file order, merged eight at a time so that there are few, in side files once
// they are large. With a folder of their own they survive the process: `<prefix>.json` names the side files and says
// which state of the source they describe. Several processes may share the folder: side files have names of their own and
// the list is replaced at once; a list whose files are gone is as good as none.

import { randomBytes } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { contentHashHex } from "./content-hash.js";
import { LookupSegment, SEGMENT_BUILD_MAX } from "./lookup-segment.js";

const MERGE_FAN_IN = 8;
/** Tables smaller than this are not worth a side file between processes: they are scanned again. */
const SAVED_ENTRIES_MIN = 50_000;
const STALE_FILE_MS = 60 * 60 * 1000;
const FORMAT = 1;

interface Table {
  readonly segment: LookupSegment;
  /** How many merges it went through. */
  readonly level: number;
}

interface SavedTable {
  readonly file: string;
  readonly start: number;
  readonly end: number;
  readonly entries: number;
  readonly level: number;
}

interface SavedList {
  readonly format: number;
  readonly at: number;
  readonly of: string;
  readonly tables: readonly SavedTable[];
}

export class LookupTables {
  readonly #prefix: string;
  readonly #lastingDir: string | undefined;
  #temporaryDir: string | undefined;
  #tables: Table[] = [];

  /** `key` tells this lookup from others in the folder. */
  constructor(key: string, dir: string | undefined) {
    this.#prefix = `lookup-${contentHashHex(Buffer.from(key))}`;
    this.#lastingDir = dir;
  }

  /** Offsets of lines whose id has the hash, last first. */
  *find(hash: number): Generator<number, void, undefined> {
    for (let t = this.#tables.length - 1; t >= 0; t--) {
      const offsets = (this.#tables[t] as Table).segment.find(hash);
      for (let k = offsets.length - 1; k >= 0; k--) yield offsets[k] as number;
    }
  }

  /** Adds a table after the others, and merges when there are eight of a kind. */
  add(segment: LookupSegment): void {
    this.#tables.push({ segment, level: 0 });
    for (let level = 0; ; level++) {
      let first = this.#tables.length;
      while (first > 0 && (this.#tables[first - 1] as Table).level === level) first--;
      const group = this.#tables.slice(first);
      if (group.length < MERGE_FAN_IN) return;
      const segments = group.map((table) => table.segment);
      const entries = segments.reduce((sum, one) => sum + one.entries, 0);
      const merged = LookupSegment.merge(
        segments,
        entries <= SEGMENT_BUILD_MAX ? undefined : this.#newPath(),
      );
      for (const table of group) drop(table);
      this.#tables.splice(first, group.length, { segment: merged, level: level + 1 });
    }
  }

  /** Forgets all tables and removes their files. */
  clear(): void {
    for (const table of this.#tables) drop(table);
    this.#tables = [];
  }

  close(): void {
    for (const { segment } of this.#tables) segment.close();
    this.#tables = [];
    if (this.#temporaryDir !== undefined) {
      rmSync(this.#temporaryDir, { recursive: true, force: true });
      this.#temporaryDir = undefined;
    }
  }

  /** The tables an earlier process saved; undefined when there are none that can be used. */
  load(): { readonly at: number; readonly of: string } | undefined {
    if (this.#lastingDir === undefined) return undefined;
    const dir = this.#lastingDir;
    try {
      const list: unknown = JSON.parse(readFileSync(this.#listPath(dir), "utf8"));
      if (!isSavedList(list)) return undefined;
      for (const { file, start, end, entries, level } of list.tables) {
        const segment = LookupSegment.open(join(dir, basename(file)), start, end, entries);
        this.#tables.push({ segment, level });
      }
      return { at: list.at, of: list.of };
    } catch {
      for (const { segment } of this.#tables) segment.close();
      this.#tables = [];
      return undefined;
    }
  }

  /** Saves the large tables; `stateAt` says what the source must be for the first so many bytes to hold. */
  save(stateAt: (at: number) => string): void {
    if (this.#lastingDir === undefined) return;
    const dir = this.#lastingDir;
    const saved: SavedTable[] = [];
    let written = false;
    for (const [i, table] of this.#tables.entries()) {
      let { segment } = table;
      if (segment.entries < SAVED_ENTRIES_MIN) break;
      if (segment.path === undefined) {
        segment = LookupSegment.merge([segment], this.#newPath());
        this.#tables[i] = { segment, level: table.level };
        written = true;
      }
      const { start, end, entries } = segment;
      saved.push({ file: basename(segment.path ?? ""), start, end, entries, level: table.level });
    }
    const last = saved.at(-1);
    if (!last || !written) return;
    const list: SavedList = { format: FORMAT, at: last.end, of: stateAt(last.end), tables: saved };
    const path = this.#listPath(dir);
    const temporary = `${path}.${process.pid}`;
    writeFileSync(temporary, JSON.stringify(list));
    renameSync(temporary, path);
    this.#sweep(dir, new Set(saved.map((table) => table.file)));
  }

  /** Removes what other processes left behind, once it is old enough that none of them needs it. */
  #sweep(dir: string, used: ReadonlySet<string>): void {
    for (const name of readdirSync(dir)) {
      if (!name.startsWith(`${this.#prefix}-`) || used.has(name)) continue;
      const path = join(dir, name);
      const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
      if (age > STALE_FILE_MS) rmSync(path, { force: true });
    }
  }

  #listPath(dir: string): string {
    return join(dir, `${this.#prefix}.json`);
  }

  #newPath(): string {
    let dir = this.#lastingDir;
    if (dir !== undefined) mkdirSync(dir, { recursive: true });
    else dir = this.#temporaryDir ??= mkdtempSync(join(tmpdir(), "viewmill-lookup-"));
    return join(dir, `${this.#prefix}-${randomBytes(6).toString("hex")}.table`);
  }
}

function drop(table: Table): void {
  table.segment.close();
  if (table.segment.path !== undefined) rmSync(table.segment.path, { force: true });
}

function isSavedList(value: unknown): value is SavedList {
  if (typeof value !== "object" || value === null || !("format" in value)) return false;
  return value.format === FORMAT && "at" in value && "of" in value && "tables" in value;
}
