// Cuts a document's text down to the members that its map functions can see, so that only these are parsed. Everything passed over is
// checked to be JSON on the way; whatever is out of the ordinary (escapes in a name, deep nesting, a fault) is left to the parser.

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;

const DEPTH_MAX = 64;
const PIECES_MAX = 256;

/** 1 for bytes that stand for themselves inside a string. */
const PLAIN = new Uint8Array(256).fill(1, 0x20);
PLAIN[QUOTE] = 0;
PLAIN[BACKSLASH] = 0;
/** 1 for what may follow a backslash, but for `u`. */
const ESCAPED = new Uint8Array(256);
for (const character of '"\\/bfnrt') ESCAPED[character.charCodeAt(0)] = 1;

export class Projector {
  /** Pieces found by the last `project`: members with their names, in the document's order. */
  count = 0;
  readonly from = new Uint32Array(PIECES_MAX);
  readonly to = new Uint32Array(PIECES_MAX);
  readonly #names: readonly Uint8Array[];

  constructor(names: ReadonlySet<string>) {
    this.#names = [...names].map((name) => Buffer.from(name));
  }

  /**
   * Finds the wanted members of the document in bytes [start, end). False when the text is not JSON, or not as simple as it must be:
   * then nothing was found out, and the whole text goes to the parser.
   */
  project(bytes: Uint8Array, start: number, end: number): boolean {
    this.count = 0;
    if (bytes[start] !== OPEN_BRACE) return false;
    let p = start + 1;
    while (bytes[p] === SPACE) p++;
    if (bytes[p] === CLOSE_BRACE) return p + 1 === end;
    for (;;) {
      if (bytes[p] !== QUOTE) return false;
      const quote = p++;
      while (PLAIN[bytes[p] as number] === 1) p++;
      if (bytes[p] !== QUOTE) return false;
      const nameEnd = p++;
      while (bytes[p] === SPACE) p++;
      if (bytes[p] !== COLON) return false;
      p++;
      while (bytes[p] === SPACE) p++;
      p = skipValue(bytes, p, 0);
      if (p < 0) return false;
      if (this.#isWanted(bytes, quote + 1, nameEnd)) {
        if (this.count === PIECES_MAX) return false;
        this.from[this.count] = quote;
        this.to[this.count++] = p;
      }
      while (bytes[p] === SPACE) p++;
      const next = bytes[p++];
      if (next === CLOSE_BRACE) return p === end;
      if (next !== COMMA) return false;
      while (bytes[p] === SPACE) p++;
    }
  }

  #isWanted(bytes: Uint8Array, start: number, end: number): boolean {
    const length = end - start;
    outer: for (const name of this.#names) {
      if (name.length !== length) continue;
      for (let i = 0; i < length; i++) if (name[i] !== bytes[start + i]) continue outer;
      return true;
    }
    return false;
  }
}

/** The index after the JSON value at `p`; -1 when there is none. Reads past the end of the document find no value there. */
function skipValue(bytes: Uint8Array, p: number, depth: number): number {
  const first = bytes[p] as number;
  if (first === QUOTE) return skipString(bytes, p + 1);
  if (first === OPEN_BRACE) return depth < DEPTH_MAX ? skipObject(bytes, p + 1, depth + 1) : -1;
  if (first === OPEN_BRACKET) return depth < DEPTH_MAX ? skipArray(bytes, p + 1, depth + 1) : -1;
  if (first === 0x74) return word(bytes, p, 0x72, 0x75, 0x65);
  if (first === 0x6e) return word(bytes, p, 0x75, 0x6c, 0x6c);
  if (first === 0x66) return bytes[p + 1] === 0x61 ? word(bytes, p + 1, 0x6c, 0x73, 0x65) : -1;
  return skipNumber(bytes, p);
}

function word(bytes: Uint8Array, p: number, a: number, b: number, c: number): number {
  return bytes[p + 1] === a && bytes[p + 2] === b && bytes[p + 3] === c ? p + 4 : -1;
}

function skipString(bytes: Uint8Array, start: number): number {
  let p = start;
  for (;;) {
    while (PLAIN[bytes[p] as number] === 1) p++;
    if (bytes[p] === QUOTE) return p + 1;
    if (bytes[p] !== BACKSLASH) return -1;
    const escaped = bytes[p + 1] as number;
    if (ESCAPED[escaped] === 1) p += 2;
    else if (escaped === 0x75 && isHex(bytes, p + 2)) p += 6;
    else return -1;
  }
}

function isHex(bytes: Uint8Array, start: number): boolean {
  for (let i = start; i < start + 4; i++) {
    const c = bytes[i] as number;
    if (!((c >= 0x30 && c <= 0x39) || (c >= 0x41 && c <= 0x46) || (c >= 0x61 && c <= 0x66)))
      return false;
  }
  return true;
}

function skipNumber(bytes: Uint8Array, start: number): number {
  let p = start;
  if (bytes[p] === MINUS) p++;
  if (bytes[p] === ZERO) p++;
  else {
    const digits = skipDigits(bytes, p);
    if (digits === p) return -1;
    p = digits;
  }
  if (bytes[p] === DOT) {
    const digits = skipDigits(bytes, p + 1);
    if (digits === p + 1) return -1;
    p = digits;
  }
  if (bytes[p] === 0x65 || bytes[p] === 0x45) {
    p++;
    if (bytes[p] === 0x2b || bytes[p] === MINUS) p++;
    const digits = skipDigits(bytes, p);
    if (digits === p) return -1;
    p = digits;
  }
  return p;
}

function skipDigits(bytes: Uint8Array, start: number): number {
  let p = start;
  while ((bytes[p] as number) >= 0x30 && (bytes[p] as number) <= 0x39) p++;
  return p;
}

function skipArray(bytes: Uint8Array, start: number, depth: number): number {
  let p = start;
  while (bytes[p] === SPACE) p++;
  if (bytes[p] === CLOSE_BRACKET) return p + 1;
  for (;;) {
    p = skipValue(bytes, p, depth);
    if (p < 0) return -1;
    while (bytes[p] === SPACE) p++;
    const next = bytes[p++];
    if (next === CLOSE_BRACKET) return p;
    if (next !== COMMA) return -1;
    while (bytes[p] === SPACE) p++;
  }
}

function skipObject(bytes: Uint8Array, start: number, depth: number): number {
  let p = start;
  while (bytes[p] === SPACE) p++;
  if (bytes[p] === CLOSE_BRACE) return p + 1;
  for (;;) {
    if (bytes[p] !== QUOTE) return -1;
    p = skipString(bytes, p + 1);
    if (p < 0) return -1;
    while (bytes[p] === SPACE) p++;
    if (bytes[p] !== COLON) return -1;
    p++;
    while (bytes[p] === SPACE) p++;
    p = skipValue(bytes, p, depth);
    if (p < 0) return -1;
    while (bytes[p] === SPACE) p++;
    const next = bytes[p++];
    if (next === CLOSE_BRACE) return p;
    if (next !== COMMA) return -1;
    while (bytes[p] === SPACE) p++;
  }
}
