// Finds the documents in a chunk of document lines without parsing them. A document whose `_id` comes first and whose line has no other
// `_id`, no `_deleted` and no suspicious escape is plain: such lines are noted many at a time (plain-lines.ts) where that can be, or
// are done here after three searches for single bytes. Every other line takes the walk over its members.

import { ContentHasher } from "./content-hash.js";
import { LINE_BYTES_MAX_DEFAULT, malformedLine, type LineOrigin } from "./line-errors.js";
import { MemberScanner, skipBlanks } from "./member-scan.js";
import { PLAIN_LINE_BYTES_MAX, PlainLines } from "./plain-lines.js";
import {
  AsciiEscapes,
  idFlags,
  isTrue,
  needsDecoding,
  placeId,
  startsWithMark,
  tooLong,
} from "./slice-common.js";
import { SLICE_DELETED, type Slices } from "./slices.js";

/** How to slice. Plain data: it travels to the threads. */
export interface SliceOptions {
  /** Top-level member that holds the id. Default `_id`; with another one the document is given an `_id` after it. */
  readonly idField?: string | undefined;
  /** Longest line allowed, in bytes. Default 256 MiB. */
  readonly lineBytesMax?: number | undefined;
  /** Changes only: give each document a `_local_seq`, the number its row's sequence begins with (VIEWS §1). */
  readonly localSeq?: boolean | undefined;
}

const LF = 0x0a;
const CR = 0x0d;
const QUOTE = 0x22;
const UNDERSCORE = 0x5f;
const CLOSE_BRACE = 0x7d;
// `{"_i` and `d":"`, read as little-endian words.
const HEAD_WORD_1 = 0x695f227b;
const HEAD_WORD_2 = 0x223a2264;
const HEAD_BYTES = 8;

const ID = Buffer.from("_id");
const DELETED = Buffer.from("_deleted");

const hasher = new ContentHasher();
const members = new MemberScanner();
const plainLines = new PlainLines("documents");

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
  const many = plain && lineBytesMax >= PLAIN_LINE_BYTES_MAX && plainLines.begin(data);
  let lineStart = startsWithMark(bytes) ? 3 : 0;
  while (lineStart < size) {
    if (many && plainLines.finds && !out.idsCopied) {
      lineStart = plainLines.add(lineStart, out);
      if (lineStart === size) break;
    }
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
        !needsDecoding(bytes, idStart, idEnd)
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
