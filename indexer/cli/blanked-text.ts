// A text of which most is taken away, while the rest stays at its line and column: source maps of the whole still hold.

import type { Statement } from "./module-scope.js";

/** Text of which all is blank but what is kept, at its own line and column. */
export class BlankedText {
  readonly #code: string;
  readonly #units: string[];

  constructor(code: string) {
    this.#code = code;
    this.#units = Array.from(code.replace(/[^\n]/g, " "));
  }

  keep(start: number, end: number): void {
    for (let i = start; i < end; i++) this.#units[i] = this.#code.charAt(i);
  }

  /** Puts a shorter name in the place of another, where that is kept. */
  rename(at: number, from: string, to: string): void {
    if (!this.#isBlank(at, at + from.length)) this.#put(at, to.padEnd(from.length));
  }

  /**
   * Makes a part of a statement that is otherwise blank an assignment: `prefix` is put somewhere before it.
   * @param shared - the statement is kept as a whole.
   * @returns false, with nothing done, when there is no room.
   */
  assign(
    statement: Statement,
    start: number,
    end: number,
    prefix: string,
    shared: boolean,
  ): boolean {
    let at = start - prefix.length;
    while (at >= statement.start && !this.#isBlank(at, at + prefix.length)) at--;
    let semicolon = end;
    while (semicolon < statement.end && this.#units[semicolon] !== " ") semicolon++;
    if (shared || at < statement.start || semicolon >= statement.end) return false;
    this.#put(at, prefix);
    this.#put(semicolon, ";");
    return true;
  }

  /** The text of a part; it is blank afterwards, unless it is shared. */
  take(start: number, end: number, shared: boolean): string {
    const text = this.#units.slice(start, end).join("");
    if (!shared) this.#put(start, text.replace(/[^\n]/g, " "));
    return text;
  }

  toString(): string {
    return this.#units.join("");
  }

  #put(at: number, text: string): void {
    for (let i = 0; i < text.length; i++) this.#units[at + i] = text.charAt(i);
  }

  #isBlank(start: number, end: number): boolean {
    return this.#units.slice(start, end).every((unit) => unit === " ");
  }
}
