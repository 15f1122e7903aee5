// The batches that wait for a tree, for the verifier: every record readable, the chain as long as it should be; and the entries as readers
// see them, those of the nodes and the waiting ones together in order, for the owner's check.

import { compareBytes } from "./bytes.js";
import type { BtreeError } from "./errors.js";
import type { NodeSource } from "./node-source.js";
import type { Bytes, TreeOp } from "./types.js";
import type { ExtentList } from "./verify-extents.js";
import {
  brokenBatch,
  type ChainedBatch,
  chainedBatches,
  type StoredTree,
} from "./waiting-chain.js";
import { WaitingOps } from "./waiting-ops.js";

export type CheckValue = (tree: string, key: Bytes, value: Bytes) => string | undefined;

/** The newest operation of each key, by key. What is wrong goes to `onFault`. */
export function verifyWaiting(
  source: NodeSource,
  tree: string,
  { chain }: StoredTree,
  extents: ExtentList,
  onFault: (offset: number, what: string) => void,
): readonly TreeOp[] {
  if (chain === undefined) return [];
  const batches: ChainedBatch[] = [];
  let operations = 0;
  let bytes = 0;
  try {
    for (const batch of chainedBatches(source, chain)) {
      extents.add(batch.offset, batch.size, tree);
      batches.push(batch);
      operations += batch.head.count;
      bytes += batch.size;
    }
    if (operations !== chain.operations || bytes !== chain.bytes)
      onFault(
        chain.offset,
        `${operations} waiting operations of ${bytes} bytes where ${chain.operations} of ${chain.bytes} should be`,
      );
  } catch (error) {
    const { offset, message } = error as BtreeError;
    onFault(offset ?? chain.offset, `a waiting batch: ${message}`);
  }
  const waiting = new WaitingOps();
  for (const { offset, record, head } of batches.reverse())
    if (!waiting.pushRecord(record, head))
      onFault(offset, `a waiting batch: ${brokenBatch(source, offset).message}`);
  return waiting.ops(waiting.order(0, waiting.length));
}

/** Shows an owner's check what readers see. */
export class SeenEntries {
  readonly #tree: string;
  readonly #waiting: readonly TreeOp[];
  readonly #check: CheckValue | undefined;
  readonly #onFault: (what: string) => void;
  #next = 0;

  /** @param onFault - for waiting entries that the check finds fault with. */
  constructor(
    tree: string,
    waiting: readonly TreeOp[],
    check: CheckValue | undefined,
    onFault: (what: string) => void,
  ) {
    this.#tree = tree;
    this.#waiting = waiting;
    this.#check = check;
    this.#onFault = onFault;
  }

  /** What the check says of an entry of a leaf; nothing of one that a waiting operation replaces. */
  readonly checkLeafEntry: CheckValue = (tree, key, value) => {
    while (this.#next < this.#waiting.length) {
      const op = this.#waiting[this.#next] as TreeOp;
      const order = compareBytes(op.key, key);
      if (order > 0) break;
      this.#show(op);
      this.#next++;
      if (order === 0) return undefined;
    }
    return this.#check?.(tree, key, value);
  };

  /** Shows what comes after the last leaf. */
  finish(): void {
    for (; this.#next < this.#waiting.length; this.#next++)
      this.#show(this.#waiting[this.#next] as TreeOp);
  }

  #show({ key, value }: TreeOp): void {
    if (value === undefined) return;
    const what = this.#check?.(this.#tree, key, value);
    if (what !== undefined) this.#onFault(what);
  }
}
