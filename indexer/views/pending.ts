// How many changes a group has still to take: told by the source, or counted in its feed.

import { FileRangeReader, type Seq, type Source } from "../sources/index.js";

/** Bytes of the feed that are looked through; what is beyond is estimated from them. */
const COUNTED_BYTES = 64 * 2 ** 20;
const LF = 0x0a;

/** Changes after `since`; exact where the source knows or the feed is short. */
export async function countPending(source: Source, since: Seq | undefined): Promise<number> {
  if (source.snapshot && since !== undefined && (await source.resumable(since))) return 0;
  const from = source.snapshot ? undefined : since;
  const extent = await source.extent(from);
  if (extent.changes !== undefined) return extent.changes;
  if (extent.bytes === 0) return 0;
  const reader = new FileRangeReader();
  let lines = 0;
  let bytes = 0;
  try {
    for await (const { data } of source.changes({ since: from, until: "now" })) {
      const part = ArrayBuffer.isView(data) ? data : reader.read(data);
      for (let at = part.indexOf(LF); at >= 0; at = part.indexOf(LF, at + 1)) lines++;
      if (part.length > 0 && part[part.length - 1] !== LF) lines++;
      bytes += part.length;
      if (bytes >= COUNTED_BYTES) break;
    }
  } finally {
    reader.close();
  }
  if (extent.bytes === undefined || bytes === 0 || bytes >= extent.bytes) return lines;
  return bytes < COUNTED_BYTES ? lines : Math.round((lines / bytes) * extent.bytes);
}
