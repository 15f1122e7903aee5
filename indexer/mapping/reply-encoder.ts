// Adds many replies to a chunk's entries: ordinary ones by a kernel, the others one by one.

import { IndexerError } from "../errors.js";
import { emptyRef, NO_FAILURES, refTo, type ChunkEncoder } from "./chunk-encoder.js";
import { ReplyKernel, type RepliedDocuments } from "./reply-kernel.js";
import type { GroupConfig } from "./types.js";

export class ReplyEncoder {
  readonly #encoder: ChunkEncoder;
  readonly #kernel: ReplyKernel | undefined;
  readonly #ref = emptyRef();

  constructor(encoder: ChunkEncoder, config: GroupConfig) {
    this.#encoder = encoder;
    this.#kernel = encoder.compares ? undefined : ReplyKernel.create(config);
  }

  /** The replies as bytes, where `add` has them at hand: valid until any encoder of this thread loads or adds others. */
  load(replies: string): Uint8Array {
    return this.#kernel?.load(replies) ?? Buffer.from(replies);
  }

  /**
   * Adds the rows of replies, each as {@link ChunkEncoder.addMapped} does, of documents for which no map function threw. They begin at `start` and
   * end with a LF each, or with the end of `src`.
   *
   * @returns where the next reply begins.
   * @throws IndexerError INDEXER_SERVER_PROTOCOL when there are fewer replies.
   */
  add(src: Uint8Array, start: number, replied: RepliedDocuments): number {
    const { batches } = this.#encoder;
    const { documents, positions, from, to, ordinalBase } = replied;
    let at = start;
    for (let k = from; k < to; k++) {
      const kernel = this.#kernel;
      const done = kernel?.encode({ src, start: at }, { ...replied, from: k }, batches);
      if (kernel && done) {
        at = kernel.end;
        k += done;
        this.#encoder.count(done, kernel.rows);
        if (k === to) break;
      }
      if (at >= src.length)
        throw new IndexerError(
          "INDEXER_SERVER_PROTOCOL",
          "the view server gave fewer replies than commands",
        );
      refTo(this.#ref, documents, positions[k] as number, ordinalBase);
      at = this.#encoder.addMapped(this.#ref, src, at, NO_FAILURES) + 1;
    }
    return at;
  }
}
