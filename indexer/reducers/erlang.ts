// What CouchDB's built-in reduces owe to Erlang: sizes and bytes of the external term format (minor version 1,
// atoms as OTP 25 writes them), and terms printed as `~w` and `~p` print them in error texts.

import { isList, parseTerm, type Term, TermObject } from "./term.js";

const STRING_EXT_MAX = 0xffff;

/** Bytes of the external format of a JSON value, version byte excluded. */
export function termSize(term: Term): number {
  if (term === null || typeof term === "boolean") return 3 + String(term).length;
  if (typeof term === "number") return numberSize(term);
  if (typeof term === "bigint") return bigSize(term);
  if (typeof term === "string") return 5 + Buffer.byteLength(term);
  if (isList(term)) {
    if (term.length === 0) return 1;
    if (isByteList(term)) return 3 + term.length;
    let size = 6;
    for (const item of term) size += termSize(item);
    return size;
  }
  let size = term.names.length === 0 ? 3 : 8;
  for (let i = 0; i < term.names.length; i++) {
    size += 7 + Buffer.byteLength(term.names[i] as string) + termSize(term.values[i] as Term);
  }
  return size;
}

function numberSize(value: number): number {
  if (!Number.isSafeInteger(value)) return 9;
  if (value >= 0 && value <= 255) return 2;
  if (value >= -0x80000000 && value <= 0x7fffffff) return 5;
  return bigSize(BigInt(value));
}

function bigSize(value: bigint): number {
  const length = bigBytes(value).length;
  return length <= 255 ? 3 + length : 6 + length;
}

/** Magnitude, least significant byte first. */
function bigBytes(value: bigint): number[] {
  const bytes: number[] = [];
  for (let rest = value < 0n ? -value : value; rest > 0n; rest >>= 8n)
    bytes.push(Number(rest & 0xffn));
  return bytes;
}

function isByteList(list: readonly Term[]): boolean {
  return (
    list.length <= STRING_EXT_MAX &&
    list.every((x) => typeof x === "number" && Number.isInteger(x) && x >= 0 && x <= 255)
  );
}

function isDigitOrSign(unit: number): boolean {
  return unit === 0x2d || (unit >= 0x30 && unit <= 0x39);
}

/** Writes JSON values in the external term format; one writer serves many values. */
export class TermWriter {
  bytes = Buffer.alloc(256);
  length = 0;

  /** The complete external term, version byte included, of JSON text is then in `bytes` up to `length`. */
  encode(text: string): void {
    this.length = 0;
    this.#byte(131);
    if (text.startsWith('"') && !text.includes("\\")) this.#string(text.slice(1, -1));
    else if (text.length <= 15 && isDigitOrSign(text.charCodeAt(0))) this.#number(Number(text));
    else this.#term(parseTerm(text));
  }

  #ensure(n: number): void {
    if (this.length + n <= this.bytes.length) return;
    const larger = Buffer.alloc(Math.max(this.bytes.length * 2, this.length + n));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
  }

  #byte(value: number): void {
    this.#ensure(1);
    this.bytes[this.length++] = value;
  }

  #head(tag: number, size: number): void {
    this.#ensure(5);
    this.bytes[this.length] = tag;
    this.bytes.writeUInt32BE(size, this.length + 1);
    this.length += 5;
  }

  #term(term: Term): void {
    if (typeof term === "number") this.#number(term);
    else if (typeof term === "string") this.#string(term);
    else if (typeof term === "bigint") this.#big(term);
    else if (term === null || typeof term === "boolean") this.#atom(String(term));
    else if (isList(term)) this.#list(term);
    else this.#object(term);
  }

  #string(text: string): void {
    const size = Buffer.byteLength(text);
    this.#head(109, size);
    this.#ensure(size);
    this.bytes.write(text, this.length, "utf8");
    this.length += size;
  }

  #atom(name: string): void {
    this.#ensure(3 + name.length);
    this.bytes[this.length] = 100;
    this.bytes.writeUInt16BE(name.length, this.length + 1);
    this.bytes.write(name, this.length + 3, "latin1");
    this.length += 3 + name.length;
  }

  #number(value: number): void {
    if (!Number.isSafeInteger(value)) {
      this.#ensure(9);
      this.bytes[this.length] = 70;
      this.bytes.writeDoubleBE(value, this.length + 1);
      this.length += 9;
    } else if (value >= 0 && value <= 255) {
      this.#ensure(2);
      this.bytes[this.length++] = 97;
      this.bytes[this.length++] = value;
    } else if (value >= -0x80000000 && value <= 0x7fffffff) {
      this.#ensure(5);
      this.bytes[this.length] = 98;
      this.bytes.writeInt32BE(value, this.length + 1);
      this.length += 5;
    } else this.#big(BigInt(value));
  }

  #big(value: bigint): void {
    const magnitude = bigBytes(value);
    this.#ensure(6 + magnitude.length);
    if (magnitude.length <= 255) {
      this.bytes[this.length++] = 110;
      this.bytes[this.length++] = magnitude.length;
    } else this.#head(111, magnitude.length);
    this.bytes[this.length++] = value < 0n ? 1 : 0;
    for (const byte of magnitude) this.bytes[this.length++] = byte;
  }

  #list(list: readonly Term[]): void {
    if (list.length === 0) {
      this.#byte(106);
    } else if (isByteList(list)) {
      this.#ensure(3 + list.length);
      this.bytes[this.length] = 107;
      this.bytes.writeUInt16BE(list.length, this.length + 1);
      this.length += 3;
      for (const byte of list) this.bytes[this.length++] = byte as number;
    } else {
      this.#head(108, list.length);
      for (const item of list) this.#term(item);
      this.#byte(106);
    }
  }

  #object(object: TermObject): void {
    this.#byte(104);
    this.#byte(1);
    if (object.names.length === 0) {
      this.#byte(106);
      return;
    }
    this.#head(108, object.names.length);
    for (let i = 0; i < object.names.length; i++) {
      this.#byte(104);
      this.#byte(2);
      this.#string(object.names[i] as string);
      this.#term(object.values[i] as Term);
    }
    this.#byte(106);
  }
}

/** A term as `~w` prints it, or as `~p` does with `pretty` (strings shown as text where printable; never wrapped). */
export function printErlang(term: Term, pretty: boolean): string {
  if (typeof term === "number") return printNumber(term);
  if (typeof term === "string") return printBinary(term, pretty);
  if (isList(term)) {
    if (pretty && term.length > 0 && term.every(isPrintable)) {
      return JSON.stringify(String.fromCharCode(...(term as number[])));
    }
    return `[${term.map((item) => printErlang(item, pretty)).join(",")}]`;
  }
  if (term instanceof TermObject) return `{${printProps(term, pretty)}}`;
  return String(term);
}

/** The member list of an object, e.g. `[{<<"sum">>,3}]`. */
export function printProps(object: TermObject, pretty: boolean): string {
  const members = object.names.map(
    (name, i) => `{${printBinary(name, pretty)},${printErlang(object.values[i] as Term, pretty)}}`,
  );
  return `[${members.join(",")}]`;
}

function printNumber(value: number): string {
  const text = String(value);
  if (Number.isSafeInteger(value) || text.includes(".")) return text.replace("e+", "e");
  return text.replace(/e\+?/, ".0e");
}

function printBinary(text: string, pretty: boolean): string {
  const bytes = [...Buffer.from(text)];
  if (!pretty || text === "" || !bytes.every(isPrintable)) return `<<${bytes.join(",")}>>`;
  return `<<${JSON.stringify(text)}>>`;
}

/** Latin-1 characters that Erlang prints as text. */
function isPrintable(item: Term): boolean {
  if (typeof item !== "number" || !Number.isInteger(item)) return false;
  return (item >= 32 && item <= 126) || (item >= 160 && item <= 255) || (item >= 8 && item <= 13);
}
