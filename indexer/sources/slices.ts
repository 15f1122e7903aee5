// What slicing a chunk finds: for each document where its text and its id lie, a hash of its content, and two flags.
// Columns of typed arrays, reused from chunk to chunk, so that a million documents cost no objects.

/** The document is deleted: a tombstone, or a row that says so. */
export const SLICE_DELETED = 1;
/** Its id begins with `_design/`. */
export const SLICE_DESIGN = 2;

/** Result of `sliceDocuments` and `sliceChanges`. Indexes are valid until the next slicing into the same object. */
export class Slices {
  /** Documents found, in feed order. `_local/` documents are left out. */
  count = 0;
  /** The buffer that document ranges lie in: the chunk itself, unless documents had to be given their `_id`. */
  docs: Uint8Array = new Uint8Array(0);
  docStart = new Uint32Array(0);
  /** Equals the start when there is no document text (a deletion without `doc`). */
  docEnd = new Uint32Array(0);
  /** The buffer that id ranges lie in: the chunk itself, unless ids were written with escapes. */
  ids: Uint8Array = new Uint8Array(0);
  /** Ranges of decoded ids, UTF-8 without quotes. */
  idStart = new Uint32Array(0);
  idEnd = new Uint32Array(0);
  /** 64-bit hash of the document's text, low and high half. Equal hashes: the same state of the document. */
  hashLow = new Uint32Array(0);
  hashHigh = new Uint32Array(0);
  /** SLICE_DELETED, SLICE_DESIGN. */
  flags = new Uint8Array(0);
  /** Where each document's line begins in the chunk, for error messages. */
  lineStart = new Uint32Array(0);
  /** JSON text of the last row's `seq`; undefined where rows have none. Changes only. */
  lastSeq: string | undefined = undefined;

  #idArena: Uint8Array | undefined;
  #idArenaUsed = 0;
  #docArena: Uint8Array | undefined;
  #docArenaUsed = 0;

  /** Starts over with a chunk. */
  begin(data: Uint8Array): void {
    this.count = 0;
    this.docs = data;
    this.ids = data;
    this.lastSeq = undefined;
    this.#idArenaUsed = 0;
    this.#docArenaUsed = 0;
  }

  /** The i-th id as a string. */
  id(i: number): string {
    return text(this.ids, this.idStart[i] as number, this.idEnd[i] as number);
  }

  /** The i-th document's text. */
  doc(i: number): string {
    return text(this.docs, this.docStart[i] as number, this.docEnd[i] as number);
  }

  /** The i-th content hash as 16 hex digits. */
  hash(i: number): string {
    const high = (this.hashHigh[i] as number).toString(16).padStart(8, "0");
    return high + (this.hashLow[i] as number).toString(16).padStart(8, "0");
  }

  /** Doubles the columns. Callers that cached a column must fetch it again. */
  grow(): void {
    const length = Math.max(1024, this.flags.length * 2);
    this.docStart = grown(this.docStart, length);
    this.docEnd = grown(this.docEnd, length);
    this.idStart = grown(this.idStart, length);
    this.idEnd = grown(this.idEnd, length);
    this.hashLow = grown(this.hashLow, length);
    this.hashHigh = grown(this.hashHigh, length);
    this.lineStart = grown(this.lineStart, length);
    const flags = new Uint8Array(length);
    flags.set(this.flags);
    this.flags = flags;
  }

  /**
   * Adds `n` documents from columns of `stride` words: id start and end, hash low and high, line start, and, from column `doc` on, which may be
   * that of the line, where their text begins and ends.
   */
  addPlain(words: Uint32Array, from: number, stride: number, n: number, doc: 4 | 5): void {
    const at = this.count;
    while (at + n > this.flags.length) this.grow();
    const column = (i: number): Uint32Array =>
      words.subarray(from + i * stride, from + i * stride + n);
    this.idStart.set(column(0), at);
    this.idEnd.set(column(1), at);
    this.hashLow.set(column(2), at);
    this.hashHigh.set(column(3), at);
    this.lineStart.set(column(4), at);
    this.docStart.set(column(doc), at);
    this.docEnd.set(column(doc + 1), at);
    this.flags.fill(0, at, at + n);
    this.count = at + n;
  }

  /**
   * Puts the id of document `count` into a buffer of its own. With the first such id of a chunk the ids before it are
   * copied too: one buffer holds all, so that readers need not care.
   */
  putId(id: Uint8Array): void {
    if (this.#idArenaUsed === 0 && this.ids !== this.#idArena) {
      const before = this.ids;
      this.#idArena ??= new Uint8Array(4096);
      for (let i = 0; i < this.count; i++) {
        this.#appendId(i, before.subarray(this.idStart[i], this.idEnd[i]));
      }
    }
    this.#appendId(this.count, id);
    this.ids = this.#idArena ?? this.ids;
  }

  /** True once an id was put: then every id must be. */
  get idsCopied(): boolean {
    return this.ids === this.#idArena;
  }

  #appendId(i: number, id: Uint8Array): void {
    this.#idArena = roomFor(this.#idArena, this.#idArenaUsed, id.length);
    this.#idArena.set(id, this.#idArenaUsed);
    this.idStart[i] = this.#idArenaUsed;
    this.#idArenaUsed += id.length;
    this.idEnd[i] = this.#idArenaUsed;
  }

  /** Puts a rewritten text of document `count`, made of two pieces. Must then be done for every document of the chunk. */
  putDoc(head: Uint8Array, tail: Uint8Array): void {
    let arena = roomFor(this.#docArena, this.#docArenaUsed, head.length + tail.length);
    this.#docArena = arena;
    arena.set(head, this.#docArenaUsed);
    arena.set(tail, this.#docArenaUsed + head.length);
    this.docStart[this.count] = this.#docArenaUsed;
    this.#docArenaUsed += head.length + tail.length;
    this.docEnd[this.count] = this.#docArenaUsed;
    arena = this.#docArena;
    this.docs = arena;
  }
}

function text(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("utf8");
}

function grown(column: Uint32Array, length: number): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(length);
  larger.set(column);
  return larger;
}

function roomFor(arena: Uint8Array | undefined, used: number, more: number): Uint8Array {
  if (arena && used + more <= arena.length) return arena;
  const larger = new Uint8Array(Math.max(4096, (used + more) * 2));
  if (arena) larger.set(arena.subarray(0, used));
  return larger;
}
