// Cuts valid JSON text into the raw texts of its parts, so that keys keep their member order, integer-like names
// included, which JSON.parse would lose. Every function here expects text that JSON.parse has accepted.

const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function skipBlanks(text: string, at: number): number {
  while (isBlank(text.charCodeAt(at))) at++;
  return at;
}

/** Index after the string that starts at `start`. */
export function skipString(text: string, start: number): number {
  let quote = start;
  for (;;) {
    quote = text.indexOf('"', quote + 1);
    let before = quote - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    // An even number of backslashes before a quote leaves it unescaped.
    if ((quote - before) % 2 === 1) return quote + 1;
  }
}

/** Index after the JSON value that starts at `start` (no blank there). */
export function skipValue(text: string, start: number): number {
  let at = start;
  let depth = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = skipString(text, at);
      if (depth === 0) return at;
      continue;
    }
    if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
      depth++;
    } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) {
      // A number or word at depth 0 ends before the bracket that is not its own.
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (code === COMMA || isBlank(code))) {
      return at;
    }
    at++;
  }
  return at;
}

export type JsonKind = "array" | "object" | "string" | "other";

export function jsonKind(text: string): JsonKind {
  switch (text.charCodeAt(skipBlanks(text, 0))) {
    case OPEN_ARRAY:
      return "array";
    case OPEN_OBJECT:
      return "object";
    case QUOTE:
      return "string";
    default:
      return "other";
  }
}

/** Raw texts of an array's elements, in order. */
export function arrayElements(text: string): string[] {
  const elements: string[] = [];
  let at = skipBlanks(text, skipBlanks(text, 0) + 1);
  while (text.charCodeAt(at) !== CLOSE_ARRAY) {
    const end = skipValue(text, at);
    elements.push(text.slice(at, end));
    at = skipBlanks(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipBlanks(text, at + 1);
  }
  return elements;
}

/** Names and raw value texts of an object's members, in order, repeated names included. */
export function objectMembers(text: string): [name: string, json: string][] {
  const members: [string, string][] = [];
  let at = skipBlanks(text, skipBlanks(text, 0) + 1);
  while (text.charCodeAt(at) !== CLOSE_OBJECT) {
    const nameEnd = skipString(text, at);
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    const start = skipBlanks(text, skipBlanks(text, nameEnd) + 1);
    const end = skipValue(text, start);
    members.push([name, text.slice(start, end)]);
    at = skipBlanks(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipBlanks(text, at + 1);
  }
  return members;
}

/** The array text cut to its first `count` (> 0) elements; anything else, and shorter arrays, whole. */
export function cutArray(text: string, count: number): string {
  if (text.charCodeAt(0) !== OPEN_ARRAY) return text;
  let at = 1;
  for (let i = 0; i < count; i++) {
    if (text.charCodeAt(at) === CLOSE_ARRAY) return text;
    if (i > 0) at++; // the comma
    at = skipValue(text, at);
  }
  return text.charCodeAt(at) === CLOSE_ARRAY ? text : `${text.slice(0, at)}]`;
}

/** Are the two texts one value, however they are written? Members in another order make another value. */
export function sameTerm(a: string, b: string): boolean {
  // Erlang tells 1 from 1.0; all integers, and all floats, of one value are the same term.
  const term = (text: string): string =>
    rewrite(text, (number) => `${String(Number(number))}${/[.eE]/.test(number) ? "f" : ""}`);
  return a === b || term(a) === term(b);
}

/** Least positive double with full precision. */
const NORMAL_MIN = 2 ** -1022;

/** CouchDB reads numbers that are too small for a normal double as 0, in keys of a query as in those of a view. */
export function tinyToZero(text: string): string {
  if (!/[eE]-[0-9]{3}|0{300}/.test(text)) return text;
  return rewrite(text, (number) => (Math.abs(Number(number)) < NORMAL_MIN ? "0" : number));
}

/** Compact text with its strings in one spelling and its numbers as `spell` has them; member order stays. */
function rewrite(text: string, spell: (number: string) => string): string {
  let out = "";
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (isBlank(code)) {
      at++;
    } else if (code === QUOTE) {
      const end = skipString(text, at);
      out += JSON.stringify(JSON.parse(text.slice(at, end)));
      at = end;
    } else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      let end = at + 1;
      while (end < text.length && /[0-9.eE+-]/.test(text.charAt(end))) end++;
      out += spell(text.slice(at, end));
      at = end;
    } else {
      out += text.charAt(at);
      at++;
    }
  }
  return out;
}
