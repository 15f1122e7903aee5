// Doubles as bytes whose order is the numeric order: a tag that tells sign and exponent, then the significand's bits after its
// leading one, seven a byte with a continuation bit below them; trailing zeros are left out. 1 takes two bytes, 2024 three,
// 2^53 - 1 nine. Negative numbers have mirrored tags and inverted payload bytes.
import type { ByteSink } from "./bytes.js";
import { NUMBER_FIRST, NUMBER_LAST, NUMBER_ZERO } from "./tags.js";

/** Exponents with a tag of their own; numbers of another exponent carry it in front of the significand. */
const EXPONENT_MIN = -11;
const EXPONENT_MAX = 52;
/** Tag of a positive number with exponent 0. */
const POSITIVE_ONE = NUMBER_ZERO + 2 - EXPONENT_MIN;
const POSITIVE_SMALL = NUMBER_ZERO + 1;
const POSITIVE_LARGE = NUMBER_LAST;
/** positive tag + negative tag, for any number. */
const MIRROR = NUMBER_FIRST + NUMBER_LAST;
/** Longest encoding: tag and nine groups. */
export const NUMBER_BYTES_MAX = 10;

const double = new Float64Array(1);
const words = new Uint32Array(double.buffer);
const HIGH_WORD = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1 ? 1 : 0;
const LOW_WORD = 1 - HIGH_WORD;

/** Encodes an integer of magnitude < 2^31. The caller has ensured NUMBER_BYTES_MAX bytes. */
export function writeSmallInteger(value: number, sink: ByteSink): void {
  const bytes = sink.bytes;
  let at = sink.used;
  if (value === 0) {
    bytes[at] = NUMBER_ZERO;
    sink.used = at + 1;
    return;
  }
  let flip = 0;
  let magnitude = value;
  if (value < 0) {
    flip = 0xff;
    magnitude = -value;
  }
  const zeros = Math.clz32(magnitude);
  const tag = POSITIVE_ONE + 31 - zeros;
  bytes[at++] = flip === 0 ? tag : MIRROR - tag;
  // The bits after the leading one, left-aligned. zeros >= 1, so the shift stays below 32 unless the magnitude is 1.
  let rest = zeros === 31 ? 0 : magnitude << (zeros + 1);
  do {
    const group = (rest >>> 25) << 1;
    rest <<= 7;
    bytes[at++] = (rest === 0 ? group : group | 1) ^ flip;
  } while (rest !== 0);
  sink.used = at;
}

/** Encodes any finite double; infinities (texts beyond the range of doubles) as the greatest finite one. -0 is 0. */
export function writeDouble(value: number, sink: ByteSink): void {
  sink.ensure(NUMBER_BYTES_MAX);
  const bytes = sink.bytes;
  let at = sink.used;
  if (value === 0) {
    bytes[at] = NUMBER_ZERO;
    sink.used = at + 1;
    return;
  }
  double[0] =
    value === Infinity ? Number.MAX_VALUE : value === -Infinity ? -Number.MAX_VALUE : value;
  let high = words[HIGH_WORD] as number;
  let low = words[LOW_WORD] as number;
  const flip = high >>> 31 === 0 ? 0 : 0xff;
  const exponent = ((high >>> 20) & 0x7ff) - 1023;
  // Left-align what the tag does not tell in the 64 bits (high, low).
  let tag: number;
  if (exponent >= EXPONENT_MIN && exponent <= EXPONENT_MAX) {
    tag = POSITIVE_ONE + exponent;
    high = (high << 12) | (low >>> 20);
    low <<= 12;
  } else {
    tag = exponent < 0 ? POSITIVE_SMALL : POSITIVE_LARGE;
    high = (high << 1) | (low >>> 31);
    low <<= 1;
  }
  bytes[at++] = flip === 0 ? tag : MIRROR - tag;
  do {
    const group = (high >>> 25) << 1;
    high = (high << 7) | (low >>> 25);
    low <<= 7;
    bytes[at++] = ((high | low) === 0 ? group : group | 1) ^ flip;
  } while ((high | low) !== 0);
  sink.used = at;
}

/** Index after the number whose tag is at `start`. */
export function numberEnd(bytes: Uint8Array, start: number): number {
  const tag = bytes[start] as number;
  let at = start + 1;
  if (tag === NUMBER_ZERO) return at;
  const last = tag > NUMBER_ZERO ? 0 : 1;
  while (at < bytes.length && ((bytes[at++] as number) & 1) !== last);
  return at;
}

/** The number whose tag is at `start`. */
export function readNumber(bytes: Uint8Array, start: number): number {
  const tag = bytes[start] as number;
  if (tag === NUMBER_ZERO) return 0;
  const positive = tag > NUMBER_ZERO;
  const flip = positive ? 0 : 0xff;
  const positiveTag = positive ? tag : MIRROR - tag;
  const own = positiveTag !== POSITIVE_SMALL && positiveTag !== POSITIVE_LARGE;
  let at = start + 1;
  let byte = (bytes[at++] as number) ^ flip;
  if (own && (byte & 1) === 0) {
    // One group: an exact small number, mostly an integer below 256.
    const value = (1 + (byte >>> 1) / 128) * 2 ** (positiveTag - POSITIVE_ONE);
    return positive ? value : -value;
  }
  let high = 0;
  let low = 0;
  let shift = 57;
  for (;;) {
    const group = byte >>> 1;
    if (shift >= 32) high |= group << (shift - 32);
    else if (shift > 25) {
      high |= group >>> (32 - shift);
      low |= group << shift;
    } else if (shift >= 0) low |= group << shift;
    else low |= group >>> -shift;
    if ((byte & 1) === 0 || shift < 0) break;
    shift -= 7;
    byte = (bytes[at++] as number) ^ flip;
  }
  if (own) {
    low = (low >>> 12) | (high << 20);
    high = (high >>> 12) | ((positiveTag - POSITIVE_ONE + 1023) << 20);
  } else {
    low = (low >>> 1) | (high << 31);
    high >>>= 1;
  }
  words[HIGH_WORD] = positive ? high : high | 0x80000000;
  words[LOW_WORD] = low;
  return double[0] as number;
}
