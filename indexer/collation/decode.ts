// Gives the JSON text back from a key whose encoder said `exact`: literals, numbers in their shortest form, printable ASCII
// strings, and arrays and objects of these. Queries do this for every row they print.
import { numberEnd, readNumber } from "./numbers.js";
import { RUN_LIMIT } from "./root-strings.js";
import { notAKey } from "./structure.js";
import {
  ARRAY,
  END,
  LEVEL,
  NUMBER_FIRST,
  NUMBER_LAST,
  RAW_TAGS,
  ROOT_TAGS,
  type CollationKind,
} from "./tags.js";
import { collation, newestCollation } from "./versions.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Text being assembled: bytes of UTF-8. Shared by all calls, which are synchronous and do not nest. */
let out = Buffer.allocUnsafe(1024);
let used = 0;
/** Whether a byte above 0x7f was written (raw strings only). */
let wide = false;
/** For each open container the byte that closes it; objects alternate between name and value. */
let closers = new Uint8Array(64);
/** Primary weight byte → ASCII character, in the version being decoded. */
let characters = collation(newestCollation()).asciiOfPrimary;
let charactersOf = newestCollation();

/**
 * JSON text of the key at `start`. Keys tell their own end, so `end` may lie behind it (a view tree's key carries the document id
 * there). Only for keys whose encoder said `exact`: of another one this is a text that collates equally at best. `version` is
 * the one the key was encoded with. Throws RangeError for bytes that are no key.
 */
export function decodeKey(
  kind: CollationKind,
  key: Uint8Array,
  start = 0,
  end: number = key.length,
  version: number = newestCollation(),
): string {
  const tag = key[start] as number;
  if (tag >= NUMBER_FIRST && tag <= NUMBER_LAST) return String(readNumber(key, start));
  used = 0;
  wide = false;
  if (version !== charactersOf) {
    characters = collation(version).asciiOfPrimary;
    charactersOf = version;
  }
  const isString = kind === "root" && tag === ROOT_TAGS.STRING;
  const reached = isString ? rootString(key, start) : compound(key, start, kind);
  if (reached > end) throw notAKey(start);
  return written();
}

function written(): string {
  return out.toString(wide ? "utf8" : "latin1", 0, used);
}

/** Writes the value at `start`; returns the index after it. */
function compound(key: Uint8Array, start: number, kind: CollationKind): number {
  const tags = kind === "root" ? ROOT_TAGS : RAW_TAGS;
  let depth = 0;
  let at = start;
  let separator = 0;
  for (;;) {
    const tag = key[at] as number;
    if (tag === END && depth > 0) {
      room(1);
      out[used++] = closers[--depth] as number;
      at++;
    } else {
      if (separator !== 0) {
        room(1);
        out[used++] = separator;
      }
      if (depth > 0 && closers[depth - 1] === 0x7d) {
        at = kind === "root" ? rootString(key, at) : rawString(key, at);
        room(1);
        out[used++] = 0x3a;
      }
      const value = key[at] as number;
      if (value === ARRAY || value === tags.OBJECT) {
        room(1);
        out[used++] = value === ARRAY ? 0x5b : 0x7b;
        if (depth === closers.length) closers = Buffer.concat([closers, new Uint8Array(depth)]);
        closers[depth++] = value === ARRAY ? 0x5d : 0x7d;
        at++;
        separator = 0;
        continue;
      }
      if (value === tags.STRING) at = kind === "root" ? rootString(key, at) : rawString(key, at);
      else if (value >= NUMBER_FIRST && value <= NUMBER_LAST) {
        number(readNumber(key, at));
        at = numberEnd(key, at);
      } else {
        if (value === tags.NULL) ascii("null");
        else if (value === tags.TRUE) ascii("true");
        else if (value === tags.FALSE) ascii("false");
        else throw notAKey(start);
        at++;
      }
    }
    if (depth === 0) return at;
    separator = 0x2c;
  }
}

/** Writes the string whose tag is at `at`; returns the index after it. */
function rootString(key: Uint8Array, at: number): number {
  let i = at + 1;
  room(64);
  out[used++] = QUOTE;
  const first = used;
  let limit = i + ((out.length - used - 2) >> 1);
  let escapes = false;
  let byte = key[i] as number;
  while (byte > LEVEL) {
    if (i >= limit) {
      room(256);
      limit = i + ((out.length - used - 2) >> 1);
    }
    const c = characters[byte] as number;
    if (c === QUOTE || c === BACKSLASH) {
      out[used++] = BACKSLASH;
      escapes = true;
    }
    out[used++] = c;
    byte = key[++i] as number;
  }
  if (byte === LEVEL) i = uppercase(key, i + 2, first, escapes);
  room(1);
  out[used++] = QUOTE;
  return i + 1;
}

/** Applies the third level, which begins at `i`, to the letters written from `at` on; returns the index of the string's END. */
function uppercase(key: Uint8Array, i: number, first: number, escapes: boolean): number {
  let at = first;
  let weight = key[i] as number;
  while (weight !== END) {
    if (i >= key.length) throw notAKey(i);
    let run = weight < RUN_LIMIT ? RUN_LIMIT - weight : 0;
    if (run === 0) {
      out[at] = (out[at] as number) & 0xdf;
      run = 1;
    }
    if (escapes) {
      while (run-- > 0) at += out[at] === BACKSLASH ? 2 : 1;
    } else {
      at += run;
    }
    weight = key[++i] as number;
  }
  return i;
}

const SHORT_ESCAPES: Record<number, string> = {
  8: "\\b",
  9: "\\t",
  10: "\\n",
  12: "\\f",
  13: "\\r",
  [QUOTE]: '\\"',
  [BACKSLASH]: "\\\\",
};

function rawString(key: Uint8Array, at: number): number {
  let i = at + 1;
  room(1);
  out[used++] = QUOTE;
  let byte = key[i] as number;
  while (byte !== END) {
    if (i >= key.length) throw notAKey(at);
    if (byte === 1) byte = (key[++i] as number) - 1;
    if (byte < 0x20 || byte === QUOTE || byte === BACKSLASH) {
      ascii(SHORT_ESCAPES[byte] ?? `\\u00${byte.toString(16).padStart(2, "0")}`);
    } else {
      if (byte >= 0x80) wide = true;
      room(1);
      out[used++] = byte;
    }
    byte = key[++i] as number;
  }
  room(1);
  out[used++] = QUOTE;
  return i + 1;
}

function number(value: number): void {
  const magnitude = value < 0 ? -value : value;
  if (magnitude >= 1e9 || magnitude !== Math.floor(magnitude)) {
    ascii(String(value));
    return;
  }
  room(10);
  if (value < 0) out[used++] = 0x2d;
  let digits = 1;
  for (let limit = 10; magnitude >= limit; limit *= 10) digits++;
  used += digits;
  let rest = magnitude;
  for (let at = used; digits > 0; digits--) {
    const shorter = Math.floor(rest / 10);
    out[--at] = 0x30 + rest - shorter * 10;
    rest = shorter;
  }
}

function ascii(text: string): void {
  room(text.length);
  for (let i = 0; i < text.length; i++) out[used++] = text.charCodeAt(i);
}

function room(n: number): void {
  if (used + n <= out.length) return;
  const bigger = Buffer.allocUnsafe(Math.max(out.length * 2, used + n));
  out.copy(bigger, 0, 0, used);
  out = bigger;
}
