// Merges sorted cursors: a tournament whose inner nodes keep the loser of their match, so that after the winner moved on only its own
// path to the root is played again: one match per level.
//
// Matches compare offset-value codes (segment-cursor.ts), all relative to the last winner:
// - different codes: the smaller wins, and the loser's code is right relative to the winner as well;
// - equal codes: bytes are compared from where the codes stop, and the loser gets its code relative to the winner;
// - equal keys: higher ordinal first, then the one that cancels, then the higher rank.

import { codeOf, EXHAUSTED, OFFSET_CAP, type MergeCursor } from "./segment-cursor.js";

/** The order of all entries of some cursors. */
export class LoserTree {
  readonly #cursors: readonly MergeCursor[];
  /** Code of each cursor's key relative to the key that beat it. */
  readonly #codes: Int32Array;
  /** Place 0: the winner. Place n > 0: who lost the match of node n; node n's parent is n / 2, leaf i is node count + i. */
  readonly #losers: Int32Array;
  /** The cursor at the least entry. */
  winner: MergeCursor;
  /** Code of the winner's key relative to the winner before: 0 when it is the same key; EXHAUSTED when nothing is left. */
  code: number;

  /** The cursors (at least one) stand on their first entries; `codes` are relative to the empty key. */
  constructor(cursors: readonly MergeCursor[], codes: Int32Array) {
    const count = cursors.length;
    this.#cursors = cursors;
    this.#codes = codes;
    this.#losers = new Int32Array(count);
    const winners = new Int32Array(count * 2);
    for (let i = 0; i < count; i++) winners[count + i] = i;
    for (let node = count - 1; node > 0; node--) {
      const a = winners[node * 2] as number;
      const b = winners[node * 2 + 1] as number;
      const won = this.#beats(a, b) ? a : b;
      winners[node] = won;
      this.#losers[node] = won === a ? b : a;
    }
    const first = count === 1 ? 0 : (winners[1] as number);
    this.#losers[0] = first;
    this.winner = cursors[first] as MergeCursor;
    this.code = codes[first] as number;
  }

  /** Moves the winner's cursor on and finds the next winner. */
  advance(): void {
    const codes = this.#codes;
    const losers = this.#losers;
    let current = losers[0] as number;
    let code = this.winner.next();
    codes[current] = code;
    for (let node = (current + losers.length) >>> 1; node > 0; node >>>= 1) {
      const other = losers[node] as number;
      const otherCode = codes[other] as number;
      if (otherCode < code || (otherCode === code && this.#beats(other, current))) {
        losers[node] = current;
        current = other;
        code = otherCode;
      }
    }
    losers[0] = current;
    this.winner = this.#cursors[current] as MergeCursor;
    this.code = code;
  }

  /** Plays a against b and corrects the loser's code. */
  #beats(a: number, b: number): boolean {
    const codes = this.#codes;
    const code = codes[a] as number;
    const difference = code - (codes[b] as number);
    if (difference !== 0) return difference < 0;
    if (code === EXHAUSTED) return true;
    const left = this.#cursors[a] as MergeCursor;
    const right = this.#cursors[b] as MergeCursor;
    if (code !== 0) {
      const x = left.key;
      const y = right.key;
      const xEnd = left.keyLength;
      const yEnd = right.keyLength;
      const end = xEnd < yEnd ? xEnd : yEnd;
      let at = code === 1 ? OFFSET_CAP : OFFSET_CAP - (code >> 8) + 1;
      while (at < end && x[at] === y[at]) at++;
      if (at < xEnd || at < yEnd) {
        const wins = at === xEnd || (at < yEnd && (x[at] as number) < (y[at] as number));
        if (wins) codes[b] = codeOf(at, y[at] as number);
        else codes[a] = codeOf(at, x[at] as number);
        return wins;
      }
    }
    const wins = precedes(left, right);
    codes[wins ? b : a] = 0;
    return wins;
  }
}

/** Order of entries with equal keys. */
function precedes(a: MergeCursor, b: MergeCursor): boolean {
  if (a.ordinal !== b.ordinal) return a.ordinal > b.ordinal;
  if (a.cancels !== b.cancels) return a.cancels;
  return a.rank > b.rank;
}
