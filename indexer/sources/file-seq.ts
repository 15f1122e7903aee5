// Sequences of file sources: a JSON object with the byte offset, what the file must be for it to hold, and the sequence
// to show. Opaque to everyone else; `displaySeq` is the one thing that may look inside.

import type { Seq } from "./source.js";

/** What a file sequence says. */
export interface FileSeq {
  /** Everything before this offset was delivered. */
  readonly at: number;
  /** Fingerprint of what is before `at` (logs), or the signature of the whole file (snapshots). */
  readonly of: string;
  /** JSON text of what queries show as `update_seq`: the last row's own sequence, or the offset. */
  readonly shown: string;
}

const SHOWN = ',"seq":';

export function encodeFileSeq(seq: FileSeq): Seq {
  return `{"at":${seq.at},"of":${JSON.stringify(seq.of)}${SHOWN}${seq.shown}}`;
}

/** Undefined when it is not a sequence of a file source. */
export function decodeFileSeq(text: Seq): FileSeq | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || !("at" in value) || !("of" in value)) {
      return undefined;
    }
    const { at, of } = value;
    if (typeof at !== "number" || !Number.isSafeInteger(at) || typeof of !== "string") {
      return undefined;
    }
    return { at, of, shown: displaySeq(text) };
  } catch {
    return undefined;
  }
}

/**
 * JSON text of a sequence as queries show it in `update_seq`: what a changes file's own rows said, the byte offset for
 * files of documents, the sequence itself for databases.
 */
export function displaySeq(seq: Seq): string {
  if (!seq.startsWith('{"at":')) return seq;
  const place = seq.indexOf(SHOWN);
  return place < 0 ? seq : seq.slice(place + SHOWN.length, -1);
}
