// Partitioned databases (VIEWS §19): document ids are `partition:rest`, and a group that is kept by partition has `partition:` before each
// collation key. A partition's name holds no colon, so that prefix ends itself, and none begins another.

const COLON = 0x3a;
const UNDERSCORE = 0x5f;

/** What every tree key of a partition begins with. */
export function partitionPrefix(partition: string): Uint8Array {
  return Buffer.from(`${partition}:`);
}

/**
 * Index after the partition that a document id, or a tree key of a group that is kept by partition, begins with.
 * @returns `start` when there is none.
 */
export function partitionEnd(bytes: Uint8Array, start = 0, end = bytes.length): number {
  for (let i = start; i < end; i++) if (bytes[i] === COLON) return i + 1;
  return start;
}

/** The same as reducers want it. */
export function afterPartition(key: Uint8Array): number {
  return partitionEnd(key);
}

/** Why CouchDB refuses a document of this id, in its words. */
export interface RefusedId {
  readonly error: "illegal_docid" | "illegal_partition";
  readonly reason: string;
}

/** @returns undefined for an id that names a partition. Design documents have none, and are not to be asked about. */
export function refusedId(ids: Uint8Array, start: number, end: number): RefusedId | undefined {
  const rest = partitionEnd(ids, start, end);
  if (rest === start)
    return { error: "illegal_docid", reason: "Doc id must be of form partition:id" };
  if (rest === start + 1)
    return { error: "illegal_partition", reason: "Partition must not be empty" };
  if (ids[start] === UNDERSCORE)
    return { error: "illegal_partition", reason: "Partition must not start with an underscore" };
  if (rest === end) return { error: "illegal_docid", reason: "Document id must not be empty" };
  if (ids[rest] === UNDERSCORE)
    return {
      error: "illegal_docid",
      reason: "Only reserved document ids may start with underscore.",
    };
  return undefined;
}
