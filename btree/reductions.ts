// Asks a reducer for the reductions of finished nodes, many at a time. Whoever writes nodes goes on while a custom reduce runs
// elsewhere; a parent is written when the reductions of its children are there.

import { NO_BYTES } from "./bytes.js";
import { invariant } from "./errors.js";
import type { ChildRef } from "./inner-node.js";
import type { Bytes, LeafSlice, Reducer } from "./types.js";

/** Nodes asked for in one call. */
const BATCH_NODES = 32;
/** Calls that may be unanswered before a writer should wait. */
const WINDOW_CALLS = 8;

export class ReductionQueue {
  readonly #reducer: Reducer;
  #leafRefs: ChildRef[] = [];
  #leaves: LeafSlice[] = [];
  #releases: (() => void)[] = [];
  #innerRefs: ChildRef[] = [];
  #groups: Bytes[][] = [];
  readonly #pending = new Set<Promise<void>>();
  #failed = false;
  #failure: unknown;

  constructor(reducer: Reducer) {
    this.#reducer = reducer;
  }

  /** True when the tree keeps reductions, so that `addLeaf` needs the leaf's content. */
  get wantsLeaves(): boolean {
    return this.#reducer.reduce !== undefined;
  }

  get windowFull(): boolean {
    return this.#pending.size >= WINDOW_CALLS;
  }

  /**
   * @param slice - the leaf's content, asked for only if the tree keeps reductions.
   * @param release - called when nothing needs the content any more.
   */
  addLeaf(ref: ChildRef, slice?: () => LeafSlice, release?: () => void): void {
    if (this.#reducer.reduce === undefined || slice === undefined) {
      ref.reduction = NO_BYTES;
      return;
    }
    this.#leafRefs.push(ref);
    this.#leaves.push(slice());
    if (release) this.#releases.push(release);
    if (this.#leaves.length >= BATCH_NODES) this.#sendLeaves();
  }

  addInner(ref: ChildRef, reductions: () => Bytes[]): void {
    if (this.#reducer.rereduce === undefined) {
      ref.reduction = NO_BYTES;
      return;
    }
    this.#innerRefs.push(ref);
    this.#groups.push(reductions());
    if (this.#groups.length >= BATCH_NODES) this.#sendGroups();
  }

  /** Asks for everything that waits for a fuller batch. */
  send(): void {
    if (this.#leaves.length > 0) this.#sendLeaves();
    if (this.#groups.length > 0) this.#sendGroups();
  }

  /** Resolves when an answer has come, at once when none is out. Rejects with the reducer's error. */
  async drain(): Promise<void> {
    if (this.#pending.size > 0) await Promise.race(this.#pending);
    this.#throwFailure();
  }

  /** Resolves when every node added so far has its reduction. Rejects with the reducer's error. */
  async settle(): Promise<void> {
    for (const waiting of this.settling()) await waiting;
  }

  /** The same for callers that may not have to wait: yields what is to be waited for. */
  *settling(): Generator<Promise<void>, void> {
    this.send();
    while (this.#pending.size > 0) yield Promise.race(this.#pending);
    this.#throwFailure();
  }

  #sendLeaves(): void {
    const refs = this.#leafRefs;
    const leaves = this.#leaves;
    const releases = this.#releases;
    this.#leafRefs = [];
    this.#leaves = [];
    this.#releases = [];
    this.#take(refs, this.#reducer.reduce?.(leaves), releases);
  }

  #sendGroups(): void {
    const refs = this.#innerRefs;
    const groups = this.#groups;
    this.#innerRefs = [];
    this.#groups = [];
    this.#take(refs, this.#reducer.rereduce?.(groups));
  }

  #take(
    refs: readonly ChildRef[],
    answer: Bytes[] | Promise<Bytes[]> | undefined,
    releases: readonly (() => void)[] = [],
  ): void {
    invariant(answer !== undefined, "a reducer has reduce without rereduce");
    if (Array.isArray(answer)) {
      assign(refs, answer);
      for (const release of releases) release();
      return;
    }
    const pending = answer
      .then((reductions) => {
        assign(refs, reductions);
        for (const release of releases) release();
      })
      .catch((error: unknown) => {
        this.#failed = true;
        this.#failure ??= error;
      })
      .finally(() => {
        this.#pending.delete(pending);
      });
    this.#pending.add(pending);
  }

  #throwFailure(): void {
    if (this.#failed) throw this.#failure;
  }
}

function assign(refs: readonly ChildRef[], reductions: readonly Bytes[]): void {
  if (reductions.length !== refs.length) {
    throw new TypeError(
      `the reducer answered ${reductions.length} reductions for ${refs.length} nodes`,
    );
  }
  for (const [i, ref] of refs.entries()) ref.reduction = reductions[i];
}
