// Notes the plain lines of a chunk, documents or rows of a feed, many at a time, window by window: kernels/assembly/slice.ts.

import { createKernel, MEMORY_START, type Kernel } from "../../kernels/index.js";
import type { Slices } from "./slices.js";

const WINDOW_BYTES = 256 * 1024;
const LINES_MAX = 2048;
/** After so many calls in a row that found not one plain line, a chunk is taken to have none. */
const MISSES_MAX = 16;

const LF = 0x0a;

const WINDOW = MEMORY_START;
/** With room for what is read behind the window. */
const COLUMNS = WINDOW + WINDOW_BYTES + 64;
const COLUMN_COUNT = 7;
const MEMORY_BYTES = COLUMNS + COLUMN_COUNT * LINES_MAX * 4 - MEMORY_START;

/** Longer lines than this are none of its. */
export const PLAIN_LINE_BYTES_MAX = WINDOW_BYTES - 1;

/** One a thread. */
export class PlainLines {
  readonly #rows: boolean;
  /** Of rows: where the sequence of the last one that was added is in the data. */
  seqStart = 0;
  seqEnd = 0;
  #kernel: Kernel | undefined;
  #data: Uint8Array = new Uint8Array(0);
  /** What part of the data lies in the window. */
  #start = 0;
  #end = 0;
  #misses = 0;
  #refused = false;

  /** @param kind - what a line holds. */
  constructor(kind: "documents" | "rows") {
    this.#rows = kind === "rows";
  }

  /** Begins with other data. False when it cannot help. */
  begin(data: Uint8Array): boolean {
    this.#kernel ??= createKernel(MEMORY_BYTES);
    this.#data = data;
    this.#start = this.#end = 0;
    this.#misses = 0;
    this.seqStart = this.seqEnd = 0;
    return this.#kernel !== undefined;
  }

  /** Adds the plain lines from `lineStart` on to `out`; returns the beginning of the first that is not plain, or the data's end. */
  add(lineStart: number, out: Slices): number {
    const size = this.#data.length;
    let next = lineStart;
    while (next < size) {
      if (next >= this.#end) this.#load(next);
      const before = next;
      next = this.#addFromWindow(next, out);
      if (next > before) this.#misses = 0;
      if (this.#refused || (next === before && this.#start === before)) {
        if (next === before) this.#misses++;
        break;
      }
      // The window ends within a line.
      if (next === before) this.#end = next;
    }
    return next;
  }

  /** False when it is not worth it to ask again before the next `begin`. */
  get finds(): boolean {
    return this.#misses < MISSES_MAX;
  }

  #load(start: number): void {
    const kernel = this.#kernel as Kernel;
    this.#start = start;
    this.#end = Math.min(start + WINDOW_BYTES, this.#data.length);
    const length = this.#end - start;
    kernel.bytes.set(this.#data.subarray(start, this.#end), WINDOW);
    kernel.bytes[WINDOW + length] = LF;
  }

  #addFromWindow(lineStart: number, out: Slices): number {
    const { run, words } = this.#kernel as Kernel;
    const p = WINDOW + lineStart - this.#start;
    const end = WINDOW + this.#end - this.#start;
    if (this.#rows) {
      const n = run.sliceRows(WINDOW, p, end, this.#start, COLUMNS, LINES_MAX);
      if (n > 0) {
        out.addPlain(words, COLUMNS >>> 2, LINES_MAX, n, 5);
        this.seqStart = this.#start + run.rowSeqStart() - WINDOW;
        this.seqEnd = this.#start + run.rowSeqEnd() - WINDOW;
      }
    } else {
      const n = run.slice(WINDOW, p, end, this.#start, COLUMNS, LINES_MAX);
      if (n > 0) out.addPlain(words, COLUMNS >>> 2, LINES_MAX, n, 4);
    }
    this.#refused = run.sliceRefused() !== 0;
    return this.#start + run.sliceEnd() - WINDOW;
  }
}
