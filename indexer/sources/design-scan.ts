// The design documents of a file: a search for `"_design`, far faster than slicing, that goes on where it stopped while
// the file only grows. The last line of an id wins; a deletion removes it.

import { setImmediate as nextTurn } from "node:timers/promises";
import { readLine, sliceFeed, type FileFeed } from "./file-feed.js";
import { LineFile } from "./line-file.js";
import { memberText } from "./member-scan.js";
import { SLICE_DELETED, SLICE_DESIGN, Slices } from "./slices.js";
import type { DesignDocumentRow } from "./source.js";

const BLOCK_BYTES = 4 * 1024 * 1024;
const NEEDLE = Buffer.from('"_design');

export class DesignScan {
  readonly #feed: FileFeed;
  readonly #found = new Map<string, string>();
  readonly #slices = new Slices();
  #at = 0;
  #state: string | undefined;

  constructor(feed: FileFeed) {
    this.#feed = feed;
  }

  /** All design documents of this moment, in order of id. */
  async read(): Promise<DesignDocumentRow[]> {
    const file = LineFile.open(this.#feed.path);
    try {
      const state = this.#stateOf(file, this.#at);
      if (state !== this.#state) {
        this.#found.clear();
        this.#at = file.firstByte();
      }
      const end = this.#feed.complete(file, this.#at, false);
      await this.#scan(file, end);
      this.#state = this.#stateOf(file, end);
    } finally {
      file.close();
    }
    const rows = Array.from(this.#found, ([id, json]) => ({ id, rev: revOf(json), json }));
    return rows.sort((a, b) => Buffer.compare(Buffer.from(a.id), Buffer.from(b.id)));
  }

  #stateOf(file: LineFile, at: number): string {
    if (this.#feed.snapshot) return file.signature();
    return at > file.size() ? "cut" : `${at}:${file.fingerprint(at)}`;
  }

  async #scan(file: LineFile, end: number): Promise<void> {
    const block = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, Math.max(1, end - this.#at)));
    let at = this.#at;
    while (at < end) {
      const got = file.readInto(block.subarray(0, Math.min(block.length, end - at)), at);
      if (got === 0) break;
      const hit = block.subarray(0, got).indexOf(NEEDLE);
      if (hit >= 0) at = this.#take(file, at + hit, at, end);
      // The needle may lie across two blocks.
      else at += at + got >= end ? got : got - NEEDLE.length + 1;
      await nextTurn();
    }
    this.#at = end;
  }

  /** Reads the line around a hit; returns where to go on: the next line. */
  #take(file: LineFile, hit: number, floor: number, end: number): number {
    const start = file.lineStart(hit, Math.min(floor, this.#at), Number.MAX_SAFE_INTEGER);
    const line = readLine(file, start, end, this.#feed);
    sliceFeed(this.#feed, line, this.#slices, { label: file.path, path: file.path, start });
    const slices = this.#slices;
    for (let i = 0; i < slices.count; i++) {
      const flags = slices.flags[i] as number;
      if ((flags & SLICE_DESIGN) === 0) continue;
      if ((flags & SLICE_DELETED) !== 0) this.#found.delete(slices.id(i));
      else this.#found.set(slices.id(i), slices.doc(i));
    }
    return start + line.length + 1;
  }
}

function revOf(json: string): string {
  const raw = memberText(Buffer.from(json), "_rev");
  if (raw === undefined) return "";
  const rev: unknown = JSON.parse(raw);
  return typeof rev === "string" ? rev : "";
}
