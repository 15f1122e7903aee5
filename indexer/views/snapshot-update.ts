// An update from a source that is read whole: it is compared with each index first (snapshot-scan.ts), and only what differs is mapped.

import { mapInOrder } from "./chunk-stream.js";
import type { GroupIndex } from "./group-index.js";
import { compareSnapshot } from "./snapshot-scan.js";
import { ORDINALS_A_CHUNK } from "./ordinals.js";
import type { UpdateContext } from "./update-context.js";
import type { UpdateCounts, UpdateRun } from "./update-types.js";
import { Window } from "./window.js";

/** Compares the snapshot with each group's id tree, and maps what differs. */
export async function updateSnapshot(
  context: UpdateContext,
  groups: readonly GroupIndex[],
  run: UpdateRun,
  counts: UpdateCounts,
): Promise<void> {
  const { source, mapper, threads, dir } = context.options;
  const latest = await source.latest();
  const behind = groups.filter((group) => group.state.seq !== latest);
  if (behind.length === 0) return;
  const scan = await compareSnapshot(behind, source, {
    dir,
    threads,
    input: (chunk) => context.input(chunk),
    chunkBytes: context.options.chunkBytes,
    signal: run.signal,
  });
  try {
    counts.documents += scan.documents;
    for (const [g, group] of behind.entries()) {
      counts.unchanged += scan.unchanged(g);
      const window = new Window([group], context.options, run, counts, (chunk) =>
        context.input(chunk),
      );
      const stream = mapInOrder(scan.changed(g), mapper.concurrency, 0, (chunk, number) => {
        const { pieces, ...rest } = chunk;
        return context.nextMapper().mapChunk({
          input: { ...context.input(rest), pieces },
          groups: [{ config: group.config, output: { kind: "memory" }, known: undefined }],
          ordinalBase: number * ORDINALS_A_CHUNK,
          signal: undefined,
        });
      });
      for await (const { chunk, number, result } of stream) {
        await context.requireStrict([group], undefined, number, result);
        window.add(chunk, number, { ...result, documents: 0 });
        if (window.full(true)) await window.flush([group.state]);
        if (run.signal?.aborted) break;
      }
      if (run.signal?.aborted) {
        await window.flush([group.state]);
        await window.finish();
        run.signal.throwIfAborted();
      }
      await window.flush([group.state]);
      // Last, so that a file with a line that cannot be read does not first take documents away.
      for (const ids of scan.deletions(g)) {
        counts.deleted += ids.length;
        await window.remove(ids);
      }
      await window.flush([context.state(group, latest)]);
      await window.finish();
    }
  } finally {
    scan.close();
  }
}
