// What `Projector` does to one document, for many at a time: `project` of kernels/assembly/project.ts.

import { createKernel, MEMORY_START, type Kernel } from "../../kernels/index.js";

/** Bytes between the first document's beginning and the last one's end, and documents, at most. */
const BYTES_MAX = 256 * 1024;
const DOCUMENTS_MAX = 512;
/** Bytes that may be written around each document. */
const FRAME_BYTES_MAX = 16;
const NAMES_BYTES_MAX = 16 * 1024;
/** What may be read and written behind the end of something. */
const SLACK = 64;

const LF = 0x0a;

const NAMES = MEMORY_START;
const FRAME = NAMES + NAMES_BYTES_MAX;
const SPANS = FRAME + 4 * FRAME_BYTES_MAX;
const OUT_SPANS = SPANS + DOCUMENTS_MAX * 8;
const DATA = OUT_SPANS + DOCUMENTS_MAX * 8;
const OUT = DATA + BYTES_MAX + SLACK;
const MEMORY_BYTES = OUT + BYTES_MAX + DOCUMENTS_MAX * FRAME_BYTES_MAX + SLACK - MEMORY_START;

/** One a thread; it is lent to one user after the other. */
let kernel: Kernel | undefined;

/** Results lie in memory that all instances of a thread share: they are valid until any of them projects again. */
export class BlockProjection {
  readonly #kernel: Kernel;
  readonly #names: readonly Buffer[];
  readonly #head: Buffer;
  readonly #tail: Buffer;
  /** Bytes written for the last block. */
  length = 0;
  /** Whether they are all ASCII: false when that is not known. */
  ascii = false;

  private constructor(
    lent: Kernel,
    names: ReadonlySet<string>,
    frame: { readonly head: string; readonly tail: string },
  ) {
    this.#kernel = lent;
    this.#names = [...names].map((name) => Buffer.from(name));
    this.#head = Buffer.from(frame.head);
    this.#tail = Buffer.from(frame.tail);
  }

  /**
   * @param names - of the members to keep.
   * @param frame - written before and after each document: ASCII, 16 bytes at most together, and something before.
   * @returns undefined where there is no WebAssembly, or there are too many names.
   */
  static create(
    names: ReadonlySet<string>,
    frame: { readonly head: string; readonly tail: string },
  ): BlockProjection | undefined {
    let size = 0;
    for (const name of names) size += Buffer.byteLength(name) + 4;
    if (size > NAMES_BYTES_MAX) return undefined;
    kernel ??= createKernel(MEMORY_BYTES);
    return kernel && new BlockProjection(kernel, names, frame);
  }

  /**
   * Projects documents of `bytes`: the first ones of `which`, ascending positions in the columns `starts` and `ends`. Returns how many: as
   * many as have room, so 0 when the first is too long.
   */
  project(bytes: Uint8Array, starts: Uint32Array, ends: Uint32Array, which: Uint32Array): number {
    this.length = 0;
    let n = 0;
    const from = n < which.length ? (starts[which[0] as number] as number) : 0;
    let to = from;
    for (; n < which.length && n < DOCUMENTS_MAX; n++) {
      const end = ends[which[n] as number] as number;
      if (end - from > BYTES_MAX) break;
      to = end;
    }
    if (n === 0) return 0;
    const { run, bytes: memory, words } = this.#kernel;
    memory.set(bytes.subarray(from, to), DATA);
    memory[DATA + to - from] = LF;
    let at = SPANS >>> 2;
    for (let k = 0; k < n; k++) {
      const i = which[k] as number;
      words[at++] = (starts[i] as number) - from;
      words[at++] = (ends[i] as number) - from;
    }
    this.#writeOptions();
    this.length = run.project(DATA, SPANS, n, OUT, OUT_SPANS);
    this.ascii = run.wroteHigh() === 0;
    return n;
  }

  /** Where the k-th document of the last block begins among the bytes written; 0 when it was not as simple as it must be. */
  start(k: number): number {
    return this.#kernel.words[(OUT_SPANS >>> 2) + 2 * k] as number;
  }

  end(k: number): number {
    return this.#kernel.words[(OUT_SPANS >>> 2) + 2 * k + 1] as number;
  }

  /** What was written. */
  get written(): Buffer {
    const { buffer } = this.#kernel.bytes;
    return Buffer.from(buffer, OUT, this.length);
  }

  #writeOptions(): void {
    const { run, bytes } = this.#kernel;
    const view = new DataView(bytes.buffer);
    let at = NAMES;
    for (const name of this.#names) {
      view.setUint32(at, name.length, true);
      bytes.set(name, at + 4);
      at += 4 + name.length;
    }
    bytes.set(this.#head, FRAME);
    bytes.set(this.#tail, FRAME + 2 * FRAME_BYTES_MAX);
    run.setProjection(
      NAMES,
      this.#names.length,
      FRAME,
      this.#head.length,
      FRAME + 2 * FRAME_BYTES_MAX,
      this.#tail.length,
    );
  }
}
