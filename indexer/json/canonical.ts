// Rewrites JSON text into the canonical form that scan.ts recognises. Rare: what V8 prints is canonical already, except for
// lone surrogates; foreign view servers and query keys may need it.
import { malformed } from "./syntax.js";

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
/** Up to the next quote, backslash or control character. */
const PLAIN_RUN = /[^"\\\u0000-\u001f]*/y;
const BLANKS = /[ \t\n\r]*/y;
const LONE_SURROGATE = /\p{Surrogate}/gu;

interface ObjectFrame {
  /** Name → where its member stands in the output: index of its separator, index after its value. Order: last occurrence. */
  readonly members: Map<string, { readonly separator: number; end: number }>;
  current: string;
  repeated: boolean;
}

/**
 * The canonical text of a JSON text: compact, shortest escapes, unpaired surrogates as U+FFFD, member order as written. Of
 * members with equal names the last remains, where it stands (as CouchDB's parser does). Numbers stay as they are written.
 * Blanks around the value are dropped. Throws JSON_MALFORMED.
 */
export function canonicalJson(text: string): string {
  return new Rewriter(text).run();
}

class Rewriter {
  readonly #text: string;
  #pos = 0;
  readonly #out: string[] = [];
  /** undefined stands for an array. */
  readonly #stack: (ObjectFrame | undefined)[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  run(): string {
    const out = this.#out;
    const stack = this.#stack;
    this.#blanks();
    for (;;) {
      const c = this.#text[this.#pos];
      if (c === "[" || c === "{") {
        out.push(c);
        this.#pos++;
        this.#blanks();
        const frame: ObjectFrame | undefined =
          c === "{" ? { members: new Map(), current: "", repeated: false } : undefined;
        stack.push(frame);
        if (this.#text[this.#pos] !== (frame ? "}" : "]")) {
          if (frame) this.#name(frame, "");
          continue;
        }
      } else {
        out.push(this.#scalar(c));
      }
      if (this.#afterValue()) return out.join("");
    }
  }

  /** Closes what closes here; true when the whole text is done, false when another value follows. */
  #afterValue(): boolean {
    const out = this.#out;
    const stack = this.#stack;
    for (;;) {
      this.#blanks();
      const next = this.#text[this.#pos];
      if (stack.length === 0) {
        if (next !== undefined) throw malformed("something follows the value", this.#pos);
        return true;
      }
      const frame = stack.at(-1);
      if (frame) endMember(frame, out.length);
      this.#pos++;
      if (next === ",") {
        this.#blanks();
        if (frame) this.#name(frame, ",");
        else out.push(",");
        return false;
      }
      if (next !== (frame ? "}" : "]")) {
        const what =
          next === undefined
            ? "it ends inside an array or object"
            : "a comma or a closing bracket is missing";
        throw malformed(what, this.#pos - 1);
      }
      if (frame?.repeated) this.#dropFirstSeparator(frame);
      out.push(next);
      stack.pop();
    }
  }

  #name(frame: ObjectFrame, separator: string): void {
    const out = this.#out;
    if (this.#text[this.#pos] !== '"') throw malformed("a member name is missing", this.#pos);
    const printed = this.#string();
    const name = JSON.parse(printed) as string;
    const earlier = frame.members.get(name);
    if (earlier) {
      frame.repeated = true;
      out.fill("", earlier.separator, earlier.end);
      frame.members.delete(name);
    }
    frame.members.set(name, { separator: out.length, end: 0 });
    frame.current = name;
    this.#blanks();
    if (this.#text[this.#pos] !== ":") throw malformed("a colon is missing", this.#pos);
    this.#pos++;
    out.push(separator, printed, ":");
    this.#blanks();
  }

  /** After a repeated member was dropped, the first that remains may still carry a comma. */
  #dropFirstSeparator(frame: ObjectFrame): void {
    for (const member of frame.members.values()) {
      this.#out[member.separator] = "";
      return;
    }
  }

  #scalar(c: string | undefined): string {
    if (c === '"') return this.#string();
    for (const word of ["null", "true", "false"]) {
      if (this.#text.startsWith(word, this.#pos)) {
        this.#pos += word.length;
        return word;
      }
    }
    const number = this.#match(NUMBER);
    if (number !== undefined) return number;
    throw malformed(c === undefined ? "a value is missing" : "this begins no value", this.#pos);
  }

  #string(): string {
    const text = this.#text;
    const start = this.#pos;
    let escaped = false;
    let end = start + 1;
    for (;;) {
      PLAIN_RUN.lastIndex = end;
      PLAIN_RUN.test(text);
      end = PLAIN_RUN.lastIndex;
      if (text[end] !== "\\") break;
      escaped = true;
      end += 2;
    }
    if (text[end] !== '"') {
      throw malformed(
        end < text.length
          ? "an unescaped control character in a string"
          : "it ends inside a string",
        end,
      );
    }
    this.#pos = end + 1;
    const token = text.slice(start, end + 1);
    if (!escaped) return token.replace(LONE_SURROGATE, "\ufffd");
    let value: string;
    try {
      value = JSON.parse(token) as string;
    } catch {
      throw malformed("a broken escape in a string", start);
    }
    return JSON.stringify(value.replace(LONE_SURROGATE, "\ufffd"));
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#pos;
    const found = pattern.exec(this.#text);
    if (!found) return undefined;
    this.#pos = pattern.lastIndex;
    return found[0];
  }

  #blanks(): void {
    BLANKS.lastIndex = this.#pos;
    BLANKS.test(this.#text);
    this.#pos = BLANKS.lastIndex;
  }
}

function endMember(frame: ObjectFrame, end: number): void {
  const member = frame.members.get(frame.current);
  if (member) member.end = end;
}
