// What every way to update shares: the options, the mapper whose turn it is, and the checkpoints.

import { join } from "node:path";

import { IndexerError } from "../errors.js";
import type { ChunkResult, Mapper } from "../mapping/mapper.js";
import type { LineInput } from "../mapping/types.js";
import type { Chunk } from "../sources/index.js";
import { CarefulMarker } from "./careful.js";
import type { GroupIndex, GroupState } from "./group-index.js";
import { runsFolderName } from "./manifest.js";
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

  /** Strict mode: a document that could not be mapped at all fails the whole group, as in CouchDB. */
  requireStrict(groups: readonly GroupIndex[], result: ChunkResult): void {
    if (!this.options.strict) return;
    for (const [g, parts] of result.groups.entries()) {
      const failed = parts.find((part) => part.documentFailure !== undefined);
      if (!failed?.documentFailure) continue;
      const { id, error, reason } = failed.documentFailure;
      throw new IndexerError(
        "INDEXER_MAP_FAILED",
        `document ${id} failed to map, and with it, in strict mode, all views of its group (${labelOf(groups[g])}): ${error}: ${reason}`,
        { docId: id, status: 500, error, reason },
      );
    }
  }
}

/** The group's views, for messages. */
function labelOf(group: GroupIndex | undefined): string {
  return group?.config.labels.join(", ") ?? "";
}
