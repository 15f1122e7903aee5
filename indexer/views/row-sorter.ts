// Sorts more entries than memory holds: batches are sorted and written to a run file, and read back in order by a merge.

import {
  EntryBatch,
  encodeSegment,
  Merger,
  RunFile,
  type Entry,
  type SegmentRef,
} from "../../btree/index.js";

/** A batch is written when it takes so much; small enough to be sorted between two turns of the event loop. */
const BATCH_BYTES = 8 * 2 ** 20;
const BATCH_ENTRIES = 200_000;
const MERGE_BUFFER_BYTES = 8 * 2 ** 20;
const STEP_ENTRIES = 1024;

export class RowSorter {
  /** Where keys and values are written before `push`. */
  readonly batch = new EntryBatch();
  readonly #run: RunFile;
  readonly #segments: SegmentRef[] = [];
  #merger: Merger | undefined;

  /** @param path - of the run file, which is made. */
  constructor(path: string) {
    this.#run = RunFile.create(path);
  }

  /** Registers an entry that was written to the batch. */
  push(keyStart: number, keyEnd: number, valueEnd: number): void {
    const { batch } = this;
    batch.push(keyStart, keyEnd, keyEnd, valueEnd, 0);
    if (batch.used >= BATCH_BYTES || batch.length >= BATCH_ENTRIES) this.#spill();
  }

  /** All entries by ascending key, copies. Of equal keys all come, one after the other. */
  *sorted(): IterableIterator<Entry> {
    this.#spill();
    if (this.#segments.length === 0) return;
    const step: Entry[] = [];
    const take = (kb: Uint8Array, ks: number, ke: number, vb: Uint8Array, vs: number, ve: number) =>
      step.push({ key: kb.slice(ks, ke), value: vb.slice(vs, ve) });
    const options = { bufferBytes: MERGE_BUFFER_BYTES, onSuperseded: take };
    this.#merger = new Merger(this.#segments, options, take);
    for (let more = true; more;) {
      more = this.#merger.step(STEP_ENTRIES);
      yield* step;
      step.length = 0;
    }
  }

  close(): void {
    this.#merger?.close();
    this.#run.close();
  }

  #spill(): void {
    const { batch } = this;
    if (batch.length === 0) return;
    batch.sort();
    this.#segments.push(this.#run.append(encodeSegment(batch)));
    batch.clear();
  }
}
