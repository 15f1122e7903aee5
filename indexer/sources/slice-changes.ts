// Finds the documents in a chunk of changes rows without parsing them. CouchDB prints the members of a row in one order;
// those of documents that are there are noted many at a time (plain-lines.ts) where that can be, others in
// that order take a path of a few searches and one walk over the document's brackets. Other rows are walked member by
// member.

import { ContentHasher } from "./content-hash.js";
import { LINE_BYTES_MAX_DEFAULT, malformedLine, type LineOrigin } from "./line-errors.js";
import { MemberScanner, skipBlanks, skipValue } from "./member-scan.js";
import { PLAIN_LINE_BYTES_MAX, PlainLines } from "./plain-lines.js";
import {
  AsciiEscapes,
  idFlags,
  isTrue,
  NextByte,
  placeId,
  startsWithMark,
  tooLong,
} from "./slice-common.js";
import type { SliceOptions } from "./slice.js";
import { SLICE_DELETED, type Slices } from "./slices.js";

const LF = 0x0a;
const CR = 0x0d;
const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const UNDERSCORE = 0x5f;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

// Pieces of a row as CouchDB prints it, as little-endian words.
const SEQ_1 = word('{"se');
const SEQ_2 = word('q":');
const ID_1 = word(',"id');
const ID_2 = word('":"');
const CHANGES_1 = word(',"ch');
const CHANGES_2 = word("ange");
const CHANGES_3 = word('s":[');
const DELETED_1 = word(',"de');
const DELETED_2 = word("lete");
const DELETED_3 = word('d":t');
const DELETED_4 = word("rue,");
const DOC_1 = word(',"do');
const DOC_2 = word('c":{');
const DELETED_BYTES = 15;

const DELETED = Buffer.from("_deleted");
const ROW_SEQ = Buffer.from("seq");
const ROW_ID = Buffer.from("id");
const ROW_DOC = Buffer.from("doc");
const ROW_DELETED = Buffer.from("deleted");
const ROW_LAST_SEQ = Buffer.from("last_seq");

const hasher = new ContentHasher();
const members = new MemberScanner();
const docMembers = new MemberScanner();
const plainLines = new PlainLines("rows");

/** Four characters as a word; three leave the high byte 0. */
function word(text: string): number {
  let value = 0;
  for (let i = text.length - 1; i >= 0; i--) value = (value << 8) | text.charCodeAt(i);
  return value;
}

/** Where the parts of a row are. Reused. */
const row = {
  seqStart: 0,
  seqEnd: 0,
  idStart: -1,
  idEnd: -1,
  docStart: 0,
  docEnd: 0,
  deleted: false,
};

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
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const size = bytes.length;
  const lineBytesMax = options.lineBytesMax ?? LINE_BYTES_MAX_DEFAULT;
  const names: NamePlaces = {
    escapes: new AsciiEscapes(bytes),
    underscores: new NextByte(bytes, UNDERSCORE),
  };
  let seqStart = 0;
  let seqEnd = 0;
  hasher.attach(data);
  const many =
    options.localSeq !== true && lineBytesMax >= PLAIN_LINE_BYTES_MAX && plainLines.begin(data);
  let lineStart = startsWithMark(bytes) ? 3 : 0;
  while (lineStart < size) {
    if (many && plainLines.finds && !out.idsCopied) {
      const before = lineStart;
      lineStart = plainLines.add(lineStart, out);
      if (lineStart > before) {
        seqStart = plainLines.seqStart;
        seqEnd = plainLines.seqEnd;
      }
      if (lineStart === size) break;
    }
    let next = bytes.indexOf(LF, lineStart);
    if (next < 0) next = size;
    let end = next;
    if (end > lineStart && bytes[end - 1] === CR) end--;
    if (end - lineStart > lineBytesMax) throw tooLong(data, lineStart, end, lineBytesMax, origin);
    if (
      end > lineStart &&
      (usualRow(bytes, view, lineStart, end) || anyRow(bytes, lineStart, end, origin))
    ) {
      if (row.seqEnd > 0) {
        seqStart = row.seqStart;
        seqEnd = row.seqEnd;
      }
      putRow(bytes, lineStart, end, out, names, origin, options.localSeq === true);
    }
    lineStart = next + 1;
  }
  if (seqEnd > 0) out.lastSeq = bytes.toString("utf8", seqStart, seqEnd);
}

/** Finds the parts of a row in CouchDB's order, without blanks. False when it is not like that, or maybe not. */
function usualRow(bytes: Buffer, view: DataView, start: number, lineEnd: number): boolean {
  const end = bytes[lineEnd - 1] === COMMA ? lineEnd - 1 : lineEnd;
  if (end - start < 48 || bytes[end - 1] !== CLOSE_BRACE) return false;
  if (view.getInt32(start, true) !== SEQ_1) return false;
  if ((view.getInt32(start + 4, true) & 0xffffff) !== SEQ_2) return false;
  let p = start + 7;
  row.seqStart = p;
  if (bytes[p] === QUOTE) {
    p = bytes.indexOf(QUOTE, p + 1) + 1;
    if (p <= 0 || bytes[p - 2] === BACKSLASH) return false;
  } else while (p < end && bytes[p] !== COMMA) p++;
  row.seqEnd = p;
  if (p + 40 > end || view.getInt32(p, true) !== ID_1) return false;
  if ((view.getInt32(p + 4, true) & 0xffffff) !== ID_2) return false;
  row.idStart = p + 6;
  p = bytes.indexOf(QUOTE, p + 7) + 1;
  if (p <= 0 || p + 28 > end || bytes[p - 2] === BACKSLASH) return false;
  row.idEnd = p;
  if (view.getInt32(p, true) !== CHANGES_1 || view.getInt32(p + 4, true) !== CHANGES_2)
    return false;
  if (view.getInt32(p + 8, true) !== CHANGES_3) return false;
  // A bracket inside a revision would have to be followed by a quote that ends it, and what follows would not be this.
  p = bytes.indexOf(CLOSE_BRACKET, p + 12) + 1;
  if (p <= 0 || p + 10 > end) return false;
  row.deleted = false;
  if (
    p + DELETED_BYTES + 8 < end &&
    view.getInt32(p, true) === DELETED_1 &&
    view.getInt32(p + 4, true) === DELETED_2 &&
    view.getInt32(p + 8, true) === DELETED_3 &&
    view.getInt32(p + 12, true) === DELETED_4
  ) {
    row.deleted = true;
    p += DELETED_BYTES;
  }
  if (view.getInt32(p, true) !== DOC_1 || view.getInt32(p + 4, true) !== DOC_2) return false;
  row.docStart = p + 7;
  row.docEnd = skipValue(bytes, p + 7, end);
  return row.docEnd === end - 1;
}

/** Finds the parts of a row in any order. False for what surrounds rows in a saved answer. */
function anyRow(bytes: Buffer, lineStart: number, lineEnd: number, origin: LineOrigin): boolean {
  const start = skipBlanks(bytes, lineStart, lineEnd);
  if (start === lineEnd) return false;
  row.idStart = -1;
  row.seqStart = row.seqEnd = 0;
  row.docStart = row.docEnd = 0;
  row.deleted = false;
  let last = false;
  members.open(bytes, start, lineEnd);
  while (members.next()) {
    const { valueStart, valueEnd } = members;
    if (members.named(ROW_SEQ)) {
      row.seqStart = valueStart;
      row.seqEnd = valueEnd;
    } else if (members.named(ROW_ID)) {
      row.idStart = valueStart;
      row.idEnd = valueEnd;
    } else if (members.named(ROW_DOC)) {
      row.docStart = valueStart;
      row.docEnd = valueEnd;
    } else if (members.named(ROW_DELETED)) {
      row.deleted = isTrue(bytes, valueStart, valueEnd);
    } else if (members.named(ROW_LAST_SEQ)) last = true;
  }
  if (members.failed || !endsRow(bytes, members.objectEnd, lineEnd)) {
    if (isEnvelope(bytes, start, lineEnd)) return false;
    throw malformedLine(bytes, lineStart, lineEnd, "not a row of a changes feed", origin);
  }
  if (row.idStart >= 0) return true;
  if (last) return false;
  throw malformedLine(bytes, lineStart, lineEnd, 'the row has no "id"', origin);
}

function putRow(
  bytes: Buffer,
  lineStart: number,
  lineEnd: number,
  out: Slices,
  names: NamePlaces,
  origin: LineOrigin,
  localSeq: boolean,
): void {
  const i = out.count;
  if (i === out.flags.length) out.grow();
  if (!placeId(bytes, row.idStart, row.idEnd, out, true)) {
    throw malformedLine(bytes, lineStart, lineEnd, '"id" must be a non-empty string', origin);
  }
  const flags = idFlags(out, i);
  if (flags < 0) return;
  let { docStart, docEnd, deleted } = row;
  if (docEnd > 0 && bytes[docStart] !== OPEN_BRACE) {
    // `"doc":null`: the document went away between the change and the answer.
    deleted = true;
    docEnd = docStart;
  } else if (docEnd === 0 && !deleted) {
    const problem = 'the row has no "doc" (was the feed made with include_docs=true?)';
    throw malformedLine(bytes, lineStart, lineEnd, problem, origin);
  }
  // No text is an empty range where the text would be: ranges ascend, so that a block of documents is a range too.
  if (docEnd === 0) docStart = docEnd = lineStart;
  if (!deleted) deleted = isTombstone(bytes, docStart, docEnd, names);
  hasher.hash(docStart, docEnd);
  out.hashLow[i] = hasher.low;
  out.hashHigh[i] = hasher.high;
  if (localSeq) putWithLocalSeq(bytes, docStart, docEnd, out);
  else {
    out.docStart[i] = docStart;
    out.docEnd[i] = docEnd;
  }
  out.flags[i] = flags | (deleted ? SLICE_DELETED : 0);
  out.lineStart[i] = lineStart;
  out.count = i + 1;
}

const NO_BYTES = new Uint8Array(0);

/** The document with one more member: what a CouchDB host adds when a view's options ask for it. */
function putWithLocalSeq(bytes: Buffer, docStart: number, docEnd: number, out: Slices): void {
  if (docEnd === docStart) {
    out.putDoc(NO_BYTES, NO_BYTES);
    return;
  }
  const seq = Number.parseInt(
    bytes.toString("latin1", row.seqStart, row.seqEnd).replace(/^"/, ""),
    10,
  );
  const empty = skipBlanks(bytes, docStart + 1, docEnd) === docEnd - 1;
  const member = `${empty ? "" : ","}"_local_seq":${Number.isSafeInteger(seq) ? seq : 0}}`;
  out.putDoc(bytes.subarray(docStart, docEnd - 1), Buffer.from(member));
}

/** After a row: nothing, or the comma between rows of a saved answer. */
function endsRow(bytes: Buffer, at: number, end: number): boolean {
  const p = skipBlanks(bytes, at, end);
  return p === end || (bytes[p] === COMMA && skipBlanks(bytes, p + 1, end) === end);
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

/** Where the name `_deleted` may stand in the chunk, plainly or spelt by an escape. */
interface NamePlaces {
  readonly escapes: AsciiEscapes;
  readonly underscores: NextByte;
}

/** Does the document itself say `_deleted:true`? Rows of CouchDB say it twice; other writers may only say it here. */
function isTombstone(bytes: Buffer, start: number, end: number, names: NamePlaces): boolean {
  let possible = names.escapes.notBefore(start) < end;
  for (let p = start; !possible; p++) {
    p = names.underscores.notBefore(p);
    if (p >= end) return false;
    possible = bytes[p - 1] === QUOTE && bytes[p + 1] === 0x64;
  }
  let deleted = false;
  docMembers.open(bytes, start, end);
  while (docMembers.next()) {
    if (docMembers.named(DELETED)) {
      deleted = isTrue(bytes, docMembers.valueStart, docMembers.valueEnd);
    }
  }
  return deleted;
}
