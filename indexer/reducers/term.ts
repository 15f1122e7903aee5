// JSON values as the built-in reduces need them: member order as written, integers exact beyond 2^53.
// An Erlang host tells 1 from 1.0; JavaScript never prints the latter, so a whole number is an integer here.

/** A JSON value. Integers outside ±(2^53 - 1) are bigints; other numbers beyond that are floats. */
export type Term = null | boolean | number | bigint | string | readonly Term[] | TermObject;

/** An object with its members in the order of the text. */
export class TermObject {
  constructor(
    readonly names: readonly string[],
    readonly values: readonly Term[],
  ) {}

  get(name: string): Term | undefined {
    const at = this.names.indexOf(name);
    return at < 0 ? undefined : this.values[at];
  }
}

/** Deeper values are refused before they can exhaust the stack. */
const DEPTH_MAX = 2000;

/** A value is nested too deeply to be looked into. */
export class DepthError extends Error {
  constructor() {
    super(`a value is nested more than ${DEPTH_MAX} levels deep`);
  }
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** UTF-8 bytes to text. */
export function textOf(bytes: Uint8Array, start = 0, end = bytes.length): string {
  return decoder.decode(bytes.subarray(start, end));
}

/** Whether a term is a number of either kind. */
export function isNumeric(term: Term): term is number | bigint {
  return typeof term === "number" || typeof term === "bigint";
}

/** Whether a term is a list. */
export function isList(term: Term): term is readonly Term[] {
  return Array.isArray(term);
}

/** An exact integer as the kind of number that holds it. */
export function normalInteger(value: bigint): number | bigint {
  const small = Number(value);
  return Number.isSafeInteger(small) ? small : value;
}

/** Parses well-formed JSON text. Throws `DepthError`. */
export function parseTerm(text: string): Term {
  // Without objects and long digit runs the engine's own parser gives the same; what is short cannot be deep.
  if (text.length <= 2 * DEPTH_MAX && !/\{|\d{16}/.test(text)) return JSON.parse(text) as Term;
  return new Parser(text).value(0);
}

const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

class Parser {
  #at = 0;

  constructor(readonly text: string) {}

  value(depth: number): Term {
    if (depth > DEPTH_MAX) throw new DepthError();
    this.#blanks();
    switch (this.text.charCodeAt(this.#at)) {
      case 0x22:
        return this.#string();
      case 0x5b:
        return this.#list(depth);
      case 0x7b:
        return this.#object(depth);
      case 0x74:
        return this.#word("true", true);
      case 0x66:
        return this.#word("false", false);
      case 0x6e:
        return this.#word("null", null);
      default:
        return this.#number();
    }
  }

  #blanks(): void {
    for (;;) {
      const c = this.text.charCodeAt(this.#at);
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return;
      this.#at++;
    }
  }

  #word(word: string, value: boolean | null): Term {
    if (!this.text.startsWith(word, this.#at)) this.#fail();
    this.#at += word.length;
    return value;
  }

  #string(): string {
    const start = this.#at++;
    let escaped = false;
    for (;;) {
      const c = this.text.charCodeAt(this.#at);
      if (Number.isNaN(c)) this.#fail();
      if (c === 0x5c) escaped = true;
      this.#at += c === 0x5c ? 2 : 1;
      if (c !== 0x22) continue;
      if (!escaped) return this.text.slice(start + 1, this.#at - 1);
      return JSON.parse(this.text.slice(start, this.#at)) as string;
    }
  }

  #number(): number | bigint {
    NUMBER.lastIndex = this.#at;
    if (!NUMBER.test(this.text)) this.#fail();
    const text = this.text.slice(this.#at, NUMBER.lastIndex);
    this.#at = NUMBER.lastIndex;
    const value = Number(text);
    if (Number.isSafeInteger(value) || /[.eE]/.test(text)) return value;
    return normalInteger(BigInt(text));
  }

  #list(depth: number): Term[] {
    const items: Term[] = [];
    if (this.#opens(0x5d)) return items;
    do items.push(this.value(depth + 1));
    while (this.#goesOn(0x5d));
    return items;
  }

  #object(depth: number): TermObject {
    const names: string[] = [];
    const values: Term[] = [];
    if (this.#opens(0x7d)) return new TermObject(names, values);
    do {
      this.#blanks();
      names.push(this.#string());
      this.#blanks();
      if (this.text.charCodeAt(this.#at++) !== 0x3a) this.#fail();
      values.push(this.value(depth + 1));
    } while (this.#goesOn(0x7d));
    return new TermObject(names, values);
  }

  /** Steps over an opening bracket; true when the closing one follows. */
  #opens(close: number): boolean {
    this.#at++;
    this.#blanks();
    if (this.text.charCodeAt(this.#at) !== close) return false;
    this.#at++;
    return true;
  }

  #goesOn(close: number): boolean {
    this.#blanks();
    const c = this.text.charCodeAt(this.#at++);
    if (c !== 0x2c && c !== close) this.#fail();
    return c === 0x2c;
  }

  #fail(): never {
    throw new SyntaxError(`malformed JSON at character ${this.#at}: ${this.text.slice(0, 80)}`);
  }
}

/** Compact JSON text of a term. */
export function printTerm(term: Term): string {
  if (typeof term === "bigint") return term.toString();
  if (isList(term)) return `[${term.map(printTerm).join(",")}]`;
  if (term instanceof TermObject) {
    const members = term.names.map(
      (name, i) => `${JSON.stringify(name)}:${printTerm(term.values[i] as Term)}`,
    );
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(term);
}
