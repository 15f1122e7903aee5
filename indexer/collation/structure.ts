// Walks over encoded keys without decoding them: where a key ends, and which of its bytes identify its group.
import { numberEnd } from "./numbers.js";
import {
  ARRAY,
  END,
  NUMBER_FIRST,
  NUMBER_LAST,
  RAW_TAGS,
  ROOT_TAGS,
  type CollationKind,
} from "./tags.js";

/**
 * Index after the key that starts at `start`; what follows it (in a view's tree: the document id) is not looked at.
 * The same bytes mean the same extent in both orders but for the tags of strings and objects.
 */
export function keyEnd(kind: CollationKind, bytes: Uint8Array, start: number): number {
  const tags = kind === "root" ? ROOT_TAGS : RAW_TAGS;
  const object = tags.OBJECT;
  const string = tags.STRING;
  let depth = 0;
  let at = start;
  do {
    const tag = bytes[at] as number;
    if (tag === string) {
      at = bytes.indexOf(END, at + 1) + 1;
      if (at === 0) throw notAKey(start);
    } else if (tag >= NUMBER_FIRST && tag <= NUMBER_LAST) {
      at = numberEnd(bytes, at);
    } else if (tag === ARRAY || tag === object) {
      depth++;
      at++;
    } else if (tag === END) {
      depth--;
      at++;
    } else if (tag === tags.NULL || tag === tags.FALSE || tag === tags.TRUE) {
      at++;
    } else {
      throw notAKey(start);
    }
  } while (depth > 0);
  return at;
}

/**
 * Index after the bytes by which `group_level=level` tells groups apart: of a non-empty array its first `level` elements (all of
 * it when it has fewer), of anything else the whole key. Level 0 is one group of everything: no bytes. Infinity is group=true.
 */
export function groupPrefix(
  kind: CollationKind,
  bytes: Uint8Array,
  start: number,
  level: number,
): number {
  if (level <= 0) return start;
  if (bytes[start] !== ARRAY || bytes[start + 1] === END || level === Infinity)
    return keyEnd(kind, bytes, start);
  let at = start + 1;
  for (let i = 0; i < level; i++) {
    if (bytes[at] === END) return at + 1;
    at = keyEnd(kind, bytes, at);
  }
  return at;
}

/** For bytes that should be a key and are not. */
export function notAKey(start: number): RangeError {
  return new RangeError(
    `no collation key at byte ${start}; the caller must pass bytes that an encoder of this version wrote`,
  );
}
