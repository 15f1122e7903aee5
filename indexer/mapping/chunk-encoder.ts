// Turns map replies into sorted entries for a group's trees. A reply is the JSON text of PROTOCOL §3 (`[[[key,value],…],…]`, one
// array per map function), scanned once as bytes: keys become collation keys in the view's arena, values are copied as printed.
// Nothing is parsed into objects unless the server's JSON is not canonical.

import { appendSegment, EntryBatch, RunFile } from "../../btree/index.js";
import { KeyEncoder } from "../collation/index.js";
import { canonicalJson, JsonScanner } from "../json/index.js";
import { ERROR_NO_TREE, errorKey, type DocumentError } from "../views/error-entry.js";
import {
  emittedKeys,
  encodeIdEntry,
  ID_DELETED,
  ID_ERRORS,
  ID_HEADER_BYTES,
  ID_UNCHANGED,
  type DroppedRow,
} from "../views/id-entry.js";
import { partitionEnd, refusedId } from "../views/partitions.js";
import { ROW_KEY_TEXT, writeVarint } from "../views/row-value.js";
import { BaseComparison } from "./base-comparison.js";
import { combineRows, droppedOf, type RowKeys } from "./combine-rows.js";
import type { KnownDocuments } from "./known-filter.js";
import { copy, writeWord } from "./put-bytes.js";
import { errorReply, lineEnd, utf8 } from "./reply-text.js";
import type {
  DocumentColumns,
  DocumentFailure,
  EntrySet,
  GroupConfig,
  GroupSegments,
  Output,
  StrictFailure,
  ViewFailure,
} from "./types.js";

const LF = 0x0a;
const COMMA = 0x2c;
const QUOTE = 0x22;
const OPEN = 0x5b;
const CLOSE = 0x5d;

export const NO_FAILURES: readonly ViewFailure[] = [];

/** Past this many rows a document's keys are told apart by a set, not by comparing all pairs. */
const PAIRWISE_ROWS_MAX = 16;
const LOGS_KEPT_MAX = 100;
/** A stack or reason longer than this is cut in the error tree. */
const ERROR_TEXT_MAX = 4000;

/** A document's identity while it is added. */
export interface DocumentRef {
  ids: Uint8Array;
  idStart: number;
  idEnd: number;
  /** The version's two halves, unsigned. */
  versionLow: number;
  versionHigh: number;
  ordinal: number;
  /** The entry that the index has of it. */
  before: Uint8Array | undefined;
}

export function emptyRef(): DocumentRef {
  return {
    ids: new Uint8Array(0),
    idStart: 0,
    idEnd: 0,
    versionLow: 0,
    versionHigh: 0,
    ordinal: 0,
    before: undefined,
  };
}

/** Makes `ref` the i-th document. */
export function refTo(
  ref: DocumentRef,
  documents: DocumentColumns,
  i: number,
  ordinalBase: number,
): void {
  ref.ids = documents.ids;
  ref.idStart = documents.idStart[i] as number;
  ref.idEnd = documents.idEnd[i] as number;
  ref.versionLow = documents.hashLow[i] as number;
  ref.versionHigh = documents.hashHigh[i] as number;
  ref.ordinal = ordinalBase + i;
}

class MalformedReply extends Error {}

function isMalformed(error: unknown): boolean {
  return (
    error instanceof MalformedReply ||
    error instanceof SyntaxError ||
    (error as { code?: unknown }).code === "JSON_MALFORMED"
  );
}

/** Collects one mapped range for one group. Reused from range to range: `finish` clears it. */
export class ChunkEncoder {
  readonly #config: GroupConfig;
  readonly #ids = new EntryBatch();
  readonly #errors = new EntryBatch(1024);
  readonly #views: readonly EntryBatch[];
  readonly #keys: readonly KeyEncoder[];
  readonly #scanner = new JsonScanner();
  /** How far each view's batch went before the document that is added. */
  readonly #usedBefore: number[] = [];
  readonly #lengthBefore: number[] = [];
  readonly #rowTree: number[] = [];
  readonly #rowStart: number[] = [];
  readonly #rowEnd: number[] = [];
  #rowCount = 0;
  /** Where the partition ends in the id of the document that is added; where the id begins when rows are not kept by partition. */
  #prefixEnd = 0;
  #mapped = 0;
  #unchanged = 0;
  #deleted = 0;
  #failed = 0;
  #rows = 0;
  #logs: { id: string; text: string }[] = [];
  #documentFailures: StrictFailure[] = [];
  #comparison: BaseComparison | undefined;

  constructor(config: GroupConfig) {
    this.#config = config;
    this.#views = config.maps.map(() => new EntryBatch());
    this.#keys = config.collations.map(
      (collation) => new KeyEncoder(collation, config.collationVersion),
    );
  }

  /** Bytes held: what a memory bound should count. */
  get memoryBytes(): number {
    return this.#views.reduce((sum, batch) => sum + batch.used, this.#ids.used);
  }

  /**
   * Until `finish`, documents are compared with what the index holds of them.
   *
   * @param rows - their rows too, where the keys are the same.
   */
  compareWith(known: KnownDocuments, rows: boolean): void {
    this.#comparison = new BaseComparison(known, this.#ids, this.#views, rows);
  }

  /** Whether documents are compared with what the index holds: then each takes `addMapped`. */
  get compares(): boolean {
    return this.#comparison !== undefined;
  }

  /** Where entries are gathered; whoever puts some there himself says so by `count`. */
  get batches(): { readonly ids: EntryBatch; readonly views: readonly EntryBatch[] } {
    return { ids: this.#ids, views: this.#views };
  }

  count(mapped: number, rows: number): void {
    this.#mapped += mapped;
    this.#rows += rows;
  }

  addDeleted(doc: DocumentRef): void {
    this.#addId(doc, ID_DELETED);
    this.#deleted++;
  }

  addUnchanged(doc: DocumentRef): void {
    this.#addId(doc, ID_UNCHANGED);
    this.#unchanged++;
  }

  addLog(doc: DocumentRef, text: string): void {
    if (this.#logs.length < LOGS_KEPT_MAX) this.#logs.push({ id: idText(doc), text });
  }

  /** The document could not be mapped at all: it has no rows, and one error record. */
  addFailure(doc: DocumentRef, failure: DocumentFailure): void {
    this.#addError(doc, failure.tree ?? ERROR_NO_TREE, {
      kind: failure.kind,
      error: failure.error,
      reason: failure.reason,
    });
    this.#addId(doc, ID_ERRORS);
    if (this.#config.strict)
      this.#documentFailures.push({
        id: idText(doc),
        ordinal: doc.ordinal,
        error: failure.error,
        reason: failure.reason,
      });
    this.#mapped++;
    this.#failed++;
  }

  /** The id names no partition: a partitioned database does not take such a document. */
  addRefused(doc: DocumentRef): void {
    const refused = refusedId(doc.ids, doc.idStart, doc.idEnd);
    if (!refused)
      throw new Error("viewmill bug: a document was refused for an id that names a partition");
    this.addFailure(doc, { index: -1, kind: "document_id", ...refused });
  }

  /**
   * Adds the rows of the reply that begins at `start` and ends before an LF or the end of `src`. Returns where it ends.
   *
   * A reply that is not what PROTOCOL §3 says makes no row of any view: it is the document's failure.
   *
   * @param failures - map functions that threw for this document.
   */
  addMapped(
    doc: DocumentRef,
    src: Uint8Array,
    start: number,
    failures: readonly ViewFailure[],
  ): number {
    if (src[start] === OPEN && src[start + 1] === QUOTE) {
      const end = lineEnd(src, start);
      this.addFailure(doc, errorReply(src, start, end));
      return end;
    }
    this.#rowCount = 0;
    this.#prefixEnd = this.#config.partitioned
      ? partitionEnd(doc.ids, doc.idStart, doc.idEnd)
      : doc.idStart;
    const views = this.#views;
    for (let i = 0; i < views.length; i++) {
      const batch = views[i] as EntryBatch;
      this.#usedBefore[i] = batch.used;
      this.#lengthBefore[i] = batch.length;
    }
    let end: number;
    try {
      end = this.#scanReply(doc, src, start);
    } catch (error) {
      if (!isMalformed(error)) throw error;
      // Blanks or long escapes of a foreign server: rewrite once and scan again.
      this.#rewind();
      end = lineEnd(src, start);
      const reason = this.#scanRewritten(doc, src, start, end);
      if (reason !== undefined) {
        this.#rewind();
        this.addFailure(doc, { index: -1, kind: "output", error: "view_server_protocol", reason });
        return end;
      }
    }
    for (const failure of failures) this.#addError(doc, failure.tree, failure);
    if (failures.length > 0) this.#failed++;
    this.#mapped++;
    this.#rows += this.#rowCount;
    this.#addId(doc, failures.length > 0 ? ID_ERRORS : 0);
    return end;
  }

  /** Hands over what was added, and clears: as it is, for `memory`; sorted and appended to the run file, for `run`. */
  finish(output: Output, ordinalBase: number): GroupSegments {
    const run = output.kind === "run" ? RunFile.create(output.path) : undefined;
    this.#comparison?.finish();
    try {
      const segment = (batch: EntryBatch, tree?: number): EntrySet | undefined => {
        if (batch.length === 0) return undefined;
        if (run === undefined) return batch.export();
        batch.sort();
        const keys = tree === undefined ? undefined : this.#rowKeys(tree);
        return appendSegment(
          run,
          batch,
          keys && { combine: (b, first, last) => combineRows(keys, b, first, last) },
        );
      };
      const result: GroupSegments = {
        ids: segment(this.#ids),
        errors: segment(this.#errors),
        views: this.#views.map((batch, tree) => segment(batch, tree)),
        mapped: this.#mapped,
        unchanged: this.#unchanged,
        deleted: this.#deleted,
        failed: this.#failed,
        rows: this.#rows,
        documentFailures: this.#documentFailures.sort((a, b) => a.ordinal - b.ordinal),
        ordinalBase,
        base: this.#comparison?.base,
        logs: this.#logs,
      };
      return result;
    } finally {
      run?.close();
      this.clear();
    }
  }

  clear(): void {
    this.#ids.clear();
    this.#errors.clear();
    for (const batch of this.#views) batch.clear();
    this.#mapped = this.#unchanged = this.#deleted = this.#failed = this.#rows = 0;
    this.#logs = [];
    this.#documentFailures = [];
    this.#comparison = undefined;
  }

  /** Takes back the rows of the document that is added. */
  #rewind(): void {
    for (const [i, batch] of this.#views.entries())
      batch.truncate(this.#lengthBefore[i] as number, this.#usedBefore[i] as number);
    this.#rowCount = 0;
  }

  /** What is wrong with the reply; undefined when its rows were added. */
  #scanRewritten(
    doc: DocumentRef,
    src: Uint8Array,
    start: number,
    end: number,
  ): string | undefined {
    const text = Buffer.from(src.buffer, src.byteOffset + start, end - start).toString("utf8");
    try {
      const bytes = Buffer.from(canonicalJson(text));
      this.#scanReply(doc, bytes, 0);
      return undefined;
    } catch (error) {
      if (!isMalformed(error)) throw error;
      return `the view server's reply is not a list of rows for each of ${this.#config.maps.length} map functions: ${text.slice(0, 120)}`;
    }
  }

  /** Returns where the reply ends. */
  #scanReply(doc: DocumentRef, src: Uint8Array, start: number): number {
    const trees = this.#views.length;
    let pos = start;
    if (src[pos++] !== OPEN) throw new MalformedReply();
    for (let tree = 0; tree < trees; tree++) {
      if (tree > 0 && src[pos++] !== COMMA) throw new MalformedReply();
      if (src[pos++] !== OPEN) throw new MalformedReply();
      if (src[pos] === CLOSE) {
        pos++;
        continue;
      }
      for (;;) {
        pos = this.#scanRow(doc, tree, src, pos);
        const next = src[pos++];
        if (next === CLOSE) break;
        if (next !== COMMA) throw new MalformedReply();
      }
    }
    if (src[pos++] !== CLOSE || (pos < src.length && src[pos] !== LF)) throw new MalformedReply();
    return pos;
  }

  /** One `[key,value]`; returns the position after it. */
  #scanRow(doc: DocumentRef, tree: number, src: Uint8Array, start: number): number {
    if (src[start] !== OPEN) throw new MalformedReply();
    const batch = this.#views[tree] as EntryBatch;
    const encoder = this.#keys[tree] as KeyEncoder;
    const keyStart = batch.used;
    if (this.#prefixEnd > doc.idStart) {
      batch.ensure(this.#prefixEnd - doc.idStart);
      batch.used = copy(batch.bytes, keyStart, doc.ids, doc.idStart, this.#prefixEnd);
    }
    let pos = encoder.encode(src, start + 1, batch);
    const keyTextEnd = pos;
    const keyEnd = batch.used;
    const exact = encoder.exact;
    if (src[pos++] !== COMMA) throw new MalformedReply();
    const valueStart = pos;
    const scanner = this.#scanner;
    pos = scanner.scan(src, pos);
    if (src[pos] !== CLOSE) throw new MalformedReply();

    const { idStart, idEnd, ids } = doc;
    let valueBytes = src;
    let from = valueStart;
    let to = pos;
    if (!scanner.canonical) {
      valueBytes = Buffer.from(canonicalJson(utf8(src, valueStart, pos)));
      from = 0;
      to = valueBytes.length;
    }
    let keyBytes = src;
    let keyFrom = start + 1;
    let keyTo = keyTextEnd;
    if (!exact && !encoder.canonical) {
      keyBytes = Buffer.from(canonicalJson(utf8(src, keyFrom, keyTo)));
      keyFrom = 0;
      keyTo = keyBytes.length;
    }
    const keyTextLength = exact ? 0 : keyTo - keyFrom;
    batch.ensure(idEnd - idStart + 6 + keyTextLength + (to - from));
    const dst = batch.bytes;
    let p = keyEnd;
    for (let i = idStart; i < idEnd; i++) dst[p++] = ids[i] as number;
    const entryValue = p;
    if (exact) dst[p++] = 0;
    else {
      dst[p++] = ROW_KEY_TEXT;
      p = writeVarint(dst, p, keyTextLength);
      p = copy(dst, p, keyBytes, keyFrom, keyTo);
    }
    p = copy(dst, p, valueBytes, from, to);
    batch.used = p;
    batch.push(keyStart, entryValue, entryValue, p, doc.ordinal);

    const row = this.#rowCount++;
    this.#rowTree[row] = tree;
    this.#rowStart[row] = keyStart;
    this.#rowEnd[row] = keyEnd;
    return pos + 1;
  }

  #addId(doc: DocumentRef, flags: number): void {
    const batch = this.#ids;
    const rows = flags === ID_DELETED || flags === ID_UNCHANGED ? 0 : this.#rowCount;
    let size = doc.idEnd - doc.idStart + ID_HEADER_BYTES;
    for (let i = 0; i < rows; i++)
      size += 10 + (this.#rowEnd[i] as number) - (this.#rowStart[i] as number);
    batch.ensure(size);
    const dst = batch.bytes;
    const keyStart = batch.used;
    let p = copy(dst, keyStart, doc.ids, doc.idStart, doc.idEnd);
    const valueStart = p;
    dst[p++] = flags;
    p = writeWord(dst, p, doc.versionLow);
    p = writeWord(dst, p, doc.versionHigh);
    const seen = rows > PAIRWISE_ROWS_MAX ? new Set<string>() : undefined;
    let repeated = false;
    for (let i = 0; i < rows; i++) {
      if (this.#repeats(i, seen)) {
        repeated = true;
        continue;
      }
      const tree = this.#rowTree[i] as number;
      const from = this.#rowStart[i] as number;
      const to = this.#rowEnd[i] as number;
      p = writeVarint(dst, p, tree);
      p = writeVarint(dst, p, to - from);
      p = copy(dst, p, (this.#views[tree] as EntryBatch).bytes, from, to);
    }
    const dropped = repeated ? this.#dropped(doc.idEnd - doc.idStart) : [];
    if (dropped.length > 0) {
      const plain = dst.subarray(valueStart, p);
      const version = plain.subarray(1, ID_HEADER_BYTES);
      const entry = encodeIdEntry(flags, version, emittedKeys(plain), dropped);
      batch.used = p;
      batch.ensure(entry.length);
      batch.bytes.set(entry, valueStart);
      p = valueStart + entry.length;
    }
    batch.used = p;
    batch.push(keyStart, valueStart, valueStart, p, doc.ordinal);
    this.#comparison?.document(doc, batch.bytes.subarray(valueStart, p), rows);
    this.#rowCount = 0;
  }

  /** What will be dropped of the rows of the document that is added, some of which have equal collation keys. */
  #dropped(idLength: number): DroppedRow[] {
    const trees = new Set<number>();
    for (let i = 0; i < this.#rowCount; i++) {
      const tree = this.#rowTree[i] as number;
      const { bytes } = this.#views[tree] as EntryBatch;
      const flags = bytes[(this.#rowEnd[i] as number) + idLength] as number;
      // Without any text of its own, equal keys are equal texts.
      if (flags & ROW_KEY_TEXT && this.#config.collations[tree] === "root") trees.add(tree);
    }
    return [...trees].flatMap((tree) => {
      const batch = this.#views[tree] as EntryBatch;
      const from = this.#lengthBefore[tree] as number;
      return droppedOf(this.#rowKeys(tree), batch, from, batch.length).map((row) => ({
        tree,
        row,
      }));
    });
  }

  #rowKeys(tree: number): RowKeys {
    const { collations, collationVersion, partitioned } = this.#config;
    return { kind: collations[tree] ?? "root", version: collationVersion, partitioned };
  }

  /** Did the document emit this key before, in the same view? */
  #repeats(row: number, seen: Set<string> | undefined): boolean {
    const tree = this.#rowTree[row] as number;
    const { bytes } = this.#views[tree] as EntryBatch;
    const from = this.#rowStart[row] as number;
    const length = (this.#rowEnd[row] as number) - from;
    if (seen) {
      const name = `${tree}:${Buffer.from(bytes.buffer, bytes.byteOffset + from, length).toString("latin1")}`;
      if (seen.has(name)) return true;
      seen.add(name);
      return false;
    }
    outer: for (let other = row - 1; other >= 0; other--) {
      if (this.#rowTree[other] !== tree) return false;
      const otherFrom = this.#rowStart[other] as number;
      if ((this.#rowEnd[other] as number) - otherFrom !== length) continue;
      for (let i = 0; i < length; i++) if (bytes[from + i] !== bytes[otherFrom + i]) continue outer;
      return true;
    }
    return false;
  }

  #addError(doc: DocumentRef, tree: number, failure: Omit<ViewFailure, "tree">): void {
    const id = doc.ids.subarray(doc.idStart, doc.idEnd);
    const { labels } = this.#config;
    const view = tree === ERROR_NO_TREE && labels.length === 1 ? 0 : tree;
    const record: DocumentError = {
      id: idText(doc),
      view: labels[view] ?? null,
      kind: failure.kind,
      error: failure.error.slice(0, ERROR_TEXT_MAX),
      reason: failure.reason.slice(0, ERROR_TEXT_MAX),
      ...(failure.stack === undefined ? {} : { stack: failure.stack.slice(0, ERROR_TEXT_MAX) }),
    };
    const key = errorKey(id, tree);
    const value = Buffer.from(JSON.stringify(record));
    const batch = this.#errors;
    batch.ensure(key.length + value.length);
    const start = batch.used;
    batch.bytes.set(key, start);
    batch.bytes.set(value, start + key.length);
    batch.used = start + key.length + value.length;
    batch.push(start, start + key.length, start + key.length, batch.used, doc.ordinal);
  }
}

function idText(doc: DocumentRef): string {
  return utf8(doc.ids, doc.idStart, doc.idEnd);
}
