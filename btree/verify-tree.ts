// Proves one tree: every node readable and of the height its parent says, keys strictly ascending in and across nodes and inside the
// bounds of the inner nodes above, prefix compression exact (search relies on it), rows, live bytes and reductions equal to
// recomputed ones, out-of-line values readable. What a parent says of its children is believed when the parent is checked, and
// checked when the child is: so each fault is reported once, where it lies.

import { setImmediate } from "node:timers/promises";
import { compareBytes, NO_BYTES, sharedPrefix } from "./bytes.js";
import { recordFault, saltSeed } from "./checksum.js";
import {
  DATA_START,
  FRAME_BYTES,
  HEIGHT_MAX,
  KIND_INNER,
  KIND_LEAF,
  KIND_VALUE,
  RECORD_BYTES_MAX,
} from "./format.js";
import type { Header } from "./header.js";
import { decodeInnerRecord, type InnerNode } from "./inner-node.js";
import type { KeyTable } from "./key-table.js";
import { decodeLeafRecord, type LeafNode } from "./leaf-node.js";
import { NodeSlice } from "./leaf-slice.js";
import { NodeSource } from "./node-source.js";
import type { StorageBackend } from "./storage.js";
import type { Bytes, Reducer, TreeRoot } from "./types.js";
import type { ExtentList } from "./verify-extents.js";
import { ReductionVerifier } from "./verify-reductions.js";

/** What a tree consists of, as found by walking it. Nodes that cannot be read are not in it. */
export interface TreeReport {
  readonly name: string;
  /** Nodes from the root to a leaf, both included; 1 for a single leaf. */
  readonly depth: number;
  readonly leafNodes: number;
  readonly innerNodes: number;
  /** Entries in leaves; `rows` is what they count for. */
  readonly entries: number;
  readonly rows: number;
  readonly leafBytes: number;
  readonly innerBytes: number;
  /** Values kept out of line, and the bytes of their records. */
  readonly valueRecords: number;
  readonly valueBytes: number;
  /** How full leaves are of the size they are filled to: 1 is full. Single entries larger than that make it more. */
  readonly fill: number;
  /** Operations in the log, not yet applied to the nodes. */
  readonly waiting: number;
}

/** A node as its parent, or the roots record, describes it. */
interface Claim {
  readonly offset: number;
  readonly size: number;
  readonly height: number;
  readonly count: number;
  readonly bytes: number;
  readonly reduction: Bytes;
  /** Every key is >= low, and < high unless that is undefined. */
  readonly low: Bytes;
  readonly high: Bytes | undefined;
}

/** What a verifier needs. */
export interface TreeVerifierInput {
  readonly storage: StorageBackend;
  readonly header: Header;
  readonly tree: string;
  readonly reducer: Reducer | undefined;
  readonly checkValue: ((tree: string, key: Bytes, value: Bytes) => string | undefined) | undefined;
  readonly extents: ExtentList;
  readonly signal: AbortSignal | undefined;
  readonly onBytes: () => void;
  readonly onFault: (offset: number, what: string) => void;
}

/** Nodes between two looks at the signal and the event loop. */
const NODES_PER_TURN = 64;

export class TreeVerifier {
  readonly #input: TreeVerifierInput;
  readonly #seed: number;
  readonly #source: NodeSource;
  readonly #reductions: ReductionVerifier;
  /** Inner nodes seen: one that turns up twice is not walked again, or a damaged tree could take for ever. */
  readonly #seen = new Set<number>();
  readonly #report = {
    leafNodes: 0,
    innerNodes: 0,
    entries: 0,
    rows: 0,
    leafBytes: 0,
    innerBytes: 0,
    valueRecords: 0,
    valueBytes: 0,
  };

  constructor(input: TreeVerifierInput) {
    this.#input = input;
    this.#seed = saltSeed(input.header.format.salt);
    this.#source = new NodeSource(input.storage.path, input.storage, this.#seed, undefined);
    this.#reductions = new ReductionVerifier(input.reducer, input.onFault);
  }

  async run(root: TreeRoot | undefined): Promise<Omit<TreeReport, "waiting">> {
    const { tree, header } = this.#input;
    if (root === undefined) return { name: tree, depth: 0, ...this.#report, fill: 0 };
    if (root.height > HEIGHT_MAX)
      this.#input.onFault(root.offset, `a root of height ${root.height}`);
    else await this.#walk({ ...root, low: NO_BYTES, high: undefined });
    const { leafNodes, leafBytes } = this.#report;
    const fill = leafNodes === 0 ? 0 : leafBytes / (leafNodes * header.format.leafBytes);
    return { name: tree, depth: root.height + 1, ...this.#report, fill };
  }

  /** In key order, so that the owner's check and the reducer see entries as they follow each other. */
  async #walk(root: Claim): Promise<void> {
    const todo: Claim[] = [root];
    let turn = 0;
    for (let claim = todo.pop(); claim; claim = todo.pop()) {
      if (claim.height === 0) {
        this.#leaf(claim);
      } else {
        const children = this.#inner(claim);
        for (let i = children.length - 1; i >= 0; i--) todo.push(children[i] as Claim);
      }
      if (++turn % NODES_PER_TURN === 0) {
        await this.#reductions.settle();
        this.#input.onBytes();
        await setImmediate();
        this.#input.signal?.throwIfAborted();
      }
    }
    await this.#reductions.settle();
    this.#input.onBytes();
  }

  #inner(claim: Claim): Claim[] {
    if (this.#seen.has(claim.offset)) {
      this.#input.onFault(claim.offset, "the node is reached twice");
      return [];
    }
    this.#seen.add(claim.offset);
    const record = this.#record(claim.offset, claim.size, KIND_INNER);
    if (record === undefined) return [];
    const node = decodeInnerRecord(record);
    if (node === undefined) {
      this.#input.onFault(claim.offset, "an inner node that breaks the format");
      return [];
    }
    this.#report.innerNodes++;
    this.#report.innerBytes += claim.size;
    if (node.height !== claim.height) {
      this.#input.onFault(
        claim.offset,
        `a node of height ${node.height} where ${claim.height} was expected`,
      );
      return [];
    }
    this.#compare(claim, node.rowsTotal, claim.size + node.bytesBelow());
    this.#reductions.inner(claim.offset, node.reductions(), claim.reduction);
    return this.#childClaims(claim, node);
  }

  #childClaims(claim: Claim, node: InnerNode): Claim[] {
    const lows = this.#keys(claim, node.keys, true);
    lows[0] = claim.low;
    return lows.map((low, i) => {
      const child = node.child(i, low);
      return {
        offset: child.offset,
        size: child.size,
        height: claim.height - 1,
        count: child.count,
        bytes: child.bytes,
        reduction: child.reduction ?? NO_BYTES,
        low,
        high: lows[i + 1] ?? claim.high,
      };
    });
  }

  #leaf(claim: Claim): void {
    const record = this.#record(claim.offset, claim.size, KIND_LEAF);
    if (record === undefined) return;
    const leaf = decodeLeafRecord(record);
    if (leaf === undefined || leaf.count === 0) {
      this.#input.onFault(claim.offset, "a leaf that breaks the format");
      return;
    }
    this.#report.leafNodes++;
    this.#report.leafBytes += claim.size;
    this.#report.entries += leaf.count;
    const keys = this.#keys(claim, leaf.keys, false);
    const { rows, pointedBytes, readable } = this.#values(claim, leaf, keys);
    this.#report.rows += rows ?? claim.count;
    // With a value that cannot be read, the sums cannot be made: that fault is reported already.
    if (!readable) return;
    this.#compare(claim, rows, claim.size + pointedBytes);
    this.#reductions.leaf(
      claim.offset,
      new NodeSlice(this.#source, leaf, 0, leaf.count),
      claim.reduction,
    );
  }

  /** The node's keys, after checking their order, their bounds and their compression. */
  #keys(claim: Claim, table: KeyTable, inner: boolean): Bytes[] {
    const keys: Bytes[] = [];
    let previous: Bytes = NO_BYTES;
    let ordered = true;
    let exact = true;
    for (let i = 0; i < table.count; i++) {
      const key = table.keyAfter(i, previous);
      // The first bound of an inner node is stored empty: its parent's stands for it.
      if (i > (inner ? 1 : 0)) {
        ordered &&= compareBytes(previous, key) < 0;
        exact &&= table.shared(i) === sharedPrefix(previous, key);
      }
      keys.push(key);
      previous = key;
    }
    const first = keys[inner ? 1 : 0];
    if (!ordered) this.#input.onFault(claim.offset, "keys are not in ascending order");
    if (!exact)
      this.#input.onFault(claim.offset, "keys share more bytes than their compression says");
    if (inner && table.keyLength(0) > 0) {
      this.#input.onFault(claim.offset, "the first child has a bound of its own");
    }
    if (first !== undefined) {
      const order = compareBytes(claim.low, first);
      if (inner ? order >= 0 : order > 0) {
        this.#input.onFault(claim.offset, "the first key is below the node's lower bound");
      }
      if (claim.high !== undefined && compareBytes(previous, claim.high) >= 0) {
        this.#input.onFault(claim.offset, "the last key is not below the next node's lower bound");
      }
    }
    return keys;
  }

  /** Reads every value. `rows` is undefined when only the owner's reducer could count them and it is not known. */
  #values(
    claim: Claim,
    leaf: LeafNode,
    keys: readonly Bytes[],
  ): { rows: number | undefined; pointedBytes: number; readable: boolean } {
    const { tree, reducer, checkValue } = this.#input;
    let rows = 0;
    let pointedBytes = 0;
    let readable = true;
    for (const [i, key] of keys.entries()) {
      let bytes: Bytes = leaf.bytes;
      let start = leaf.valueStart(i);
      let end = leaf.valueEnd(i);
      const pointer = leaf.isPointer(i) ? leaf.pointer(i) : undefined;
      if (pointer) {
        const record = this.#record(pointer.offset, pointer.size, KIND_VALUE);
        if (record === undefined) {
          readable = false;
          continue;
        }
        pointedBytes += pointer.size;
        this.#report.valueRecords++;
        this.#report.valueBytes += pointer.size;
        bytes = record;
        start = FRAME_BYTES;
        end = record.length;
      }
      const fault = this.#guard(() => {
        const counted = reducer?.count(bytes, start, end);
        rows += counted ?? 0;
        if (pointer && counted !== undefined && counted !== pointer.rows) {
          return `the value at ${pointer.offset} counts for ${counted} rows, its entry says ${pointer.rows}`;
        }
        return checkValue?.(tree, key, bytes.subarray(start, end));
      });
      if (fault !== undefined) {
        this.#input.onFault(claim.offset, `entry ${i} (key ${hexOf(key)}): ${fault}`);
      }
    }
    return { rows: reducer ? rows : undefined, pointedBytes, readable };
  }

  #guard(check: () => string | undefined): string | undefined {
    try {
      return check();
    } catch (error) {
      return `its value cannot be understood: ${String(error)}`;
    }
  }

  #compare(claim: Claim, rows: number | undefined, bytes: number): void {
    if (rows !== undefined && rows !== claim.count) {
      this.#input.onFault(
        claim.offset,
        `the node has ${rows} rows, its parent says ${claim.count}`,
      );
    }
    if (bytes !== claim.bytes) {
      this.#input.onFault(
        claim.offset,
        `${bytes} bytes are in and below the node, its parent says ${claim.bytes}`,
      );
    }
  }

  /** A verified record; undefined, and a fault, when it is not what was written. */
  #record(offset: number, size: number, kind: number): Bytes | undefined {
    const { storage, header, extents, onFault, tree } = this.#input;
    if (
      !(size >= FRAME_BYTES) ||
      size > RECORD_BYTES_MAX + FRAME_BYTES ||
      !(offset >= DATA_START)
    ) {
      onFault(offset, `a record of ${size} bytes at ${offset} cannot be`);
      return undefined;
    }
    extents.add(offset, size, tree);
    if (offset + size > header.fileLength) {
      onFault(offset, `the record ends after the commit's ${header.fileLength} bytes`);
    }
    let fault: string | undefined;
    try {
      const record = storage.read(offset, size);
      fault = recordFault(record, size, kind, this.#seed, offset);
      if (fault === undefined) return record;
    } catch (error) {
      fault = `it cannot be read: ${String(error)}`;
    }
    onFault(offset, fault);
    return undefined;
  }
}

/** The start of a key, for people. */
function hexOf(key: Bytes): string {
  const shown = Buffer.from(key.subarray(0, 32)).toString("hex");
  return key.length > 32 ? `${shown}…` : shown;
}
