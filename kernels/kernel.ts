// Gives the WebAssembly module of this folder with memory of its own to whoever has bytes to go through. Everything it does, callers can do
// in JavaScript too: for what is too large or out of the ordinary, and where there is no module.

import { readFileSync } from "node:fs";

import { REVISION } from "./revision.js";

const PAGE_BYTES = 65_536;
/** The first byte that is the caller's: the module's own data lie before it. */
export const MEMORY_START = PAGE_BYTES;

/** What assembly/index.ts exports; the functions are described there. Addresses and lengths are in bytes. */
interface Exports {
  revision(): number;
  slice(data: number, p: number, end: number, base: number, out: number, max: number): number;
  sliceRows(data: number, p: number, end: number, base: number, out: number, max: number): number;
  rowSeqStart(): number;
  rowSeqEnd(): number;
  sliceEnd(): number;
  sliceRefused(): number;
  setProjection(
    names: number,
    count: number,
    head: number,
    headLength: number,
    tail: number,
    tailLength: number,
  ): void;
  project(data: number, spans: number, n: number, out: number, outSpans: number): number;
  wroteHigh(): number;
  setEntries(bytes: number, spans: number, ordinals: number, flags: number, order: number): void;
  sortEntries(n: number, scratch: number): void;
  encodeEntries(
    n: number,
    out: number,
    outBytes: number,
    indexAt: number,
    indexBytes: number,
    blockLimit: number,
    ordinalMin: number,
    ordinalWidth: number,
    combinedAt: number,
  ): number;
  encodedEntries(): number;
  encodedBlocks(): number;
  encodedBlockBytesMax(): number;
  encodedIndexEnd(): number;
  openMerge(first: number, n: number, list: number, gte: number, gteLength: number): void;
  setLeaves(
    leaf: number,
    head: number,
    bytes: number,
    longest: number,
    pointer: number,
    drop: number,
    one: number,
    firstKey: number,
  ): void;
  setRootOrder(table: number, quote: number, backslash: number, upper: number): void;
  setTrees(trees: number, count: number, bytes: number, entries: number): void;
  encodeReplies(p: number, n: number, documents: number, ids: number, ordinal: number): number;
  repliesEnd(): number;
  mergeLeaf(): number;
  mergedEnd(): number;
  mergedCount(): number;
  mergedRows(): number;
  mergedEntriesRead(): number;
  mergedFirstKeyLength(): number;
  mergedNextKey(): number;
  mergedNextKeyShared(): number;
  mergedNextPlaced(): number;
}

/** What an instance may ask of whoever made it, while one of its functions runs; assembly/env.ts describes it. */
export interface KernelImports {
  combine(first: number, last: number): number;
  refill(n: number): boolean;
  malformed(n: number): void;
  superseded(n: number): void;
  rowsOf(value: number, length: number): number;
  placeValue(value: number, length: number, rows: number): number;
}

interface Memory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

// Node's types have it in those of the DOM only.
declare const WebAssembly:
  | {
      readonly Memory: new (limits: { initial: number; maximum: number }) => Memory;
      readonly Module: new (bytes: Uint8Array) => object;
      readonly Instance: new (
        module: object,
        imports: { readonly env: Readonly<Record<string, unknown>> },
      ) => { readonly exports: unknown };
    }
  | undefined;

/** An instance with its memory. Views of the memory end with the next `reserve`. */
export interface Kernel {
  readonly run: Exports;
  /** The whole memory. */
  readonly bytes: Uint8Array;
  /** The same as little-endian words, from address 0 on. */
  readonly words: Uint32Array;
}

function notExpected(): never {
  throw new Error("viewmill bug: a kernel asked for what its user does not give");
}

const NO_IMPORTS: KernelImports = {
  combine: () => -1,
  refill: notExpected,
  malformed: notExpected,
  superseded: notExpected,
  rowsOf: notExpected,
  placeValue: notExpected,
};

/** Undefined until it is first asked for; null where there is none. */
let compiled: object | null | undefined;

/**
 * A new instance with `bytes` of memory from {@link MEMORY_START} on.
 *
 * @param imports - What the functions that are used may ask for; without `combine` nothing is combined.
 * @returns undefined where there is no module: it was not built, is not of this version, or this Node runs none.
 */
export function createKernel(
  bytes: number,
  imports: Partial<KernelImports> = {},
): Kernel | undefined {
  if (compiled === undefined) compiled = compile() ?? null;
  if (compiled === null || WebAssembly === undefined) return undefined;
  const pages = Math.ceil((MEMORY_START + bytes) / PAGE_BYTES);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
  const { exports } = new WebAssembly.Instance(compiled, {
    env: { ...NO_IMPORTS, ...imports, memory },
  });
  const run = exports as Exports;
  if (run.revision() !== REVISION) {
    compiled = null;
    return undefined;
  }
  return {
    run,
    bytes: new Uint8Array(memory.buffer),
    words: new Uint32Array(memory.buffer),
  };
}

/** Undefined when there is no file, no WebAssembly (`--jitless`), or no SIMD. */
function compile(): object | undefined {
  try {
    const bytes = readFileSync(new URL("./kernels.wasm", import.meta.url));
    return WebAssembly && new WebAssembly.Module(bytes);
  } catch {
    return undefined;
  }
}
