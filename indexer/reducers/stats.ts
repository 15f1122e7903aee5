// _stats (VIEWS §16): sum, count, min, max and sum of squares of numbers, of arrays of numbers place by place, and of
// objects that hold such results already.
//
// A stored part is  SINGLE stat | LIST n item… (each SINGLE or LIST) | FAILED json [error, reason] | NONE,
// and a stat is a mask byte (bit i: number i is a varint, else a double) and five numbers.

import { writeVarint } from "../views/row-value.js";
import { printErlang, printProps } from "./erlang.js";
import { decodeFailure, encodeFailure, reduceFailed } from "./failure.js";
import {
  isCompact,
  NUMBER_BYTES_MAX,
  NumberReader,
  parsePlainList,
  parsePlainNumber,
  writeNumber,
} from "./numbers.js";
import { visitValues } from "./rows.js";
import { DepthError, isList, isNumeric, parseTerm, type Term, TermObject, textOf } from "./term.js";
import type { Accumulator, LeafRows, ReduceFailure, ReduceOutcome } from "./types.js";

const SINGLE = 0;
const LIST = 1;
const FAILED = 2;
const NONE = 3;

const FIELDS = ["sum", "count", "min", "max", "sumsqr"] as const;

class Stat {
  constructor(
    public sum: number,
    public count: number,
    public min: number,
    public max: number,
    public sumsqr: number,
  ) {}

  static of(value: number): Stat {
    return new Stat(value, 1, value, value, value * value);
  }

  add(other: Stat): void {
    this.sum += other.sum;
    this.count += other.count;
    this.min = Math.min(this.min, other.min);
    this.max = Math.max(this.max, other.max);
    this.sumsqr += other.sumsqr;
  }

  numbers(): readonly number[] {
    return [this.sum, this.count, this.min, this.max, this.sumsqr];
  }
}

type Stats = Stat | Stats[];

class StatsFailure extends Error {
  constructor(readonly failure: ReduceFailure) {
    super(failure.reason);
  }
}

function failureFrom(error: unknown): ReduceFailure {
  if (error instanceof StatsFailure) return error.failure;
  if (!(error instanceof DepthError)) throw error;
  return { error: "invalid_value", reason: `The _stats function cannot add: ${error.message}` };
}

function invalid(reason: string): never {
  throw new StatsFailure({ error: "invalid_value", reason });
}

/** Statistics of the first value of a fold. */
function initial(value: Term): Stats {
  if (isNumeric(value)) return Stat.of(Number(value));
  if (isList(value)) return value.map(initial);
  if (value instanceof TermObject) return unpack(value);
  return invalid(`non-numeric _stats input: ${printErlang(value, false)}`);
}

function unpack(object: TermObject): Stat {
  const [sum, count, min, max, sumsqr] = FIELDS.map((name) => {
    const value = object.get(name);
    if (value === undefined) {
      return invalid(
        `user _stats input missing required field ${name} (${printProps(object, true)})`,
      );
    }
    if (isNumeric(value)) return Number(value);
    return invalid(`non-numeric _stats input received for ${name}: ${printErlang(value, false)}`);
  }) as [number, number, number, number, number];
  return new Stat(sum, count, min, max, sumsqr);
}

/** Adds a value, or statistics of other rows, to `acc`; what `acc` is after that. */
function combine(acc: Stats, value: Term | Stat | Stats[]): Stats {
  if (Array.isArray(value)) {
    if (!Array.isArray(acc)) return refuse(value);
    if (acc.length !== value.length) {
      throw new StatsFailure({
        error: "function_clause",
        reason: `The _stats function requires arrays of equal length, not of ${acc.length} and ${value.length}`,
      });
    }
    return acc.map((item, i) => combine(item, value[i] as Term | Stat | Stats[]));
  }
  const single =
    value instanceof Stat
      ? value
      : value instanceof TermObject
        ? unpack(value)
        : isNumeric(value)
          ? Stat.of(Number(value))
          : refuse(value);
  if (Array.isArray(acc)) return refuse(single);
  acc.add(single);
  return acc;
}

function refuse(value: Term | Stat | Stats[]): never {
  return invalid(
    `The _stats function requires that map values be numbers or arrays of numbers, not '${print(value)}'`,
  );
}

function print(value: Term | Stat | Stats[]): string {
  if (value instanceof Stat) {
    return `{${value
      .numbers()
      .map((n) => printErlang(n, true))
      .join(",")}}`;
  }
  if (Array.isArray(value) && value.some((item) => item instanceof Stat || Array.isArray(item))) {
    return `[${value.map(print).join(",")}]`;
  }
  return printErlang(value as Term, true);
}

function isFiniteStats(stats: Stats): boolean {
  if (Array.isArray(stats)) return stats.every(isFiniteStats);
  return stats.numbers().every(Number.isFinite);
}

/** Adds the plain numbers from row `from` on; returns the first row that is something else. */
function addPlain(stats: Stat, slice: LeafRows, from: number): number {
  const { length } = slice;
  // In variables, since a field that holds a double is a box of its own.
  let { sum, min, max, sumsqr } = stats;
  let i = from;
  for (; i < length; i++) {
    const { bytes, start, end } = slice.span(i);
    const value = bytes[start] === 0 ? parsePlainNumber(bytes, start + 1, end) : Number.NaN;
    if (Number.isNaN(value)) break;
    sum += value;
    if (value < min) min = value;
    if (value > max) max = value;
    sumsqr += value * value;
  }
  stats.sum = sum;
  stats.count += i - from;
  stats.min = min;
  stats.max = max;
  stats.sumsqr = sumsqr;
  return i;
}

export class StatsAccumulator implements Accumulator {
  readonly scanOrder = true;
  readonly #reader = new NumberReader();
  #stats: Stats | undefined;
  #failure: ReduceFailure | undefined;

  reset(): void {
    this.#stats = undefined;
    this.#failure = undefined;
  }

  addRows(slice: LeafRows): void {
    const { length } = slice;
    for (let i = 0; i < length; i++) {
      if (this.#stats instanceof Stat) i = addPlain(this.#stats, slice, i);
      if (i === length) return;
      const { bytes, start, end } = slice.span(i);
      visitValues(bytes.subarray(start, end), this.#visit);
    }
  }

  readonly #visit = (bytes: Uint8Array, start: number, end: number): void => {
    if (this.#failure !== undefined) return;
    try {
      this.#add(parsePlainList(bytes, start, end) ?? parseTerm(textOf(bytes, start, end)));
    } catch (error) {
      this.#failure = failureFrom(error);
    }
  };

  #add(value: Term): void {
    this.#stats = this.#stats === undefined ? initial(value) : combine(this.#stats, value);
  }

  addPart(blob: Uint8Array, start: number, end: number): void {
    if (this.#failure !== undefined || blob[start] === NONE) return;
    this.#failure = this.failureOf(blob, start, end);
    if (this.#failure !== undefined) return;
    this.#reader.open(blob, start);
    const stats = this.#read();
    try {
      this.#stats = this.#stats === undefined ? stats : combine(this.#stats, stats);
    } catch (error) {
      this.#failure = failureFrom(error);
    }
  }

  #read(): Stats {
    const reader = this.#reader;
    if (reader.varint() === LIST) {
      const list: Stats[] = [];
      for (let n = reader.varint(); n > 0; n--) list.push(this.#read());
      return list;
    }
    const mask = reader.varint();
    const next = (i: number): number => reader.number((mask & (1 << i)) !== 0);
    return new Stat(next(0), next(1), next(2), next(3), next(4));
  }

  failureOf(blob: Uint8Array, start: number, end: number): ReduceFailure | undefined {
    if (blob[start] !== FAILED) return undefined;
    return decodeFailure(textOf(blob, start + 1, end));
  }

  #finished(): Stats | ReduceFailure | undefined {
    if (this.#failure !== undefined) return this.#failure;
    if (this.#stats === undefined || isFiniteStats(this.#stats)) return this.#stats;
    return { error: "badarith", reason: "A result of _stats is beyond the range of a double" };
  }

  part(): Uint8Array {
    const result = this.#finished();
    if (result === undefined) return Uint8Array.of(NONE);
    if ("error" in result) {
      return Buffer.concat([Uint8Array.of(FAILED), Buffer.from(encodeFailure(result))]);
    }
    const bytes = new Uint8Array(partSize(result));
    return bytes.slice(0, write(bytes, 0, result));
  }

  outcome(): ReduceOutcome {
    const result = this.#finished() ?? new Stat(0, 0, 0, 0, 0);
    if ("error" in result) throw reduceFailed(result);
    return { value: text(result) };
  }
}

function partSize(stats: Stats): number {
  if (!Array.isArray(stats)) return 2 + FIELDS.length * NUMBER_BYTES_MAX;
  return stats.reduce((size, item) => size + partSize(item), 6);
}

function write(dst: Uint8Array, pos: number, stats: Stats): number {
  if (Array.isArray(stats)) {
    dst[pos] = LIST;
    let at = writeVarint(dst, pos + 1, stats.length);
    for (const item of stats) at = write(dst, at, item);
    return at;
  }
  let mask = 0;
  const numbers = stats.numbers();
  for (let i = 0; i < numbers.length; i++) if (isCompact(numbers[i] as number)) mask |= 1 << i;
  dst[pos] = SINGLE;
  dst[pos + 1] = mask;
  let at = pos + 2;
  for (const number of numbers) at = writeNumber(dst, at, number);
  return at;
}

function text(stats: Stats): string {
  if (Array.isArray(stats)) return `[${stats.map(text).join(",")}]`;
  const numbers = stats.numbers();
  return `{${FIELDS.map((name, i) => `"${name}":${JSON.stringify(numbers[i])}`).join(",")}}`;
}
