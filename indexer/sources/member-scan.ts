// Walks the members of one JSON object in bytes without parsing values: finds where each name and value begins and ends.
// Lenient: it follows strings and brackets and nothing else, because the view server parses what it is given. Text that is
// not JSON is reported only where the walk itself cannot go on.

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;

// 1 ends a number or literal; 2 is a quote; 3 opens, 4 closes.
const CLASS = new Uint8Array(256);
for (const char of " \t\r\n,") CLASS[char.charCodeAt(0)] = 1;
CLASS[QUOTE] = 2;
CLASS[0x5b] = CLASS[0x7b] = 3;
CLASS[0x5d] = CLASS[0x7d] = 4;

/** Index of the first byte at or after `start` that is no JSON blank; `end` if there is none. */
export function skipBlanks(bytes: Uint8Array, start: number, end: number): number {
  let p = start;
  while (p < end) {
    const byte = bytes[p];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
    p++;
  }
  return p;
}

/** Index after the string whose opening quote is at `start`, or -1 when it does not end before `end`. */
export function skipString(bytes: Uint8Array, start: number, end: number): number {
  let p = start + 1;
  while (p < end) {
    const byte = bytes[p];
    if (byte === QUOTE) return p + 1;
    p += byte === BACKSLASH ? 2 : 1;
  }
  return -1;
}

/** Index after the value that begins at `start`, or -1 when there is none or it does not end before `end`. */
export function skipValue(bytes: Uint8Array, start: number, end: number): number {
  if (start >= end) return -1;
  const kind = CLASS[bytes[start] as number];
  if (kind === 2) return skipString(bytes, start, end);
  if (kind === 3) return skipNested(bytes, start, end);
  let p = start;
  while (p < end && (CLASS[bytes[p] as number] === 0 || bytes[p] === COLON)) {
    if (bytes[p] === COLON) return -1;
    p++;
  }
  return p === start ? -1 : p;
}

function skipNested(bytes: Uint8Array, start: number, end: number): number {
  let depth = 0;
  let p = start;
  while (p < end) {
    const kind = CLASS[bytes[p] as number] as number;
    if (kind < 2) p++;
    else if (kind === 2) {
      p++;
      while (p < end && bytes[p] !== QUOTE) p += bytes[p] === BACKSLASH ? 2 : 1;
      p++;
    } else {
      p++;
      if (kind === 3) depth++;
      else if (--depth === 0) return p;
    }
  }
  return -1;
}

/**
 * Cursor over the members of an object. `open`, then `next` until it returns false; then {@link failed} tells a malformed
 * object from the end. Indexes stay valid until the next call.
 */
export class MemberScanner {
  /** Name without its quotes, as written. */
  nameStart = 0;
  nameEnd = 0;
  /** The name is written with escapes. */
  nameEscaped = false;
  valueStart = 0;
  valueEnd = 0;
  /** The text is not an object, or not one that the walk can follow. */
  failed = false;
  /** After the last member: index after the closing brace. */
  objectEnd = 0;
  #bytes: Uint8Array = new Uint8Array(0);
  #end = 0;
  #at = 0;
  #first = true;

  /** Begins with the object at the first non-blank byte of [start, end). */
  open(bytes: Uint8Array, start: number, end: number): void {
    this.#bytes = bytes;
    this.#end = end;
    this.#first = true;
    const at = skipBlanks(bytes, start, end);
    this.failed = bytes[at] !== 0x7b || at >= end;
    this.#at = at + 1;
  }

  /** Goes to the next member. False at the end of the object, or when {@link failed}. */
  next(): boolean {
    if (this.failed) return false;
    const bytes = this.#bytes;
    const end = this.#end;
    let p = skipBlanks(bytes, this.#at, end);
    if (bytes[p] === 0x7d && p < end) {
      this.objectEnd = p + 1;
      return false;
    }
    if (!this.#first) {
      if (bytes[p] !== COMMA) return this.#fail();
      p = skipBlanks(bytes, p + 1, end);
    }
    this.#first = false;
    if (p >= end || bytes[p] !== QUOTE) return this.#fail();
    this.nameStart = p + 1;
    this.nameEscaped = false;
    for (p++; p < end && bytes[p] !== QUOTE; p++) {
      if (bytes[p] === BACKSLASH) {
        this.nameEscaped = true;
        p++;
      }
    }
    this.nameEnd = p;
    p = skipBlanks(bytes, p + 1, end);
    if (p >= end || bytes[p] !== COLON) return this.#fail();
    this.valueStart = skipBlanks(bytes, p + 1, end);
    this.valueEnd = skipValue(bytes, this.valueStart, end);
    if (this.valueEnd < 0) return this.#fail();
    this.#at = this.valueEnd;
    return true;
  }

  /** Is the current member's name `name` (whose UTF-8 is `ascii`, without characters that need escapes)? */
  named(ascii: Uint8Array): boolean {
    const bytes = this.#bytes;
    if (this.nameEscaped) return this.name() === Buffer.from(ascii).toString("utf8");
    const length = this.nameEnd - this.nameStart;
    if (length !== ascii.length) return false;
    for (let i = 0; i < length; i++) if (bytes[this.nameStart + i] !== ascii[i]) return false;
    return true;
  }

  /** The current member's name, unescaped; undefined when it is no JSON string. */
  name(): string | undefined {
    return decodeString(this.#bytes, this.nameStart - 1, this.nameEnd + 1);
  }

  #fail(): false {
    this.failed = true;
    return false;
  }
}

/** The JSON string in [start, end), quotes included, unescaped; undefined when it is none. */
export function decodeString(bytes: Uint8Array, start: number, end: number): string | undefined {
  try {
    const value: unknown = JSON.parse(textOf(bytes, start, end));
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Bytes [start, end) as text. */
export function textOf(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("utf8");
}

/** Raw text of a top-level member's value; of repeated members the last. Undefined when absent or the object is malformed. */
export function memberText(bytes: Uint8Array, name: string): string | undefined {
  const wanted = Buffer.from(name);
  const scanner = new MemberScanner();
  let found: string | undefined;
  scanner.open(bytes, 0, bytes.length);
  while (scanner.next()) {
    if (scanner.named(wanted)) found = textOf(bytes, scanner.valueStart, scanner.valueEnd);
  }
  return scanner.failed ? undefined : found;
}

/** What a document shows only to who asks for it. */
export const CONFLICT_MEMBERS: ReadonlySet<string> = new Set([
  "_conflicts",
  "_deleted_conflicts",
  "_local_seq",
]);

/** The object's text without the named top-level members; the text itself when it has none of them. */
export function withoutMembers(json: string, names: ReadonlySet<string>): string {
  let possible = json.includes("\\u00");
  for (const name of names) if (json.includes(name)) possible = true;
  if (!possible) return json;
  const bytes = Buffer.from(json);
  const scanner = new MemberScanner();
  const kept: string[] = [];
  let dropped = false;
  scanner.open(bytes, 0, bytes.length);
  while (scanner.next()) {
    if (names.has(scanner.name() ?? "")) dropped = true;
    else kept.push(textOf(bytes, scanner.nameStart - 1, scanner.valueEnd));
  }
  return dropped && !scanner.failed ? `{${kept.join(",")}}` : json;
}
