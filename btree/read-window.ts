// Reads ahead where it is known what will be asked for: leaves of one walk that lie close together come by one system call.

import type { ByteSource } from "./node-source.js";
import type { Bytes } from "./types.js";

/** Expected records that lie this close together are read at once: a system call costs as much as copying so many bytes. */
const SPAN_GAP_MAX = 16 * 1024;
const SPAN_BYTES_MAX = 256 * 1024;

export class ReadWindow {
  readonly #source: ByteSource;
  readonly #buffer = new Uint8Array(SPAN_BYTES_MAX);
  /** The buffer holds bytes [#start, #end) of the file. */
  #start = 0;
  #end = 0;
  /** Spans to come: start and end of each. */
  #spans: number[] = [];
  #next = 0;

  constructor(source: ByteSource) {
    this.#source = source;
  }

  expect(places: Iterable<{ readonly offset: number; readonly size: number }>): void {
    const spans: number[] = [];
    let start = 0;
    let end = -1;
    for (const { offset, size } of places) {
      const placeEnd = offset + size;
      if (
        end >= 0 &&
        offset >= end &&
        offset - end <= SPAN_GAP_MAX &&
        placeEnd - start <= SPAN_BYTES_MAX
      ) {
        end = placeEnd;
        continue;
      }
      if (end >= 0) spans.push(start, end);
      start = offset;
      end = placeEnd;
    }
    if (end >= 0) spans.push(start, end);
    this.#spans = spans;
    this.#next = 0;
    this.#end = this.#start;
  }

  /** A view that the next read may overwrite. Shorter than asked when the file ends before. */
  read(offset: number, size: number): Bytes {
    if (offset < this.#start || offset + size > this.#end) this.#fill(offset, size);
    const from = offset - this.#start;
    return this.#buffer.subarray(from, Math.min(from + size, this.#end - this.#start));
  }

  #fill(offset: number, size: number): void {
    const spans = this.#spans;
    let next = this.#next;
    while (
      next < spans.length &&
      !(offset >= (spans[next] as number) && offset < (spans[next + 1] as number))
    )
      next += 2;
    let end = offset + size;
    if (next < spans.length) {
      this.#next = next;
      end = Math.max(end, Math.min(spans[next + 1] as number, offset + SPAN_BYTES_MAX));
    }
    this.#start = offset;
    this.#end = offset + this.#readInto(offset, end - offset);
    // What a log holds still ends the part that can be read from the file at once.
    if (this.#end < offset + size && end > offset + size)
      this.#end = offset + this.#readInto(offset, size);
  }

  #readInto(offset: number, length: number): number {
    const target = this.#buffer.subarray(0, length);
    if (this.#source.readInto) return this.#source.readInto(offset, target);
    const bytes = this.#source.read(offset, length);
    target.set(bytes);
    return bytes.length;
  }
}
