// The tasks of a mapping thread that look at documents: slice a chunk, decide which documents to map, map them here or make the
// lines for a view server elsewhere, encode and sort what comes back.

import { appendSegment, EntryBatch, RunFile } from "../../btree/index.js";
import { mapDocLines } from "../../protocol/index.js";
import { visibleMembers, type LogLine, type Session } from "../../viewserver/index.js";
import { IndexerError } from "../errors.js";
import { SLICE_DELETED, SLICE_DESIGN, type Slices } from "../sources/index.js";
import { refusedId } from "../views/partitions.js";
import { writeVarint } from "../views/row-value.js";
import { ChunkEncoder, type DocumentRef } from "./chunk-encoder.js";
import { DocumentText, projectedLines } from "./document-text.js";
import { knownDocuments, type KnownDocuments } from "./known-filter.js";
import { LineReader } from "./line-input.js";
import { mapSession } from "./session-cache.js";
import {
  DELETED,
  MAP,
  REFUSED,
  SKIP,
  UNCHANGED,
  type DocumentFailure,
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

/** Documents whose replies are joined before they are scanned: enough to make the per-call costs vanish. */
const BLOCK_DOCUMENTS = 512;
const BLOCK_BYTES = 1 << 18;

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

function emptyRef(): DocumentRef {
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

export async function runMapTask(task: MapTask): Promise<MapResult> {
  const groups: GroupSegments[] = [];
  // Waiting happens before slicing the same buffers again, so groups go one after the other over one reading.
  const slices = reader.read(task.input);
  for (const job of task.groups) {
    const beats = new Int32Array(task.heartbeat);
    beats[task.slot] = COMPILING;
    const session = mapSession(job.config, task.mapLimits);
    beats[task.slot] = 0;
    const known = job.known && (await knownDocuments(job.known.path, slices));
    try {
      const verdicts = judge(slices, job, task.select, known);
      const mapping = new ChunkMapping(task, job, session, slices, known);
      mapping.run(verdicts);
      groups.push(mapping.encoder.finish(job.output, task.ordinalBase));
    } finally {
      known?.release();
    }
  }
  return { groups, documents: slices.count, designs: designsOf(slices) };
}

/** Maps one chunk for one group, block by block. */
class ChunkMapping {
  readonly encoder: ChunkEncoder;
  readonly #task: MapTask;
  readonly #session: Session;
  readonly #slices: Slices;
  readonly #text: DocumentText;
  readonly #beats: Int32Array;
  readonly #known: KnownDocuments | undefined;
  readonly #ref = emptyRef();
  readonly #replies: string[] = [];
  readonly #positions: number[] = [];
  readonly #logs = new Map<number, readonly LogLine[]>();

  constructor(
    task: MapTask,
    job: GroupJob,
    session: Session,
    slices: Slices,
    known: KnownDocuments | undefined,
  ) {
    this.#task = task;
    this.#session = session;
    this.#slices = slices;
    this.#text = new DocumentText(slices, session.membersRead);
    this.#beats = new Int32Array(task.heartbeat);
    this.encoder = encoderFor(job.config);
    this.#known = known;
    if (known) this.encoder.compareWith(known, job.known?.rows ?? false);
  }

  run(verdicts: Uint8Array): void {
    const slices = this.#slices;
    const failures = new Map(this.#task.failures.map((failure) => [failure.index, failure]));
    for (let i = 0; i < slices.count;) {
      const blockEnd = this.#blockEnd(i);
      this.#mapBlock(verdicts, i, blockEnd, failures);
      this.#encodeBlock();
      i = blockEnd;
    }
    this.#beats[this.#task.slot] = 0;
  }

  #refAt(i: number): void {
    const ref = this.#ref;
    const slices = this.#slices;
    ref.ids = slices.ids;
    ref.idStart = slices.idStart[i] as number;
    ref.idEnd = slices.idEnd[i] as number;
    ref.versionLow = slices.hashLow[i] as number;
    ref.versionHigh = slices.hashHigh[i] as number;
    ref.ordinal = this.#task.ordinalBase + i;
    ref.before = this.#known?.entries[i];
  }

  #blockEnd(start: number): number {
    const slices = this.#slices;
    const from = slices.docStart[start] as number;
    let end = start + 1;
    while (
      end < slices.count &&
      end - start < BLOCK_DOCUMENTS &&
      (slices.docEnd[end] as number) - from < BLOCK_BYTES
    )
      end++;
    return end;
  }

  #mapBlock(
    verdicts: Uint8Array,
    start: number,
    end: number,
    failures: ReadonlyMap<number, DocumentFailure>,
  ): void {
    const slices = this.#slices;
    const session = this.#session;
    const beats = this.#beats;
    const slot = this.#task.slot;
    const text = this.#text;
    text.enter(start, end);
    for (let i = start; i < end; i++) {
      const verdict = verdicts[i];
      if (verdict === SKIP) continue;
      const failure = verdict === MAP && failures.size > 0 ? failures.get(i) : undefined;
      if (verdict !== MAP || failure) {
        this.#refAt(i);
        if (failure) this.encoder.addFailure(this.#ref, failure);
        else if (verdict === DELETED) this.encoder.addDeleted(this.#ref);
        else if (verdict === REFUSED) this.encoder.addRefused(this.#ref);
        else this.encoder.addUnchanged(this.#ref);
        continue;
      }
      beats[slot] = i + 1;
      const doc = text.get(i);
      try {
        this.#replies.push(session.mapDocument(doc));
      } catch (cause) {
        throw (
          (isViewServerError(cause) ? notJson(this.#task.input, slices, i) : undefined) ?? cause
        );
      }
      this.#positions.push(i);
      if (session.hasLogs) this.#logs.set(i, session.takeLogs(doc));
    }
    beats[slot] = 0;
  }

  #encodeBlock(): void {
    if (this.#replies.length === 0) return;
    const joined = Buffer.from(this.#replies.join("\n"));
    let start = 0;
    for (const i of this.#positions) {
      let end = joined.indexOf(0x0a, start);
      if (end < 0) end = joined.length;
      const ref = this.#ref;
      this.#refAt(i);
      const logs = this.#logs.get(i);
      const failures = logs === undefined ? NO_FAILURES : this.#takeLogs(logs);
      this.encoder.addMapped(ref, joined, start, end, failures);
      start = end + 1;
    }
    this.#replies.length = 0;
    this.#positions.length = 0;
    this.#logs.clear();
  }

  #takeLogs(logs: readonly LogLine[]): readonly ViewFailure[] {
    const failures: ViewFailure[] = [];
    for (const log of logs) {
      if (log.kind === "exception")
        failures.push({
          tree: log.fn,
          kind: "exception",
          error: log.name,
          reason: log.message,
          stack: log.stack,
        });
      else this.encoder.addLog(this.#ref, log.text);
    }
    return failures;
  }
}

/** The beat while functions are compiled: what they do then is no document's fault. */
export const COMPILING = -1;

const NO_FAILURES: readonly ViewFailure[] = [];

function isViewServerError(error: unknown): boolean {
  return (error as { code?: unknown }).code === "VIEWSERVER_NOT_JSON";
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
  const idStarts = new Uint32Array(count + 1);
  let idBytes = 0;
  for (let i = 0; i < count; i++) {
    idStarts[i] = idBytes;
    idBytes += (slices.idEnd[i] as number) - (slices.idStart[i] as number);
    if (verdicts[i] !== MAP) continue;
    starts[n] = slices.docStart[i] as number;
    ends[n] = slices.docEnd[i] as number;
    mapped[n++] = i;
  }
  idStarts[count] = idBytes;
  const ids = new Uint8Array(idBytes);
  const versions = new Uint8Array(count * 8);
  const view = new DataView(versions.buffer);
  for (let i = 0, to = 0; i < count; i++) {
    const end = slices.idEnd[i] as number;
    // Byte by byte: for so few, a call costs more.
    for (let at = slices.idStart[i] as number; at < end; at++) ids[to++] = slices.ids[at] as number;
    view.setUint32(i * 8, slices.hashLow[i] as number, true);
    view.setUint32(i * 8 + 4, slices.hashHigh[i] as number, true);
  }
  const lineEnds = new Uint32Array(n);
  return {
    documents: count,
    designs: designsOf(slices),
    ids,
    idStarts,
    versions,
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
  const versions = new DataView(prepared.versions.buffer, prepared.versions.byteOffset);
  const bytes = Buffer.from(replies.buffer, replies.byteOffset, replies.byteLength);
  const ref = emptyRef();
  let start = 0;
  for (let i = 0; i < prepared.documents; i++) {
    const verdict = prepared.verdicts[i];
    if (verdict === SKIP) continue;
    ref.ids = prepared.ids;
    ref.idStart = prepared.idStarts[i] as number;
    ref.idEnd = prepared.idStarts[i + 1] as number;
    ref.versionLow = versions.getUint32(i * 8, true);
    ref.versionHigh = versions.getUint32(i * 8 + 4, true);
    ref.ordinal = ordinalBase + i;
    if (verdict === DELETED) encoder.addDeleted(ref);
    else if (verdict === UNCHANGED) encoder.addUnchanged(ref);
    else if (verdict === REFUSED) encoder.addRefused(ref);
    else {
      const failure = failures.get(i);
      if (failure) {
        encoder.addFailure(ref, failure);
        continue;
      }
      const end = bytes.indexOf(0x0a, start);
      if (end < 0)
        throw new IndexerError(
          "INDEXER_SERVER_PROTOCOL",
          "the view server gave fewer replies than commands",
        );
      encoder.addMapped(ref, bytes, start, end, viewFailures.get(i) ?? NO_FAILURES);
      start = end + 1;
    }
  }
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
