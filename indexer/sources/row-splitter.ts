// Cuts a stream of JSON into rows, whatever its line breaks: the objects of the one array inside an envelope object
// (`{"results":[…],"last_seq":…}`, `{"rows":[…]}`), or objects one after another (a continuous feed). Rows come out as
// lines; what is around them is kept apart as a small JSON text.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LF = 0x0a;
const SPACE = 0x20;

const OUT_BYTES_FIRST = 64 * 1024;
const ENVELOPE_BYTES_MAX = 64 * 1024;

/** Finished rows: complete lines. */
export interface RowLines {
  /** A buffer of its own, ready to be transferred. */
  readonly data: Uint8Array<ArrayBuffer>;
  readonly count: number;
  /** The last row, without its LF. */
  readonly lastRow: Uint8Array;
}

export class RowSplitter {
  /** Depth of nesting at which rows begin: 2 inside an envelope, 0 without. */
  readonly #rowDepth: number;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #out: Uint8Array = new Uint8Array(OUT_BYTES_FIRST);
  #used = 0;
  /** End of the last finished row in `out`. */
  #finished = 0;
  #lastRowStart = 0;
  #rows = 0;
  #envelope = "";

  constructor(kind: "envelope" | "rows") {
    this.#rowDepth = kind === "envelope" ? 2 : 0;
  }

  /** Bytes of finished rows not yet taken. */
  get bytes(): number {
    return this.#finished;
  }

  /** Bytes of the row that has begun. */
  get pendingBytes(): number {
    return this.#used - this.#finished;
  }

  /** The text around the rows, complete once the stream has ended: JSON with an empty array in the rows' place. */
  get envelope(): string {
    return this.#envelope;
  }

  /** Line ends inside rows (blanks between members) become spaces, in place: the piece is the splitter's from now on. */
  push(piece: Uint8Array): void {
    const rowDepth = this.#rowDepth;
    let depth = this.#depth;
    let inString = this.#inString;
    let escaped = this.#escaped;
    let rowStart = depth > rowDepth ? 0 : -1;
    let aroundStart = depth < rowDepth ? 0 : -1;
    for (let i = 0; i < piece.length; i++) {
      const byte = piece[i] as number;
      if (inString) {
        if (escaped) escaped = false;
        else if (byte === BACKSLASH) escaped = true;
        else if (byte === QUOTE) inString = false;
      } else if (byte === QUOTE) inString = true;
      else if (byte === 0x7b || byte === 0x5b) {
        if (depth === rowDepth) rowStart = i;
        if (++depth === rowDepth) {
          this.#around(piece, aroundStart, i + 1);
          aroundStart = -1;
        }
      } else if (byte === 0x7d || byte === 0x5d) {
        depth--;
        if (depth === rowDepth) {
          this.#append(piece, rowStart, i + 1);
          this.#finishRow();
          rowStart = -1;
        } else if (depth === rowDepth - 1) aroundStart = i;
      } else if (byte === LF && rowStart >= 0) piece[i] = SPACE;
    }
    if (rowStart >= 0) this.#append(piece, rowStart, piece.length);
    if (aroundStart >= 0) this.#around(piece, aroundStart, piece.length);
    this.#depth = depth;
    this.#inString = inString;
    this.#escaped = escaped;
  }

  /** The finished rows so far; undefined when there are none. */
  take(): RowLines | undefined {
    if (this.#rows === 0) return undefined;
    const data = new Uint8Array(this.#finished);
    data.set(this.#out.subarray(0, this.#finished));
    const lastRow = data.subarray(this.#lastRowStart, this.#finished - 1);
    const lines = { data, count: this.#rows, lastRow };
    this.#out.copyWithin(0, this.#finished, this.#used);
    this.#used -= this.#finished;
    this.#finished = 0;
    this.#rows = 0;
    this.#lastRowStart = 0;
    return lines;
  }

  #append(piece: Uint8Array, start: number, end: number): void {
    const needed = this.#used + end - start + 1;
    if (needed > this.#out.length) {
      const larger = new Uint8Array(Math.max(needed, this.#out.length * 2));
      larger.set(this.#out.subarray(0, this.#used));
      this.#out = larger;
    }
    this.#out.set(piece.subarray(start, end), this.#used);
    this.#used += end - start;
  }

  #finishRow(): void {
    this.#out[this.#used++] = LF;
    this.#lastRowStart = this.#finished;
    this.#finished = this.#used;
    this.#rows++;
  }

  #around(piece: Uint8Array, start: number, end: number): void {
    if (start < 0 || this.#envelope.length > ENVELOPE_BYTES_MAX) return;
    this.#envelope += Buffer.from(piece.buffer, piece.byteOffset + start, end - start).toString(
      "latin1",
    );
  }
}
