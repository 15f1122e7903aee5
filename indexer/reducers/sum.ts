// _sum: plain numbers go straight from value bytes into a double; whatever else comes is left to sum-values.ts.
//
// A stored part is  NUMBER varint | DOUBLE f64 | TERM json | CRASH name-length name json.

import { writeVarint } from "../views/row-value.js";
import { termSize } from "./erlang.js";
import {
  isCompact,
  NUMBER_BYTES_MAX,
  NumberReader,
  parsePlainList,
  parsePlainNumber,
  writeNumber,
} from "./numbers.js";
import { type KeyLayout, keyText, docIdOf, visitValues } from "./rows.js";
import { addNumbers, addValues, sumError, SumStop } from "./sum-values.js";
import {
  DepthError,
  isNumeric,
  parseTerm,
  printTerm,
  type Term,
  type TermObject,
  textOf,
} from "./term.js";
import type {
  Accumulator,
  EvaluateOptions,
  LeafRows,
  ReduceFailure,
  ReduceLimits,
  ReduceOutcome,
} from "./types.js";

const NUMBER = 0;
const DOUBLE = 1;
const TERM = 2;
const CRASH = 3;

const SAFE = Number.MAX_SAFE_INTEGER;

interface Stored {
  readonly value: Term;
  readonly crash: string | undefined;
}

export class SumAccumulator implements Accumulator {
  readonly scanOrder = true;
  readonly #layout: KeyLayout;
  readonly #limits: Required<ReduceLimits>;
  readonly #reader = new NumberReader();
  /** The sum while it is a plain number; `#sum` holds it from then on. */
  #number = 0;
  #sum: Term | undefined;
  #stop: SumStop | undefined;
  /** What went in, for the size in an overflow message. */
  #slices: LeafRows[] = [];
  #parts: { blob: Uint8Array; start: number; end: number }[] = [];

  constructor(layout: KeyLayout, limits: ReduceLimits = {}) {
    this.#layout = layout;
    this.#limits = { reduceLimit: true, threshold: 5000, ratio: 2, ...limits };
  }

  reset(): void {
    this.#number = 0;
    this.#sum = undefined;
    this.#stop = undefined;
    this.#slices = [];
    this.#parts = [];
  }

  addRows(slice: LeafRows): void {
    this.#slices.push(slice);
    let sum = this.#number;
    const count = slice.length;
    for (let i = 0; i < count; i++) {
      const { bytes, start, end } = slice.span(i);
      if (bytes[start] === 0 && this.#sum === undefined) {
        const value = parsePlainNumber(bytes, start + 1, end);
        const next = sum + value;
        if (next <= SAFE && next >= -SAFE) {
          sum = next;
          continue;
        }
      }
      this.#number = sum;
      visitValues(bytes.subarray(start, end), this.#visit);
      sum = this.#number;
      if (this.#stop !== undefined) break;
    }
    this.#number = sum;
  }

  readonly #visit = (bytes: Uint8Array, start: number, end: number): void => {
    if (this.#stop !== undefined) return;
    try {
      this.#add(parsePlainList(bytes, start, end) ?? parseTerm(textOf(bytes, start, end)));
    } catch (error) {
      this.#stopAt(error);
    }
  };

  #stopAt(error: unknown): void {
    if (error instanceof SumStop) this.#stop = error;
    else if (error instanceof DepthError)
      this.#stop = new SumStop(sumError(`The _sum function cannot add: ${error.message}`));
    else throw error;
    this.#sum = this.#stop.value;
  }

  #add(value: Term): void {
    if (this.#sum === undefined && typeof value === "number") {
      const sum = addNumbers(this.#number, value);
      if (typeof sum === "number") this.#number = sum;
      else this.#sum = sum;
      return;
    }
    const sum = addValues(this.#sum ?? this.#number, value);
    if (typeof sum === "number") {
      this.#number = sum;
      this.#sum = undefined;
    } else this.#sum = sum;
  }

  addPart(blob: Uint8Array, start: number, end: number): void {
    this.#parts.push({ blob, start, end });
    const { value, crash } = this.#read(blob, start, end);
    if (this.#stop !== undefined) {
      // The first error stays, but strict mode must hear of a later crash.
      if (crash !== undefined) this.#stop = new SumStop(this.#stop.value, crash);
      return;
    }
    try {
      if (crash !== undefined) throw new SumStop(value as TermObject, crash);
      this.#add(value);
    } catch (error) {
      this.#stopAt(error);
    }
  }

  #read(blob: Uint8Array, start: number, end: number): Stored {
    const tag = blob[start];
    if (tag === NUMBER || tag === DOUBLE) {
      this.#reader.open(blob, start + 1);
      return { value: this.#reader.number(tag === NUMBER), crash: undefined };
    }
    if (tag === TERM) return { value: parseTerm(textOf(blob, start + 1, end)), crash: undefined };
    this.#reader.open(blob, start + 1);
    const length = this.#reader.varint();
    const at = this.#reader.pos;
    return {
      value: parseTerm(textOf(blob, at + length, end)),
      crash: textOf(blob, at, at + length),
    };
  }

  part(): Uint8Array {
    const sum = this.#checked("");
    if (typeof sum === "number") {
      const bytes = new Uint8Array(1 + NUMBER_BYTES_MAX);
      bytes[0] = isCompact(sum) ? NUMBER : DOUBLE;
      return bytes.slice(0, writeNumber(bytes, 1, sum));
    }
    const text = Buffer.from(printTerm(sum));
    const crash = this.#stop?.crash;
    if (crash === undefined) return Buffer.concat([Uint8Array.of(TERM), text]);
    const head = new Uint8Array(2 + crash.length);
    head[0] = CRASH;
    const at = writeVarint(head, 1, crash.length);
    head.set(Buffer.from(crash), at);
    return Buffer.concat([head, text]);
  }

  outcome(options: EvaluateOptions | undefined): ReduceOutcome {
    if (this.#sum === undefined) return { value: JSON.stringify(this.#number) };
    const context = options?.context ?? "";
    const sum = this.#checked(context);
    return { value: printTerm(this.#finallyChecked(sum, context)) };
  }

  failureOf(blob: Uint8Array, start: number, end: number): ReduceFailure | undefined {
    if (blob[start] !== CRASH) return undefined;
    const { value, crash } = this.#read(blob, start, end);
    return { error: crash ?? "case_clause", reason: printTerm(value) };
  }

  /** The sum, or the error value if it outgrew its input (VIEWS §17). */
  #checked(context: string): Term {
    const sum = this.#sum ?? this.#number;
    const size = this.#sizeOver(sum);
    return size === 0 ? sum : this.#orOverflow(sum, this.#inputSize(), size, context);
  }

  /** The coordinator's last rereduce, over this one result, checks again. */
  #finallyChecked(sum: Term, context: string): Term {
    const size = this.#sizeOver(sum);
    return size === 0 ? sum : this.#orOverflow(sum, size + 13, size, context);
  }

  /** External size with its version byte if it is above the threshold, else 0. */
  #sizeOver(sum: Term): number {
    if (isNumeric(sum) || this.#limits.reduceLimit !== true) return 0;
    const size = 1 + termSize(sum);
    return size > this.#limits.threshold ? size : 0;
  }

  #orOverflow(sum: Term, input: number, output: number, context: string): Term {
    if (output * this.#limits.ratio <= input) return sum;
    return sumError(
      `Reduce output must shrink more rapidly: input size: ${input} output size: ${output} context: ${context}`,
    );
  }

  /** External size of the list that CouchDB would have handed to the fold: rows, then earlier results. */
  #inputSize(): number {
    let size = 7;
    for (const slice of this.#slices) {
      for (let i = 0; i < slice.length; i++) {
        const key = slice.key(i);
        const entry = slice.value(i);
        const idAndKey =
          5 + docIdOf(this.#layout, key).length + textSize(keyText(this.#layout, key, entry));
        visitValues(entry, (bytes, start, end) => {
          size += 12 + idAndKey + textSize(textOf(bytes, start, end));
        });
      }
    }
    for (const { blob, start, end } of this.#parts) {
      size += 7 + termSize(this.#read(blob, start, end).value);
    }
    return size;
  }
}

/** External size of a JSON value; about that for one too deep to look into. */
function textSize(text: string): number {
  try {
    return termSize(parseTerm(text));
  } catch (error) {
    if (error instanceof DepthError) return text.length;
    throw error;
  }
}
