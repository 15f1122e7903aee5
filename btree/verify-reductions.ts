// Recomputes the reductions of nodes and compares them with what their parents hold: leaves from their entries, inner nodes from
// the reductions of their children. Nodes are handed to the reducer in batches, for it may run elsewhere.

import { equalBytes } from "./bytes.js";
import type { Bytes, LeafSlice, Reducer } from "./types.js";

interface Expected<T> {
  readonly offset: number;
  readonly input: T;
  readonly reduction: Bytes;
}

type Compute<T> = (inputs: readonly T[]) => Bytes[] | Promise<Bytes[]>;

export class ReductionVerifier {
  readonly #reducer: Reducer | undefined;
  readonly #onFault: (offset: number, what: string) => void;
  #leaves: Expected<LeafSlice>[] = [];
  #inners: Expected<readonly Bytes[]>[] = [];

  /** Without a reducer nothing is compared. */
  constructor(reducer: Reducer | undefined, onFault: (offset: number, what: string) => void) {
    this.#reducer = reducer;
    this.#onFault = onFault;
  }

  leaf(offset: number, slice: LeafSlice, reduction: Bytes): void {
    if (this.#expectsOne(offset, reduction)) this.#leaves.push({ offset, input: slice, reduction });
  }

  inner(offset: number, children: readonly Bytes[], reduction: Bytes): void {
    if (this.#expectsOne(offset, reduction)) {
      this.#inners.push({ offset, input: children, reduction });
    }
  }

  /** Compares everything handed in since the last call. */
  async settle(): Promise<void> {
    const reducer = this.#reducer;
    const leaves = this.#leaves;
    const inners = this.#inners;
    this.#leaves = [];
    this.#inners = [];
    if (reducer?.reduce && reducer.rereduce) {
      await this.#compare(leaves, reducer.reduce.bind(reducer));
      await this.#compare(inners, reducer.rereduce.bind(reducer));
    }
  }

  #expectsOne(offset: number, reduction: Bytes): boolean {
    if (this.#reducer === undefined) return false;
    if (this.#reducer.reduce !== undefined) return true;
    if (reduction.length > 0) this.#onFault(offset, "a reduction in a tree that keeps only counts");
    return false;
  }

  async #compare<T>(expected: readonly Expected<T>[], compute: Compute<T>): Promise<void> {
    if (expected.length === 0) return;
    let actual: Bytes[];
    try {
      actual = await compute(expected.map(({ input }) => input));
    } catch (error) {
      await this.#blame(expected, compute, error);
      return;
    }
    for (const [i, { offset, reduction }] of expected.entries()) {
      const found = actual[i];
      if (found === undefined || !equalBytes(found, reduction)) {
        this.#onFault(offset, "its parent's reduction of it is not the recomputed one");
      }
    }
  }

  /** The reducer failed on a batch: one by one it shows on which node. */
  async #blame<T>(
    expected: readonly Expected<T>[],
    compute: Compute<T>,
    error: unknown,
  ): Promise<void> {
    if (expected.length === 1) {
      for (const { offset } of expected) {
        this.#onFault(offset, `its reduction cannot be recomputed: ${String(error)}`);
      }
      return;
    }
    for (const one of expected) await this.#compare([one], compute);
  }
}
