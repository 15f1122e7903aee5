// Puts rows together as bytes and gives their text in one piece: a string for each part of each row would cost more than all else.

import { type Bytes } from "../../btree/index.js";

const { latin1Slice, utf8Slice, utf8Write } = Buffer.prototype as unknown as {
  latin1Slice: (this: Uint8Array, start: number, end: number) => string;
  utf8Slice: (this: Uint8Array, start: number, end: number) => string;
  utf8Write: (this: Uint8Array, text: string, start: number, length: number) => number;
};

const ascii = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "latin1"));
const BETWEEN = ascii(",\r\n");
const ID = ascii('{"id":"');
const KEY = ascii('","key":');
const VALUE = ascii(',"value":');
const CLOSE = 0x7d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Up to so many bytes a loop is cheaper than a call. */
const SHORT = 40;
/** A buffer that one huge row made is not kept. */
const KEPT_BYTES = 256 * 1024;

/** One page at a time. All writers of a thread share the buffer: a page is made without waiting. */
let out: Uint8Array = Buffer.allocUnsafeSlow(16 * 1024);
let used = 0;
/** All bytes written, or-ed: beyond 0x7f it is not ASCII. */
let bits = 0;
/** Where the last key's text is. */
let keyFrom = 0;
let keyTo = 0;
let lastKey: string | undefined;

export function beginPage(): void {
  used = 0;
  bits = 0;
  lastKey = undefined;
}

/** The page's rows, with what CouchDB puts between them. */
export function endPage(): string {
  const text = bits < 0x80 ? latin1Slice.call(out, 0, used) : utf8Slice.call(out, 0, used);
  if (out.length > KEPT_BYTES) out = Buffer.allocUnsafeSlow(16 * 1024);
  return text;
}

/** Writes a row: the id is `id` from `idStart` to `idEnd`, the value `value` from `start` to `end`; neighbours with the same key give the same string. */
export function writeRow(
  id: Bytes,
  idStart: number,
  idEnd: number,
  key: string,
  value: Bytes,
  start: number,
  end: number,
): void {
  room(64 + 6 * (idEnd - idStart) + 3 * key.length + (end - start));
  if (used > 0) copy(BETWEEN, 0, BETWEEN.length);
  copy(ID, 0, ID.length);
  writeId(id, idStart, idEnd);
  copy(KEY, 0, KEY.length);
  if (key === lastKey) copy(out, keyFrom, keyTo);
  else {
    keyFrom = used;
    writeText(key);
    keyTo = used;
    lastKey = key;
  }
  copy(VALUE, 0, VALUE.length);
  copy(value, start, end);
  out[used++] = CLOSE;
}

// Loops work on copies of the module's variables, whose every use is a load or a store.

function writeId(id: Bytes, start: number, end: number): void {
  const target = out;
  let at = used;
  let all = bits;
  for (let i = start; i < end; i++) {
    const byte = id[i] as number;
    if (byte < 0x20 || byte === QUOTE || byte === BACKSLASH) {
      writeText(JSON.stringify(utf8Slice.call(id, start, end)).slice(1, -1));
      return;
    }
    all |= byte;
    target[at++] = byte;
  }
  used = at;
  bits = all;
}

function writeText(text: string): void {
  if (text.length <= SHORT) {
    const target = out;
    let at = used;
    let i = 0;
    for (; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code >= 0x80) break;
      target[at++] = code;
    }
    if (i === text.length) {
      used = at;
      return;
    }
  }
  const written = utf8Write.call(out, text, used, out.length - used);
  // Keys of the usual size are ASCII; whether a long one is does not matter.
  bits |= 0x80;
  used += written;
}

function copy(from: Bytes, start: number, end: number): void {
  if (end - start <= SHORT) {
    const target = out;
    let at = used;
    let all = bits;
    for (let i = start; i < end; i++) {
      const byte = from[i] as number;
      all |= byte;
      target[at++] = byte;
    }
    used = at;
    bits = all;
    return;
  }
  out.set(from.subarray(start, end), used);
  used += end - start;
  bits |= 0x80;
}

function room(bytes: number): void {
  if (used + bytes <= out.length) return;
  const longer = Buffer.allocUnsafeSlow(2 * (used + bytes));
  longer.set(out.subarray(0, used));
  out = longer;
}
