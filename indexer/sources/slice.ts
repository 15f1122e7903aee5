// Finds the documents in a chunk of lines without parsing them. Runs per document in the worker threads, so it leans on
// what the machine does fast: single-byte searches for line ends, quotes and underscores. A document whose `_id` comes first
// and whose line has no other `_id`, no `_deleted` and no suspicious escape is done after three searches; every other line
// takes the walk over its members.

import { ContentHasher } from "./content-hash.js";
import { LINE_BYTES_MAX_DEFAULT, malformedLine, type LineOrigin } from "./line-errors.js";
import { MemberScanner, decodeString, skipBlanks } from "./member-scan.js";
import { SLICE_DELETED, SLICE_DESIGN, type Slices } from "./slices.js";

/** How to slice. Plain data: it travels to the threads. */
export interface SliceOptions {
  /** Top-level member that holds the id. Default `_id`; with another one the document is given an `_id` after it. */
  readonly idField?: string | undefined;
  /** Longest line allowed, in bytes. Default 256 MiB. */
  readonly lineBytesMax?: number | undefined;
}

const LF = 0x0a;
const CR = 0x0d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const UNDERSCORE = 0x5f;
const CLOSE_BRACE = 0x7d;
// `{"_i` and `d":"`, read as little-endian words.
const HEAD_WORD_1 = 0x695f227b;
const HEAD_WORD_2 = 0x223a2264;
const HEAD_BYTES = 8;

const ID = Buffer.from("_id");
const DELETED = Buffer.from("_deleted");
const DESIGN = Buffer.from("_design/");
const LOCAL = Buffer.from("_local/");
const ASCII_ESCAPE = Buffer.from("\\u00");
const TRUE = Buffer.from("true");

const hasher = new ContentHasher();
const members = new MemberScanner();

/**
 * Slices a chunk of `documents` lines into `out`.
 *
 * A line is a JSON object with a string `_id`; blank lines, CRLF and a byte order mark before the first line are accepted,
 * and the last line may lack its LF. Of a repeated `_id` member the last one counts, as in JSON.parse.
 * Whether the rest of a line is JSON is not checked: the view server parses it, and `malformedLine` makes the error.
 *
 * @throws IndexerError SOURCE_MALFORMED, SOURCE_LINE_TOO_LONG naming the line.
 */
export function sliceDocuments(
  data: Uint8Array,
  out: Slices,
  options: SliceOptions,
  origin: LineOrigin,
): void {
  out.begin(data);
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const size = bytes.length;
  const lineBytesMax = options.lineBytesMax ?? LINE_BYTES_MAX_DEFAULT;
  const idField = options.idField ?? "_id";
  const plain = idField === "_id";
  const escapes = new AsciiEscapes(bytes);
  hasher.attach(data);
  let lineStart = startsWithMark(bytes) ? 3 : 0;
  while (lineStart < size) {
    let next = bytes.indexOf(LF, lineStart);
    if (next < 0) next = size;
    let end = next;
    if (end > lineStart && bytes[end - 1] === CR) end--;
    if (end - lineStart > lineBytesMax) throw tooLong(data, lineStart, end, lineBytesMax, origin);
    if (
      plain &&
      end - lineStart > HEAD_BYTES + 1 &&
      view.getInt32(lineStart, true) === HEAD_WORD_1 &&
      view.getInt32(lineStart + 4, true) === HEAD_WORD_2 &&
      bytes[end - 1] === CLOSE_BRACE
    ) {
      const idStart = lineStart + HEAD_BYTES;
      const idEnd = bytes.indexOf(QUOTE, idStart);
      if (
        idEnd > idStart &&
        idEnd < end &&
        bytes[idStart] !== UNDERSCORE &&
        !suspicious(bytes, idEnd, end) &&
        escapes.notBefore(lineStart) >= end &&
        !hasBackslash(bytes, idStart, idEnd)
      ) {
        const i = out.count;
        if (i === out.flags.length) out.grow();
        if (out.idsCopied) out.putId(bytes.subarray(idStart, idEnd));
        else {
          out.idStart[i] = idStart;
          out.idEnd[i] = idEnd;
        }
        hasher.hash(lineStart, end);
        out.hashLow[i] = hasher.low;
        out.hashHigh[i] = hasher.high;
        out.docStart[i] = lineStart;
        out.docEnd[i] = end;
        out.flags[i] = 0;
        out.lineStart[i] = lineStart;
        out.count = i + 1;
        lineStart = next + 1;
        continue;
      }
    }
    documentByMembers(bytes, lineStart, end, out, idField, origin);
    lineStart = next + 1;
  }
}

/** An underscore that could begin `_id` or `_deleted` after the first member. */
function suspicious(bytes: Buffer, start: number, end: number): boolean {
  let p = bytes.indexOf(UNDERSCORE, start);
  while (p >= 0 && p < end) {
    if (bytes[p - 1] === QUOTE) {
      const second = bytes[p + 1];
      if (second === 0x69 || second === 0x64) return true;
    }
    p = bytes.indexOf(UNDERSCORE, p + 1);
  }
  return false;
}

function hasBackslash(bytes: Uint8Array, start: number, end: number): boolean {
  for (let p = start; p < end; p++) if (bytes[p] === BACKSLASH) return true;
  return false;
}

/**
 * The next `\\u00XX` that spells a character a member name of ours has: `"\\u005fid"` is `"_id"` too. Rare, so the place is
 * found once and kept while the lines before it pass by. Escapes of other characters (`\\u00e9`) do not count.
 */
class AsciiEscapes {
  readonly #bytes: Buffer;
  #next = -1;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** The first at or after `start`; the buffer's length when there is none. `start` must not decrease. */
  notBefore(start: number): number {
    if (this.#next >= start) return this.#next;
    const bytes = this.#bytes;
    let p = bytes.indexOf(ASCII_ESCAPE, start);
    while (p >= 0) {
      const digit = bytes[p + ASCII_ESCAPE.length] as number;
      if (digit >= 0x35 && digit <= 0x37) break;
      p = bytes.indexOf(ASCII_ESCAPE, p + ASCII_ESCAPE.length);
    }
    this.#next = p < 0 ? bytes.length : p;
    return this.#next;
  }
}

/** The general way for one line: walks all members. */
function documentByMembers(
  bytes: Buffer,
  lineStart: number,
  end: number,
  out: Slices,
  idField: string,
  origin: LineOrigin,
): void {
  const start = skipBlanks(bytes, lineStart, end);
  if (start === end) return;
  const plain = idField === "_id";
  const idName = plain ? ID : Buffer.from(idField);
  let idStart = -1;
  let idEnd = -1;
  let deleted = false;
  members.open(bytes, start, end);
  while (members.next()) {
    if (members.named(idName)) {
      idStart = members.valueStart;
      idEnd = members.valueEnd;
    } else if (members.named(DELETED)) {
      deleted = isTrue(bytes, members.valueStart, members.valueEnd);
    }
  }
  if (members.failed || skipBlanks(bytes, members.objectEnd, end) !== end) {
    throw malformedLine(bytes, lineStart, end, "not a JSON object", origin);
  }
  if (idStart < 0) {
    const hint = plain ? " (--id-field names another member that holds the id)" : "";
    throw malformedLine(bytes, lineStart, end, `the document has no "${idField}"${hint}`, origin);
  }
  const docEnd = members.objectEnd;
  if (out.count === out.flags.length) out.grow();
  if (!placeId(bytes, idStart, idEnd, out, plain)) {
    const must = plain ? "a non-empty string" : "a non-empty string or a number";
    throw malformedLine(bytes, lineStart, end, `"${idField}" must be ${must}`, origin);
  }
  const i = out.count;
  const flags = idFlags(out, i);
  if (flags < 0) return;
  out.flags[i] = flags | (deleted ? SLICE_DELETED : 0);
  hasher.attach(bytes);
  hasher.hash(start, docEnd);
  out.hashLow[i] = hasher.low;
  out.hashHigh[i] = hasher.high;
  out.lineStart[i] = lineStart;
  if (plain) {
    out.docStart[i] = start;
    out.docEnd[i] = docEnd;
  } else {
    // Appended, not prepended: should the document have an `_id` of its own, the last one counts.
    const tail = Buffer.from(`,"_id":${JSON.stringify(out.id(i))}}`);
    out.putDoc(bytes.subarray(start, docEnd - 1), tail);
  }
  out.count = i + 1;
}

/** Notes the id of document `count`. False when it is not a usable id. */
function placeId(
  bytes: Buffer,
  start: number,
  end: number,
  out: Slices,
  stringOnly: boolean,
): boolean {
  if (bytes[start] !== QUOTE) {
    const first = bytes[start] as number;
    const number = first === 0x2d || (first >= 0x30 && first <= 0x39);
    if (stringOnly || !number) return false;
    out.putId(bytes.subarray(start, end));
    return true;
  }
  if (end - start < 3) return false;
  if (hasBackslash(bytes, start, end)) {
    const id = decodeString(bytes, start, end);
    if (id === undefined) return false;
    out.putId(Buffer.from(id));
  } else if (out.idsCopied) {
    out.putId(bytes.subarray(start + 1, end - 1));
  } else {
    out.idStart[out.count] = start + 1;
    out.idEnd[out.count] = end - 1;
  }
  return true;
}

/** SLICE_DESIGN or 0 for the id of document `i`; -1 for a `_local/` document, which no view ever sees. */
function idFlags(out: Slices, i: number): number {
  const start = out.idStart[i] as number;
  if (out.ids[start] !== UNDERSCORE) return 0;
  const end = out.idEnd[i] as number;
  if (beginsWith(out.ids, start, end, DESIGN)) return SLICE_DESIGN;
  return beginsWith(out.ids, start, end, LOCAL) ? -1 : 0;
}

function beginsWith(bytes: Uint8Array, start: number, end: number, prefix: Uint8Array): boolean {
  if (end - start < prefix.length) return false;
  for (let i = 0; i < prefix.length; i++) if (bytes[start + i] !== prefix[i]) return false;
  return true;
}

function isTrue(bytes: Uint8Array, start: number, end: number): boolean {
  return end - start === TRUE.length && beginsWith(bytes, start, end, TRUE);
}

function startsWithMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

function tooLong(
  data: Uint8Array,
  lineStart: number,
  end: number,
  limit: number,
  origin: LineOrigin,
): Error {
  const problem = `the line has more than ${limit} bytes (the limit is an option)`;
  return malformedLine(data, lineStart, end, problem, origin, "SOURCE_LINE_TOO_LONG");
}

/**
 * Slices a chunk of `changes` lines into `out`: rows `{"seq","id","changes","deleted"?,"doc"}` in any member order.
 *
 * What surrounds the rows where a whole `_changes` answer was saved is passed over: `{"results":[`, a comma after a row,
 * `],` and `"last_seq":…`. A row without `doc` must be a deletion. A deletion needs no document text.
 *
 * @throws IndexerError SOURCE_MALFORMED, SOURCE_LINE_TOO_LONG naming the line.
 */
export function sliceChanges(
  data: Uint8Array,
  out: Slices,
  options: SliceOptions,
  origin: LineOrigin,
): void {
  out.begin(data);
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const size = bytes.length;
  const lineBytesMax = options.lineBytesMax ?? LINE_BYTES_MAX_DEFAULT;
  hasher.attach(data);
  let lineStart = startsWithMark(bytes) ? 3 : 0;
  while (lineStart < size) {
    let next = bytes.indexOf(LF, lineStart);
    if (next < 0) next = size;
    let end = next;
    if (end > lineStart && bytes[end - 1] === CR) end--;
    if (end - lineStart > lineBytesMax) throw tooLong(data, lineStart, end, lineBytesMax, origin);
    if (end > lineStart) changeOfLine(bytes, lineStart, end, out, origin);
    lineStart = next + 1;
  }
}

const ROW_SEQ = Buffer.from("seq");
const ROW_ID = Buffer.from("id");
const ROW_DOC = Buffer.from("doc");
const ROW_DELETED = Buffer.from("deleted");
const ROW_LAST_SEQ = Buffer.from("last_seq");

function changeOfLine(
  bytes: Buffer,
  lineStart: number,
  lineEnd: number,
  out: Slices,
  origin: LineOrigin,
): void {
  const start = skipBlanks(bytes, lineStart, lineEnd);
  if (start === lineEnd) return;
  let idStart = -1;
  let idEnd = -1;
  let seqStart = 0;
  let seqEnd = 0;
  let docStart = 0;
  let docEnd = 0;
  let deleted = false;
  let last = false;
  members.open(bytes, start, lineEnd);
  while (members.next()) {
    const { valueStart, valueEnd } = members;
    if (members.named(ROW_SEQ)) {
      seqStart = valueStart;
      seqEnd = valueEnd;
    } else if (members.named(ROW_ID)) {
      idStart = valueStart;
      idEnd = valueEnd;
    } else if (members.named(ROW_DOC)) {
      docStart = valueStart;
      docEnd = valueEnd;
    } else if (members.named(ROW_DELETED)) {
      deleted = isTrue(bytes, valueStart, valueEnd);
    } else if (members.named(ROW_LAST_SEQ)) last = true;
  }
  if (members.failed || !endsRow(bytes, members.objectEnd, lineEnd)) {
    if (isEnvelope(bytes, start, lineEnd)) return;
    throw malformedLine(bytes, lineStart, lineEnd, "not a row of a changes feed", origin);
  }
  if (idStart < 0) {
    if (last) return;
    throw malformedLine(bytes, lineStart, lineEnd, 'the row has no "id"', origin);
  }
  if (out.count === out.flags.length) out.grow();
  if (!placeId(bytes, idStart, idEnd, out, true)) {
    throw malformedLine(bytes, lineStart, lineEnd, '"id" must be a non-empty string', origin);
  }
  if (seqEnd > 0) out.lastSeq = bytes.toString("utf8", seqStart, seqEnd);
  const i = out.count;
  const flags = idFlags(out, i);
  if (flags < 0) return;
  if (docEnd > 0 && bytes[docStart] !== 0x7b) {
    // `"doc":null`: the document went away between the change and the answer.
    deleted = true;
    docEnd = docStart;
  } else if (docEnd === 0 && !deleted) {
    const problem = 'the row has no "doc" (was the feed made with include_docs=true?)';
    throw malformedLine(bytes, lineStart, lineEnd, problem, origin);
  }
  if (!deleted && docEnd > docStart) deleted = isTombstone(bytes, docStart, docEnd);
  hasher.hash(docStart, docEnd);
  out.hashLow[i] = hasher.low;
  out.hashHigh[i] = hasher.high;
  out.docStart[i] = docStart;
  out.docEnd[i] = docEnd;
  out.flags[i] = flags | (deleted ? SLICE_DELETED : 0);
  out.lineStart[i] = lineStart;
  out.count = i + 1;
}

/** After a row: nothing, or the comma between rows of a saved answer. */
function endsRow(bytes: Buffer, at: number, end: number): boolean {
  const p = skipBlanks(bytes, at, end);
  return p === end || (bytes[p] === 0x2c && skipBlanks(bytes, p + 1, end) === end);
}

function isEnvelope(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > 4096) return false;
  const text = bytes.toString("latin1", start, end).replace(/\s+/g, "");
  return (
    text === '{"results":[' ||
    text === "]" ||
    text === "]," ||
    text === "]}" ||
    text === "}" ||
    /^\]?,?"last_seq":/.test(text)
  );
}

/** Does the document itself say `_deleted:true`? Rows of CouchDB say it twice; other writers may only say it here. */
function isTombstone(bytes: Buffer, start: number, end: number): boolean {
  let p = bytes.indexOf(UNDERSCORE, start);
  let possible = false;
  for (; p >= 0 && p < end; p = bytes.indexOf(UNDERSCORE, p + 1)) {
    if (bytes[p - 1] === QUOTE && bytes[p + 1] === 0x64) possible = true;
  }
  if (!possible) return false;
  let deleted = false;
  const scanner = new MemberScanner();
  scanner.open(bytes, start, end);
  while (scanner.next()) {
    if (scanner.named(DELETED)) deleted = isTrue(bytes, scanner.valueStart, scanner.valueEnd);
  }
  return deleted;
}
