// A window of an incremental update: chunks that were mapped and not yet applied, for each group a write buffer.

import type { ChunkResult } from "../mapping/mapper.js";
import type { LineInput } from "../mapping/types.js";
import type { Chunk } from "../sources/index.js";
import { encodeState, type GroupIndex, type GroupState } from "./group-index.js";
import { ORDINALS_A_CHUNK } from "./ordinals.js";
import {
  addCounts,
  type UpdateCounts,
  type UpdateRun,
  type UpdaterOptions,
} from "./update-types.js";
import { WriteBuffer } from "./write-buffer.js";

/**
 * An update that catches up gathers so many times the minimum of documents, or of bytes, before it applies them: the more rows at once,
 * the fewer nodes are written twice.
 */
const CATCH_UP_DOCUMENTS = 20;
export const CATCH_UP_BYTES = 8;

/** Chunks that were mapped and not yet applied, and how they are applied. */
export class Window {
  readonly #groups: readonly GroupIndex[];
  readonly #options: UpdaterOptions;
  readonly #run: UpdateRun;
  readonly #counts: UpdateCounts;
  readonly #input: (chunk: Chunk) => LineInput;
  readonly #buffers: readonly WriteBuffer[];
  readonly #chunks = new Map<number, Chunk>();
  #since = 0;
  #synced = performance.now();
  #dirty = false;

  constructor(
    groups: readonly GroupIndex[],
    options: UpdaterOptions,
    run: UpdateRun,
    counts: UpdateCounts,
    input: (chunk: Chunk) => LineInput,
  ) {
    this.#groups = groups;
    this.#options = options;
    this.#run = run;
    this.#counts = counts;
    this.#input = input;
    this.#buffers = groups.map((group) => new WriteBuffer(group.config));
  }

  get empty(): boolean {
    return this.#chunks.size === 0;
  }

  /** Whether it is to be applied. @param catchingUp - More is there already: it may wait for that. */
  full(catchingUp: boolean): boolean {
    const { minDocuments, minBytes } = this.#options;
    const documents = minDocuments * (catchingUp ? CATCH_UP_DOCUMENTS : 1);
    const bytes = minBytes * (catchingUp ? CATCH_UP_BYTES : 1);
    return this.#buffers.some((buffer) => buffer.documents >= documents || buffer.bytes >= bytes);
  }

  /** When a window that is not full must be applied all the same. */
  get deadline(): number {
    return this.#since + this.#options.maxDelayMs;
  }

  add(chunk: Chunk, number: number, result: ChunkResult): void {
    if (this.empty) this.#since = performance.now();
    this.#chunks.set(number, chunk);
    addCounts(this.#counts, result);
    for (const [g, parts] of result.groups.entries())
      for (const part of parts) this.#buffers[g]?.add(part);
  }

  /** Applies everything, with these checkpoints. */
  async flush(states: readonly GroupState[]): Promise<void> {
    for (const [g, group] of this.#groups.entries()) {
      const buffer = this.#buffers[g] as WriteBuffer;
      const state = states[g] as GroupState;
      await group.writing(() => this.#apply(group, buffer, state));
    }
    this.#chunks.clear();
    this.#tell();
  }

  async #apply(group: GroupIndex, buffer: WriteBuffer, state: GroupState): Promise<void> {
    const snapshot = group.store.snapshot();
    try {
      const commit = group.store.stateCommit;
      const at = commit === undefined ? undefined : { path: group.path, commit };
      let drained = buffer.drain(snapshot, at);
      if (drained.remap.length > 0) {
        await this.#remap(group, buffer, drained.remap);
        drained = buffer.drain(snapshot, at);
      }
      const bytes = encodeState(state);
      const moved = Buffer.compare(bytes, group.store.state) !== 0;
      if (drained.changes.size > 0 || moved) {
        await group.store.apply(drained.changes, bytes);
        this.#dirty = true;
        await this.#commit(group);
      }
    } finally {
      snapshot.release();
      buffer.clear();
    }
  }

  /** Removes documents by id (sorted); the checkpoint stays. */
  async remove(ids: readonly Uint8Array[]): Promise<void> {
    const [group] = this.#groups;
    const [buffer] = this.#buffers;
    if (!group || !buffer) return;
    buffer.addDeletions(ids);
    await this.flush([group.state]);
  }

  /** Puts what waits in the files' logs into their trees: a first build ends as a whole. */
  async settle(): Promise<void> {
    for (const group of this.#groups)
      await group.writing(async () => {
        await group.store.settle();
        await group.store.commit({ sync: false });
      });
    this.#dirty = true;
  }

  /** The update has ended: what was applied is made durable. */
  async finish(): Promise<void> {
    if (!this.#dirty) return;
    for (const group of this.#groups)
      if (this.#run.syncLater) this.#run.syncLater(group);
      else await group.writing(() => group.store.commit({ sync: true }));
    this.#dirty = false;
  }

  async #commit(group: GroupIndex): Promise<void> {
    const { mode, intervalMs } = this.#options.sync;
    const due =
      mode === "commit" || (mode === "interval" && performance.now() - this.#synced > intervalMs);
    await group.store.commit({ sync: due });
    if (due) this.#synced = performance.now();
  }

  /** Documents that were called unchanged, and are not any more: mapped after all. */
  async #remap(group: GroupIndex, buffer: WriteBuffer, ordinals: readonly number[]): Promise<void> {
    const byChunk = new Map<number, number[]>();
    for (const ordinal of ordinals) {
      const number = Math.floor(ordinal / ORDINALS_A_CHUNK);
      byChunk.set(number, [...(byChunk.get(number) ?? []), ordinal % ORDINALS_A_CHUNK]);
    }
    for (const [number, positions] of byChunk) {
      const chunk = this.#chunks.get(number);
      if (!chunk)
        throw new Error("viewmill bug: a document to map again is in no chunk of the window");
      for (const position of positions) {
        const { groups } = await this.#options.mapper.mapChunk({
          input: this.#input(chunk),
          groups: [{ config: group.config, output: { kind: "memory" }, known: undefined }],
          ordinalBase: number * ORDINALS_A_CHUNK,
          select: { from: position, to: position + 1 },
          signal: this.#run.signal,
        });
        for (const part of groups[0] ?? []) buffer.add(part);
      }
    }
  }

  #tell(): void {
    const { documents, mapped, failed, rows } = this.#counts;
    this.#run.onProgress?.({
      phase: "map",
      documents,
      mapped,
      failed,
      rows,
      bytes: undefined,
      bytesTotal: undefined,
      changesTotal: undefined,
      merged: 0,
      mergeTotal: 0,
    });
  }
}
