// What is JSON for CouchDB, whose parser (jiffy) is stricter than JSON.parse in two things: an escape of half a surrogate pair is none,
// and neither is a number with a fraction or an exponent that lies beyond the doubles. Whole numbers may be as long as they like.

import { invalidJson } from "./errors.js";
import { skipString } from "./json-slices.js";

/** Hardly any text has one of these. */
const MAY_HAVE_SURROGATE = /\\u[dD][89a-fA-F]/;
const MAY_BE_HUGE = /[eE]\+?\d{2}|\d{300}/;

/** One escape: a high surrogate and the low one that may follow, a low one alone, or any other. */
const ESCAPE =
  /\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u([dD][c-fC-F][0-9a-fA-F]{2})|.)/g;
const NUMBER = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y;

/** @throws QueryError 400 when `text` is not JSON. */
export function assertJson(text: string): void {
  try {
    JSON.parse(text);
  } catch {
    throw invalidJson();
  }
  if (MAY_HAVE_SURROGATE.test(text) && hasHalfPair(text)) throw invalidJson();
  if (MAY_BE_HUGE.test(text) && hasHugeNumber(text)) throw invalidJson();
}

function hasHalfPair(text: string): boolean {
  for (const [, high, low, alone] of text.matchAll(ESCAPE))
    if (alone !== undefined || (high !== undefined && low === undefined)) return true;
  return false;
}

function hasHugeNumber(text: string): boolean {
  for (let at = 0; at < text.length;) {
    if (text.startsWith('"', at)) {
      at = skipString(text, at);
      continue;
    }
    NUMBER.lastIndex = at;
    const number = NUMBER.exec(text);
    if (!number) {
      at++;
      continue;
    }
    const [digits, fraction, exponent] = number;
    if ((fraction ?? exponent) !== undefined && !Number.isFinite(Number(digits))) return true;
    at += digits.length;
  }
  return false;
}
