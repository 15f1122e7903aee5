// Bytes to lines (PROTOCOL.md, "Framing"). A line ends at a LF byte; nothing else is looked at, so chunks may end anywhere, inside
// a UTF-8 sequence too. The cost is linear in the bytes: whole lines are handed out as views of the chunk they came in, and a line
// that spans chunks is gathered in one buffer that doubles. Lines are not decoded, trimmed or skipped here.

import { constants } from "node:buffer";
import { ProtocolError } from "./errors.js";

const LF = 0x0a;

/** The first size of a buffer that gathers a line of three chunks or more. */
const GATHER_BYTES_MIN = 65_536;

/**
 * The default limit on a line: what V8 can hold in one string (512 MiB). A line of so many bytes has at most as many UTF-16
 * units, so every line within the limit can be decoded.
 */
export const LINE_BYTES_MAX = constants.MAX_STRING_LENGTH;

export interface LineSplitterOptions {
  /**
   * Longest line accepted, in bytes without the LF.
   * @defaultValue LINE_BYTES_MAX (512 MiB)
   */
  readonly lineBytesMax?: number;
}

/**
 * Splits a stream of chunks into lines.
 *
 * Chunks are not copied: a chunk must not be changed after it was pushed, and a line handed out stays valid as long as its chunk
 * does. Keeping a short line keeps its chunk in memory.
 *
 * @example
 * ```ts
 * splitter.push(chunk);
 * for (let line = splitter.next(); line; line = splitter.next()) handle(line);
 * ```
 */
export class LineSplitter {
  readonly #lineBytesMax: number;
  /** Chunks pushed while an earlier one still had lines; `#queue[#queueHead]` is next. */
  #queue: Uint8Array[] = [];
  #queueHead = 0;
  #chunk: Buffer | undefined;
  #position = 0;
  /**
   * The beginning of a line whose LF has not come: the first `#carried` bytes of `#carry`. That is the tail of a chunk, without
   * room at its end, or a buffer of ours.
   */
  #carry: Buffer | undefined;
  #carried = 0;
  #failure: ProtocolError | undefined;

  /** How many lines the last block has. */
  blockLines = 0;

  constructor(options: LineSplitterOptions = {}) {
    this.#lineBytesMax = limitOption("lineBytesMax", options.lineBytesMax, LINE_BYTES_MAX);
  }

  /** Bytes of the unfinished line at the end; only meaningful after `next` answered undefined. */
  get unfinishedBytes(): number {
    return this.#carried;
  }

  /** Takes a chunk; its lines are to be fetched with `next` or `nextBlock` until they answer undefined. */
  push(chunk: Uint8Array): void {
    if (chunk.byteLength === 0) return;
    if (this.#chunk === undefined) this.#begin(chunk);
    else this.#queue.push(chunk);
  }

  /**
   * The next whole line without its LF, or undefined if there is none yet.
   * @throws ProtocolError PROTOCOL_LINE_TOO_LONG, also from every later call.
   */
  next(): Uint8Array | undefined {
    const block = this.nextBlock(ONE_END, 1);
    return block?.subarray(0, block.length - 1);
  }

  /**
   * Whole lines in one piece, each with its LF, at most `linesMax`; undefined if there is none yet. `ends[i]` is the offset
   * after the LF of line `i` in the block, `blockLines` says how many there are.
   * @throws ProtocolError PROTOCOL_LINE_TOO_LONG, also from every later call.
   */
  nextBlock(ends: Uint32Array, linesMax = ends.length): Uint8Array | undefined {
    if (this.#failure) throw this.#failure;
    for (;;) {
      const chunk = this.#chunk;
      if (chunk === undefined) return undefined;
      const start = this.#position;
      if (this.#carried > 0) {
        const lf = chunk.indexOf(LF, start);
        if (lf === -1) {
          this.#keep(chunk.subarray(start));
          this.#advance();
          continue;
        }
        const line = this.#finish(chunk.subarray(start, lf + 1));
        this.#moveTo(chunk, lf + 1);
        ends[0] = line.length;
        this.blockLines = 1;
        return line;
      }
      let from = start;
      let count = 0;
      while (count < linesMax) {
        const lf = chunk.indexOf(LF, from);
        if (lf === -1) break;
        if (lf - from > this.#lineBytesMax) this.#failTooLong(lf - from);
        from = lf + 1;
        ends[count++] = from - start;
      }
      if (count > 0) {
        this.#moveTo(chunk, from);
        this.blockLines = count;
        return chunk.subarray(start, from);
      }
      this.#keep(chunk.subarray(start));
      this.#advance();
    }
  }

  /**
   * The unfinished line at the end of the stream, if there is one; to be called when `next` answered undefined. The splitter is
   * empty afterwards.
   */
  end(): Uint8Array | undefined {
    if (this.#carried === 0) return undefined;
    return this.#finish(undefined);
  }

  #begin(chunk: Uint8Array): void {
    this.#chunk = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    this.#position = 0;
  }

  #moveTo(chunk: Buffer, position: number): void {
    if (position === chunk.length) this.#advance();
    else this.#position = position;
  }

  #advance(): void {
    const next = this.#queue[this.#queueHead];
    if (next === undefined) {
      this.#chunk = undefined;
      this.#queue = [];
      this.#queueHead = 0;
      return;
    }
    this.#queueHead++;
    this.#begin(next);
  }

  /** Adds bytes without a LF to the unfinished line. */
  #keep(bytes: Buffer): void {
    const total = this.#carried + bytes.length;
    if (total > this.#lineBytesMax) this.#failTooLong(total);
    if (this.#carry === undefined) {
      this.#carry = bytes;
    } else {
      this.#append(this.#carry, bytes, Math.max(2 * total, GATHER_BYTES_MIN));
    }
    this.#carried = total;
  }

  /** Ends the unfinished line with its last bytes and hands it out; the splitter forgets the buffer. */
  #finish(bytes: Buffer | undefined): Buffer {
    let line = this.#carry ?? Buffer.alloc(0);
    let total = this.#carried;
    if (bytes) {
      // The LF is not part of the line's length.
      if (total + bytes.length - 1 > this.#lineBytesMax)
        this.#failTooLong(total + bytes.length - 1);
      line = this.#append(line, bytes, total + bytes.length);
      total += bytes.length;
    }
    this.#carry = undefined;
    this.#carried = 0;
    return line.subarray(0, total);
  }

  #append(carry: Buffer, bytes: Buffer, capacity: number): Buffer {
    let target = carry;
    if (carry.length < this.#carried + bytes.length) {
      target = Buffer.allocUnsafeSlow(capacity);
      target.set(carry.subarray(0, this.#carried));
      this.#carry = target;
    }
    target.set(bytes, this.#carried);
    return target;
  }

  #failTooLong(bytes: number): never {
    const limit = this.#lineBytesMax;
    this.#chunk = undefined;
    this.#queue = [];
    this.#queueHead = 0;
    this.#carry = undefined;
    this.#carried = 0;
    this.#failure = new ProtocolError(
      "PROTOCOL_LINE_TOO_LONG",
      `a line of at least ${bytes} bytes exceeds the limit of ${limit}; raise lineBytesMax if it is meant to be so long`,
    );
    throw this.#failure;
  }
}

const ONE_END = new Uint32Array(1);

/**
 * The offset after the LF of each line of `lines`.
 * @throws TypeError unless there are exactly `count` lines, none of them empty, each ending with LF.
 */
export function lineEnds(lines: Uint8Array, count: number): Uint32Array {
  const buffer = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
  const ends = new Uint32Array(count);
  let from = 0;
  for (let index = 0; index < count; index++) {
    const lf = buffer.indexOf(LF, from);
    if (lf === -1) {
      throw new TypeError(`expected ${count} command lines, each ending with LF; found ${index}`);
    }
    if (lf === from)
      throw new TypeError(`command line ${index} is empty, which would end a server`);
    from = lf + 1;
    ends[index] = from;
  }
  if (from !== buffer.length) {
    throw new TypeError(
      `expected ${count} command lines; ${buffer.length - from} bytes follow them`,
    );
  }
  return ends;
}

/**
 * A limit given as an option: a positive number of whole units, or Infinity.
 */
export function limitOption(name: string, given: number | undefined, fallback: number): number {
  if (given === undefined) return fallback;
  if (given === Infinity || (Number.isSafeInteger(given) && given >= 1)) return given;
  throw new RangeError(`${name} must be a positive integer, not ${given}`);
}
