// The tasks of a mapping thread that look at documents: slice a chunk, decide which documents to map, map them here or make the
// lines for a view server elsewhere, encode and sort what comes back.

import { appendSegment, EntryBatch, RunFile } from "../../btree/index.js";
import { mapDocLines } from "../../protocol/index.js";
import { visibleMembers } from "../../viewserver/index.js";
import { type IndexerError } from "../errors.js";
import { SLICE_DELETED, SLICE_DESIGN, type Slices } from "../sources/index.js";
import { refusedId } from "../views/partitions.js";
import { writeVarint } from "../views/row-value.js";
import { ChunkEncoder, emptyRef, NO_FAILURES, refTo } from "./chunk-encoder.js";
import { ChunkMapping, COMPILING } from "./chunk-mapping.js";
import { knownDocuments, type KnownDocuments } from "./known-filter.js";
import { LineReader } from "./line-input.js";
import { projectedLines } from "./projected-lines.js";
import { ReplyEncoder } from "./reply-encoder.js";
import { mapSession } from "./session-cache.js";
import {
  DELETED,
  MAP,
  REFUSED,
  SKIP,
  UNCHANGED,
  type DocumentSelection,
  type EncodeTask,
  type GroupConfig,
  type GroupJob,
  type GroupSegments,
  type LineInput,
  type MapResult,
  type MapTask,
  type PreparedLines,
  type PrepareTask,
  type ScanResult,
  type ScanTask,
  type SyntaxTask,
  type ViewFailure,
} from "./types.js";

/** An engine's message quotes the text: only its beginning is of use. */
const REASON_MAX = 100;

/** One a thread. */
export const reader = new LineReader();
const encoders = new Map<string, ChunkEncoder>();
const ENCODERS_MAX = 16;

function encoderFor(config: GroupConfig): ChunkEncoder {
  let encoder = encoders.get(config.key);
  if (!encoder) {
    if (encoders.size >= ENCODERS_MAX) encoders.clear();
    encoder = new ChunkEncoder(config);
    encoders.set(config.key, encoder);
  }
  encoder.clear();
  return encoder;
}

function judge(
  slices: Slices,
  job: GroupJob,
  select: DocumentSelection,
  known: KnownDocuments | undefined,
): Uint8Array {
  const verdicts = new Uint8Array(slices.count);
  for (let i = 0; i < slices.count; i++) {
    const flags = slices.flags[i] as number;
    if (i < select.from || i >= select.to) verdicts[i] = SKIP;
    else if (flags & SLICE_DESIGN && !job.config.includeDesign) verdicts[i] = SKIP;
    else if (flags & SLICE_DELETED) verdicts[i] = DELETED;
    else if (known?.unchanged[i]) verdicts[i] = UNCHANGED;
    else if (job.config.partitionedIds && (flags & SLICE_DESIGN) === 0 && isRefused(slices, i))
      verdicts[i] = REFUSED;
    else verdicts[i] = MAP;
  }
  return verdicts;
}

function designsOf({ flags, count }: Slices): number {
  let designs = 0;
  for (let i = 0; i < count; i++) if ((flags[i] as number) & SLICE_DESIGN) designs++;
  return designs;
}

function isRefused({ ids, idStart, idEnd }: Slices, i: number): boolean {
  return refusedId(ids, idStart[i] as number, idEnd[i] as number) !== undefined;
}

export async function runMapTask(task: MapTask): Promise<MapResult> {
  const groups: GroupSegments[] = [];
  // Waiting happens before slicing the same buffers again, so groups go one after the other over one reading.
  const slices = reader.read(task.input);
  for (const [group, job] of task.groups.entries()) {
    const beats = new Int32Array(task.heartbeat);
    beats[task.slot] = COMPILING;
    const session = mapSession(job.config, task.mapLimits);
    beats[task.slot] = 0;
    const known = job.known && (await knownDocuments(job.known.path, slices));
    try {
      const verdicts = judge(slices, job, task.select, known);
      const encoder = encoderFor(job.config);
      if (job.known && known) encoder.compareWith(known, job.known.rows);
      const mapping = new ChunkMapping(task, group, encoder, session, slices, known, (i) =>
        notJson(task.input, slices, i),
      );
      mapping.run(verdicts);
      groups.push(encoder.finish(job.output, task.ordinalBase));
    } finally {
      known?.release();
    }
  }
  return { groups, documents: slices.count, designs: designsOf(slices) };
}

/** The error for a line whose document is not JSON: the source is at fault. Undefined when it is JSON. */
function notJson(input: LineInput, slices: Slices, i: number): IndexerError | undefined {
  const { docs, docStart, docEnd, lineStart } = slices;
  const from = docStart[i] as number;
  const doc = Buffer.from(
    docs.buffer,
    docs.byteOffset + from,
    (docEnd[i] as number) - from,
  ).toString("utf8");
  try {
    JSON.parse(doc);
    return undefined;
  } catch (error) {
    return reader.malformed(
      input,
      lineStart[i] as number,
      `not JSON (${(error as Error).message.slice(0, REASON_MAX)})`,
    );
  }
}

/** @throws IndexerError `SOURCE_MALFORMED` when the document is not JSON. */
export function runSyntaxTask(task: SyntaxTask): void {
  const error = notJson(task.input, reader.read(task.input), task.index);
  if (error) throw error;
}

export async function runPrepareTask(task: PrepareTask): Promise<PreparedLines> {
  const slices = reader.read(task.input);
  const known = task.group.known && (await knownDocuments(task.group.known.path, slices));
  const verdicts = judge(slices, task.group, task.select, known);
  known?.release();
  const { count } = slices;
  const mapped = new Uint32Array(count);
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  let n = 0;
  const idStart = new Uint32Array(count);
  const idEnd = new Uint32Array(count);
  let idBytes = 0;
  for (let i = 0; i < count; i++) {
    idStart[i] = idBytes;
    idBytes += (slices.idEnd[i] as number) - (slices.idStart[i] as number);
    idEnd[i] = idBytes;
    if (verdicts[i] !== MAP) continue;
    starts[n] = slices.docStart[i] as number;
    ends[n] = slices.docEnd[i] as number;
    mapped[n++] = i;
  }
  const ids = new Uint8Array(idBytes);
  for (let i = 0, to = 0; i < count; i++) {
    const end = slices.idEnd[i] as number;
    // Byte by byte: for so few, a call costs more.
    for (let at = slices.idStart[i] as number; at < end; at++) ids[to++] = slices.ids[at] as number;
  }
  const lineEnds = new Uint32Array(n);
  return {
    documents: count,
    designs: designsOf(slices),
    ids,
    idStart,
    idEnd,
    hashLow: slices.hashLow.slice(0, count),
    hashHigh: slices.hashHigh.slice(0, count),
    verdicts,
    mapped: mapped.slice(0, n),
    lines:
      preparedLines(task, slices, mapped.subarray(0, n), lineEnds) ??
      mapDocLines(slices.docs, starts, ends, n, lineEnds),
    lineEnds,
  };
}

/** For our own server, whose functions can be read here too: documents cut down to what these can see. */
function preparedLines(
  task: PrepareTask,
  slices: Slices,
  mapped: Uint32Array,
  lineEnds: Uint32Array,
): Uint8Array | undefined {
  if (!task.project) return undefined;
  const members = visibleMembers(task.group.config.maps);
  return members && projectedLines(slices, mapped, members, lineEnds);
}

export function runEncodeTask(task: EncodeTask): GroupSegments {
  const { prepared, replies, ordinalBase } = task;
  const encoder = encoderFor(task.group.config);
  const failures = new Map(task.failures.map((failure) => [failure.index, failure]));
  const viewFailures = new Map<number, ViewFailure[]>();
  for (const { index, failure } of task.viewFailures)
    viewFailures.set(index, [...(viewFailures.get(index) ?? []), failure]);
  const ref = emptyRef();
  for (let i = 0; i < prepared.documents; i++) {
    const verdict = prepared.verdicts[i];
    if (verdict === SKIP || verdict === MAP) continue;
    refTo(ref, prepared, i, ordinalBase);
    if (verdict === DELETED) encoder.addDeleted(ref);
    else if (verdict === UNCHANGED) encoder.addUnchanged(ref);
    else encoder.addRefused(ref);
  }
  const bytes = Buffer.from(replies.buffer, replies.byteOffset, replies.byteLength);
  const replyEncoder = new ReplyEncoder(encoder, task.group.config);
  const { mapped: positions } = prepared;
  let start = 0;
  const addPlain = (from: number, to: number): void => {
    const replied = { documents: prepared, positions, from, to, ordinalBase };
    start = replyEncoder.add(bytes, start, replied);
  };
  let plain = 0;
  for (const [k, i] of positions.entries()) {
    const failure = failures.get(i);
    const thrown = viewFailures.get(i);
    if (failure === undefined && thrown === undefined) continue;
    addPlain(plain, k);
    plain = k + 1;
    refTo(ref, prepared, i, ordinalBase);
    if (failure) encoder.addFailure(ref, failure);
    else start = encoder.addMapped(ref, bytes, start, thrown ?? NO_FAILURES) + 1;
  }
  addPlain(plain, positions.length);
  return encoder.finish(task.group.output, ordinalBase);
}

const scanned = new EntryBatch();

/** Value of a scan entry: version 8 B, line start varint, line length varint. */
export function runScanTask(task: ScanTask): ScanResult {
  const slices = reader.read(task.input);
  if (!("path" in task.input.data)) throw new Error("viewmill bug: only files are scanned");
  const { start, end } = task.input.data;
  scanned.clear();
  for (let i = 0; i < slices.count; i++) {
    const flags = slices.flags[i] as number;
    if (flags & SLICE_DESIGN && !task.includeDesign) continue;
    const idStart = slices.idStart[i] as number;
    const idEnd = slices.idEnd[i] as number;
    scanned.ensure(idEnd - idStart + 32);
    const dst = scanned.bytes;
    let p = scanned.used;
    const keyStart = p;
    for (let k = idStart; k < idEnd; k++) dst[p++] = slices.ids[k] as number;
    const valueStart = p;
    const view = new DataView(dst.buffer, dst.byteOffset);
    view.setUint32(p, slices.hashLow[i] as number, true);
    view.setUint32(p + 4, slices.hashHigh[i] as number, true);
    p += 8;
    const lineStart = start + (slices.lineStart[i] as number);
    const lineEnd = i + 1 < slices.count ? start + (slices.lineStart[i + 1] as number) : end;
    p = writeVarint(dst, p, lineStart);
    p = writeVarint(dst, p, flags & SLICE_DELETED ? 0 : lineEnd - lineStart);
    scanned.used = p;
    scanned.push(keyStart, valueStart, valueStart, p, task.ordinalBase + i);
  }
  if (scanned.length === 0) return { segment: undefined, documents: 0 };
  scanned.sort();
  const run = RunFile.create(task.path);
  try {
    return { segment: appendSegment(run, scanned), documents: slices.count };
  } finally {
    run.close();
  }
}
