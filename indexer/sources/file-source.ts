// What all files of lines have in common: cut into chunks that workers read themselves, resume at a byte offset, notice
// replacement and truncation, follow growth. The main thread reads a few KiB per chunk and never a document.
//
// Two ways to see a file. A *snapshot* is delivered whole and holds exactly while the file does not change at all. A *log*
// only grows: a sequence holds while what is before it stays; its last line is left for later while it has no line end and
// is not complete JSON, because somebody may be in the middle of writing it.

import { setTimeout as delay } from "node:timers/promises";
import { IndexerError } from "../errors.js";
import { contentHashHex } from "./content-hash.js";
import { DesignScan } from "./design-scan.js";
import { DocumentLookup } from "./document-lookup.js";
import { decodeFileSeq, encodeFileSeq, type FileSeq } from "./file-seq.js";
import { LINE_BYTES_MAX_DEFAULT } from "./line-errors.js";
import { LineFile, changedWhileRead } from "./line-file.js";
import { MemberScanner, textOf } from "./member-scan.js";
import type { SliceOptions } from "./slice.js";
import {
  abortedError,
  type ChangesOptions,
  type Chunk,
  type DesignDocumentRow,
  type DocumentRequest,
  type FeedExtent,
  type Seq,
  type SourceWants,
  type Source,
  type SourceIdentity,
  type StampedFile,
} from "./source.js";
import { FileStamp } from "./stamp.js";

/** Options of all file sources. */
export interface FileSourceOptions extends SliceOptions {
  /** Folder for the side files that find documents by id (include_docs). Default: a temporary one, removed on close. */
  readonly lookupDir?: string | undefined;
  /** How often a followed file is looked at, in milliseconds. Default 250. */
  readonly pollMs?: number | undefined;
  /** Told what is odd but no error, such as an unfinished last line. */
  readonly onWarning?: ((message: string) => void) | undefined;
}

const CHUNK_BYTES_DEFAULT = 4 * 1024 * 1024;
const POLL_MS_DEFAULT = 250;
const ROW_HEAD_BYTES = 16 * 1024;
const ROWS_BACK_MAX = 16;
const FIRST_LINE_BYTES = 4096;
const SEQ_NAME = Buffer.from("seq");
const LF = 0x0a;

export abstract class FileSource implements Source {
  readonly snapshot: boolean;
  slicing: SliceOptions;
  readonly path: string;
  readonly #format: "documents" | "changes";
  readonly #options: FileSourceOptions;
  readonly #lookup: DocumentLookup;
  #stamp: FileStamp | undefined;
  readonly #designs: DesignScan;

  protected constructor(
    path: string,
    kind: { readonly format: "documents" | "changes"; readonly snapshot: boolean },
    options: FileSourceOptions,
  ) {
    this.path = path;
    this.snapshot = kind.snapshot;
    this.slicing = { idField: options.idField, lineBytesMax: options.lineBytesMax };
    this.#format = kind.format;
    this.#options = options;
    const feed = { path, ...kind, slicing: this.slicing, complete: this.#completeEnd.bind(this) };
    this.#lookup = new DocumentLookup(feed, options.lookupDir);
    this.#designs = new DesignScan(feed);
  }

  configure(wants: SourceWants): void {
    if (this.#format === "changes") this.slicing = { ...this.slicing, localSeq: wants.localSeq };
  }

  /** How errors and `info` call the source. */
  get label(): string {
    return this.path;
  }

  /** Gets the file ready to be read; sources whose file is made first wait here. */
  protected async ready(): Promise<void> {
    await Promise.resolve();
  }

  async identity(): Promise<SourceIdentity> {
    await this.ready();
    const file = LineFile.open(this.path);
    try {
      // A snapshot is compared whole with what was indexed, whatever it was: it has no identity to lose.
      if (this.snapshot) return { id: "documents", label: this.label };
      const head = file.read(file.firstByte(), FIRST_LINE_BYTES);
      const end = head.indexOf(LF);
      const whole = end >= 0 || head.length === FIRST_LINE_BYTES;
      const print = whole ? contentHashHex(head.subarray(0, end < 0 ? head.length : end)) : "empty";
      return {
        id: `${this.#format === "changes" ? "changes" : "log"}:${print}`,
        label: this.label,
      };
    } finally {
      file.close();
    }
  }

  async *changes(options: ChangesOptions): AsyncGenerator<Chunk, void, undefined> {
    await this.ready();
    if (this.snapshot && options.until === "forever") {
      const advice = "Use --append if it only grows, or build again when it changed.";
      throw new IndexerError(
        "SOURCE_USAGE",
        `${this.label} is a snapshot of documents and cannot be followed. ${advice}`,
      );
    }
    const file = LineFile.open(this.path);
    try {
      yield* this.#drain(file, options);
    } finally {
      file.close();
    }
  }

  async *#drain(file: LineFile, options: ChangesOptions): AsyncGenerator<Chunk, void, undefined> {
    const { since, signal } = options;
    const chunkBytes = options.chunkBytes ?? CHUNK_BYTES_DEFAULT;
    const firstByte = file.firstByte();
    const signature = this.snapshot ? file.signature() : "";
    let at = firstByte;
    let shown: string | undefined;
    if (since !== undefined) {
      const seq = decodeFileSeq(since);
      if (!seq || !this.#holds(file, seq)) throw this.#cannotResume();
      at = seq.at;
      shown = seq.shown;
    }
    const origin = at;
    for (;;) {
      const sizeSeen = file.size();
      const end = this.#completeEnd(file, at, true);
      while (at < end) {
        if (signal?.aborted) throw abortedError(signal);
        const start = at;
        at = this.#cut(file, start, end, chunkBytes);
        shown = this.#format === "changes" ? this.#rowSeq(file, start, at, shown) : String(at);
        const of = this.snapshot ? signature : file.fingerprint(at);
        yield {
          format: this.#format,
          data: { path: this.path, start, end: at, inode: file.inode },
          lastSeq: encodeFileSeq({ at, of, shown }),
          feedBytes: at - origin,
          ...(start === firstByte ? { firstLine: 1 } : {}),
        };
      }
      if (signal?.aborted) throw abortedError(signal);
      if (file.size() < at || !file.isCurrent()) throw changedWhileRead(this.path);
      if (options.until === "now") return;
      await this.#growth(file, at, sizeSeen, signal);
    }
  }

  async latest(): Promise<Seq> {
    return this.#withFile((file) => {
      const at = this.#completeEnd(file, file.firstByte(), false);
      if (this.snapshot) return encodeFileSeq({ at, of: file.signature(), shown: String(at) });
      const first = file.firstByte();
      const shown = this.#format === "changes" ? this.#rowSeq(file, first, at, "0") : String(at);
      return encodeFileSeq({ at, of: file.fingerprint(at), shown });
    });
  }

  async extent(since: Seq | undefined): Promise<FeedExtent> {
    return this.#withFile((file) => {
      const from = since === undefined ? undefined : decodeFileSeq(since)?.at;
      return { bytes: Math.max(0, file.size() - (from ?? file.firstByte())) };
    });
  }

  async resumable(since: Seq): Promise<boolean> {
    return this.#withFile((file) => {
      const seq = decodeFileSeq(since);
      return seq !== undefined && this.#holds(file, seq);
    });
  }

  get stamped(): StampedFile {
    return { path: this.path, snapshot: this.snapshot };
  }

  stamp(): string | undefined {
    this.#stamp ??= new FileStamp(this.stamped);
    return this.#stamp.read();
  }

  async designDocuments(): Promise<DesignDocumentRow[]> {
    await this.ready();
    return this.#designs.read();
  }

  async documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    await this.ready();
    return this.#lookup.documents(requests);
  }

  async close(): Promise<void> {
    await this.#lookup.close();
  }

  async #withFile<T>(use: (file: LineFile) => T): Promise<T> {
    await this.ready();
    const file = LineFile.open(this.path);
    try {
      return use(file);
    } finally {
      file.close();
    }
  }

  #lineBytesMax(): number {
    return this.slicing.lineBytesMax ?? LINE_BYTES_MAX_DEFAULT;
  }

  #holds(file: LineFile, seq: FileSeq): boolean {
    if (this.snapshot) return seq.of === file.signature();
    return seq.at <= file.size() && seq.of === file.fingerprint(seq.at);
  }

  #cannotResume(): IndexerError {
    const what = this.snapshot ? "changed" : "was replaced, truncated or edited";
    return new IndexerError(
      "SOURCE_CHANGED",
      `${this.label} ${what} since it was indexed up to here; it must be read from its beginning (--rebuild).`,
      { file: this.path },
    );
  }

  /** End of the last line that may be delivered. */
  #completeEnd(file: LineFile, from: number, warn: boolean): number {
    const size = file.size();
    if (this.snapshot || size <= from || file.read(size - 1, 1)[0] === LF) return size;
    const start = file.lineStart(size, from, this.#lineBytesMax());
    if (isCompleteJson(file.read(start, size - start))) return size;
    if (warn) {
      const message = `the last line of ${this.label} is not finished; it is left for the next update.`;
      this.#options.onWarning?.(message);
    }
    return start;
  }

  #cut(file: LineFile, start: number, end: number, chunkBytes: number): number {
    if (start + chunkBytes >= end) return end;
    return file.lineEnd(start + chunkBytes - 1, end, this.#lineBytesMax());
  }

  /** JSON text of the last row's `seq` in [start, end); rows without one leave the sequence before, or the offset. */
  #rowSeq(file: LineFile, start: number, end: number, before: string | undefined): string {
    let lineEnd = end;
    for (let i = 0; i < ROWS_BACK_MAX && lineEnd > start; i++) {
      const lineStart = file.lineStart(lineEnd, start, this.#lineBytesMax());
      const length = lineEnd - lineStart;
      const head = file.read(lineStart, Math.min(length, ROW_HEAD_BYTES));
      let seq = seqOfRow(head, head.length === length);
      if (seq === undefined && head.length < length) {
        seq = seqOfRow(file.read(lineStart, length), true);
      }
      if (seq !== undefined) return seq;
      lineEnd = lineStart;
    }
    return before ?? String(end);
  }

  /** Waits until the file's size is no longer `sizeSeen`. */
  async #growth(
    file: LineFile,
    at: number,
    sizeSeen: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    for (;;) {
      try {
        await delay(this.#options.pollMs ?? POLL_MS_DEFAULT, undefined, signal ? { signal } : {});
      } catch {
        throw abortedError(signal);
      }
      const size = file.size();
      if (size < at || !file.isCurrent()) throw changedWhileRead(this.path);
      if (size !== sizeSeen) return;
    }
  }
}

function isCompleteJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString("utf8").replace(/,\s*$/, ""));
    return true;
  } catch {
    return false;
  }
}

/** The raw `seq` of a row of which maybe only the head is here: then a value that touches its end may be cut. */
function seqOfRow(bytes: Uint8Array, whole: boolean): string | undefined {
  const scanner = new MemberScanner();
  scanner.open(bytes, 0, bytes.length);
  while (scanner.next()) {
    if (!scanner.named(SEQ_NAME)) continue;
    if (!whole && scanner.valueEnd === bytes.length) return undefined;
    return textOf(bytes, scanner.valueStart, scanner.valueEnd);
  }
  return undefined;
}
