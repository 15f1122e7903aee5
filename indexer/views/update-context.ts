// What every way to update shares: the options, the mapper whose turn it is, and the checkpoints.

import { join } from "node:path";

import { IndexerError } from "../errors.js";
import type { ChunkResult, Mapper } from "../mapping/mapper.js";
import { LineReader } from "../mapping/line-input.js";
import type { LineInput, StrictFailure } from "../mapping/types.js";
import type { Chunk } from "../sources/index.js";
import { CarefulMarker } from "./careful.js";
import type { GroupIndex, GroupState } from "./group-index.js";
import { runsFolderName } from "./manifest.js";
import { ORDINALS_A_CHUNK } from "./ordinals.js";
import type { UpdaterOptions } from "./update-types.js";

export class UpdateContext {
  readonly options: UpdaterOptions;
  readonly marker: CarefulMarker;
  #careful: number;
  #isolated: Mapper | undefined;

  constructor(options: UpdaterOptions) {
    this.options = options;
    this.marker = new CarefulMarker(options.dir);
    this.#careful = options.isolated ? this.marker.leftBehind() : 0;
  }

  async begin(): Promise<void> {
    if (this.#careful > 0) this.#isolated = await this.options.isolated?.();
  }

  async end(): Promise<void> {
    this.marker.end();
    await this.#isolated?.close();
    this.#isolated = undefined;
  }

  runsFolder(group: GroupIndex): string {
    return join(this.options.dir, runsFolderName(group.spec.signature));
  }

  input(chunk: Chunk): LineInput {
    return {
      format: chunk.format,
      data: chunk.data,
      label: this.options.sourceLabel,
      idField: this.options.idField,
      localSeq: this.options.source.slicing.localSeq ?? false,
      firstLine: chunk.firstLine,
      lineBytesMax: this.options.lineBytesMax,
    };
  }

  /** The mapper for the next chunk: careful ones first, when an earlier process died. */
  nextMapper(): Mapper {
    if (this.#careful > 0 && this.#isolated) {
      this.#careful--;
      return this.#isolated;
    }
    if (this.options.isolated) this.marker.begin();
    return this.options.mapper;
  }

  statesAt(groups: readonly GroupIndex[], seq: string | undefined): GroupState[] {
    return groups.map((group) => (seq === undefined ? group.state : this.state(group, seq)));
  }

  state(group: GroupIndex, seq: string): GroupState {
    return { ...group.state, seq, source: this.options.sourceId };
  }

  /**
   * Strict mode: a document that could not be mapped at all fails the whole group, as in CouchDB. There a feed has each document once;
   * here a row may be followed by a later one of the same document, and only the last counts.
   *
   * @param chunk - that was mapped; undefined when no document is in it but in its last state.
   * @throws IndexerError INDEXER_MAP_FAILED
   */
  async requireStrict(
    groups: readonly GroupIndex[],
    chunk: Chunk | undefined,
    number: number,
    result: ChunkResult,
  ): Promise<void> {
    if (!this.options.strict) return;
    for (const [g, parts] of result.groups.entries()) {
      const failures = parts.flatMap((part) => part.documentFailures);
      if (failures.length === 0) continue;
      const [failed] = chunk ? await this.#lastStates(failures, chunk, number) : failures;
      if (!failed) continue;
      const { id, error, reason } = failed;
      throw new IndexerError(
        "INDEXER_MAP_FAILED",
        `document ${id} failed to map, and with it, in strict mode, all views of its group (${labelOf(groups[g])}): ${error}: ${reason}`,
        { docId: id, status: 500, error, reason },
      );
    }
  }

  /** Those that no later row of the feed supersedes. Reads on in the feed: somebody has to be told whether the update has failed. */
  async #lastStates(
    failures: readonly StrictFailure[],
    chunk: Chunk,
    number: number,
  ): Promise<StrictFailure[]> {
    const open = new Map(failures.map((failure) => [failure.id, failure]));
    const reader = new LineReader();
    const look = (input: LineInput, base: number): void => {
      const { ids, idStart, idEnd, count } = reader.read(input);
      const bytes = Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength);
      for (let i = 0; i < count && open.size > 0; i++) {
        const id = bytes.toString("utf8", idStart[i], idEnd[i]);
        const failure = open.get(id);
        if (failure && failure.ordinal < base + i) open.delete(id);
      }
    };
    look(this.input(chunk), number * ORDINALS_A_CHUNK);
    if (open.size > 0)
      for await (const later of this.options.source.changes({
        since: chunk.lastSeq,
        until: "now",
        chunkBytes: this.options.chunkBytes,
        signal: undefined,
      })) {
        look(this.input(later), Infinity);
        if (open.size === 0) break;
      }
    return [...open.values()];
  }
}

/** The group's views, for messages. */
function labelOf(group: GroupIndex | undefined): string {
  return group?.config.labels.join(", ") ?? "";
}
