// Maps one chunk for one group in a session of this thread, block by block: many replies are encoded at once. Documents that are cut down
// anyway go into the session in batches, which halves what a call costs; the others one by one.

import type { LogLine, Session } from "../../viewserver/index.js";
import type { Slices } from "../sources/index.js";
import { emptyRef, NO_FAILURES, refTo, type ChunkEncoder } from "./chunk-encoder.js";
import { DocumentText } from "./document-text.js";
import type { KnownDocuments } from "./known-filter.js";
import { ReplyEncoder } from "./reply-encoder.js";
import {
  BATCH_DOCUMENTS_MAX,
  DELETED,
  MAP,
  REFUSED,
  SKIP,
  type CarefulNews,
  type DocumentFailure,
  type GroupJob,
  type MapTask,
  type SettledDocuments,
  type ViewFailure,
} from "./types.js";

/** The beat while functions are compiled: what they do then is no document's fault. */
export const COMPILING = -1;

/** Documents whose replies are joined before they are scanned: enough to make the per-call costs vanish. */
const BLOCK_DOCUMENTS = 512;
const BLOCK_BYTES = 1 << 18;

const NONE = new Uint32Array(0);

const NOTHING_SETTLED: SettledDocuments = { answers: new Map(), failures: new Map() };

const BATCH_DOCUMENTS_FIRST = 8;
/** A batch counts as one document for the watchdog, so it must stay far below any time that a document may take. */
const BATCH_MS_MAX = 5;

/** Maps the documents of one chunk into an encoder. */
export class ChunkMapping {
  readonly #task: MapTask;
  readonly #encoder: ChunkEncoder;
  readonly #replyEncoder: ReplyEncoder;
  readonly #session: Session;
  readonly #slices: Slices;
  readonly #text: DocumentText;
  readonly #known: KnownDocuments | undefined;
  readonly #notJson: (i: number) => Error | undefined;
  readonly #beats: Int32Array;
  readonly #ref = emptyRef();
  readonly #replies: string[] = [];
  readonly #positions: number[] = [];
  readonly #logs = new Map<number, readonly LogLine[]>();
  readonly #gathered = new Uint32Array(BLOCK_DOCUMENTS);
  /** Positions of the documents that the text has gathered. */
  readonly #batch: number[] = [];
  readonly #settled: SettledDocuments;
  #batchMax: number;

  /**
   * @param group - the number of the task's group that is mapped.
   * @param known - what the index holds of the documents.
   * @param notJson - the error for a document that is not JSON; undefined when it is.
   */
  constructor(
    task: MapTask,
    group: number,
    encoder: ChunkEncoder,
    session: Session,
    slices: Slices,
    known: KnownDocuments | undefined,
    notJson: (i: number) => Error | undefined,
  ) {
    this.#task = task;
    this.#encoder = encoder;
    this.#replyEncoder = new ReplyEncoder(encoder, (task.groups[group] as GroupJob).config);
    this.#session = session;
    this.#slices = slices;
    this.#known = known;
    this.#text = new DocumentText(slices, session.membersRead);
    this.#notJson = notJson;
    this.#beats = new Int32Array(task.heartbeat);
    this.#settled = task.careful?.settled[group] ?? NOTHING_SETTLED;
    this.#batchMax = task.careful ? 1 : BATCH_DOCUMENTS_FIRST;
    this.#tell({ group });
  }

  /** @throws what `notJson` gives for a document that is not JSON. */
  run(verdicts: Uint8Array): void {
    const slices = this.#slices;
    const { failures } = this.#settled;
    for (let i = 0; i < slices.count;) {
      const blockEnd = this.#blockEnd(i);
      this.#mapBlock(verdicts, i, blockEnd, failures);
      this.#encodeBlock();
      i = blockEnd;
    }
    this.#beats[this.#task.slot] = 0;
  }

  #refAt(i: number): void {
    refTo(this.#ref, this.#slices, i, this.#task.ordinalBase);
    this.#ref.before = this.#known?.entries[i];
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
    const encoder = this.#encoder;
    const text = this.#text;
    const batch = this.#batch;
    const isGathered = (i: number): boolean =>
      verdicts[i] === MAP && (failures.size === 0 || !failures.has(i));
    const gathered =
      this.#batchMax > 1 && text.gathers ? this.#positionsOf(start, end, isGathered) : NONE;
    text.enter(start, end, gathered);
    for (let i = start; i < end; i++) {
      const verdict = verdicts[i];
      if (verdict === SKIP) continue;
      const failure = verdict === MAP && failures.size > 0 ? failures.get(i) : undefined;
      if (verdict !== MAP || failure) {
        this.#refAt(i);
        if (failure) encoder.addFailure(this.#ref, failure);
        else if (verdict === DELETED) encoder.addDeleted(this.#ref);
        else if (verdict === REFUSED) encoder.addRefused(this.#ref);
        else encoder.addUnchanged(this.#ref);
        continue;
      }
      if (this.#batchMax > 1 && text.gathers) {
        if (batch.length > 0 && i - (batch[0] as number) >= BATCH_DOCUMENTS_MAX) this.#mapBatch();
        if (text.gather(i)) {
          batch.push(i);
          if (batch.length >= this.#batchMax) this.#mapBatch();
          continue;
        }
      }
      if (batch.length > 0) this.#mapBatch();
      this.#mapOne(i);
    }
    if (batch.length > 0) this.#mapBatch();
    this.#beats[this.#task.slot] = 0;
  }

  #positionsOf(start: number, end: number, holds: (i: number) => boolean): Uint32Array {
    let n = 0;
    for (let i = start; i < end; i++) if (holds(i)) this.#gathered[n++] = i;
    return this.#gathered.subarray(0, n);
  }

  #mapOne(i: number): void {
    const settled = this.#settled.answers.get(i);
    if (settled !== undefined) {
      this.#replies.push(settled.reply);
      this.#positions.push(i);
      if (settled.logs) this.#logs.set(i, settled.logs);
      return;
    }
    const session = this.#session;
    this.#beats[this.#task.slot] = i + 1;
    const doc = this.#text.get(i);
    let reply: string;
    try {
      reply = session.mapDocument(doc);
    } catch (cause) {
      throw (isViewServerError(cause) ? this.#notJson(i) : undefined) ?? cause;
    }
    this.#replies.push(reply);
    this.#positions.push(i);
    const logs = session.hasLogs ? session.takeLogs(doc) : undefined;
    if (logs) this.#logs.set(i, logs);
    this.#tell({ index: i, answer: { reply, logs } });
  }

  /** What is told stays, whatever becomes of this thread. */
  #tell(news: CarefulNews): void {
    this.#task.careful?.port.postMessage(news);
  }

  #mapBatch(): void {
    const session = this.#session;
    const batch = this.#batch;
    this.#beats[this.#task.slot] = (batch[0] as number) + 1;
    const began = performance.now();
    const replies = session.mapDocuments(this.#text.takeList());
    const ms = performance.now() - began;
    if (ms > BATCH_MS_MAX) this.#batchMax >>>= 1;
    else if (this.#batchMax < BATCH_DOCUMENTS_MAX) this.#batchMax <<= 1;
    let done = 0;
    if (replies !== undefined) {
      done = batch.length;
      this.#replies.push(replies);
      if (session.hasLogs) {
        done = linesIn(replies);
        const last = batch[done - 1] as number;
        this.#logs.set(last, session.takeLogs(this.#text.get(last)));
        // Functions that log do so often.
        this.#batchMax = 1;
      }
      for (let k = 0; k < done; k++) this.#positions.push(batch[k] as number);
    } else if (session.hasLogs) session.takeLogs();
    for (; done < batch.length; done++) this.#mapOne(batch[done] as number);
    batch.length = 0;
  }

  #encodeBlock(): void {
    if (this.#replies.length === 0) return;
    const positions = this.#positions;
    const joined = this.#replyEncoder.load(this.#replies.join("\n"));
    if (this.#logs.size === 0 && !this.#encoder.compares) {
      const { ordinalBase } = this.#task;
      const to = positions.length;
      const replied = { documents: this.#slices, positions, from: 0, to, ordinalBase };
      this.#replyEncoder.add(joined, 0, replied);
    } else {
      let start = 0;
      for (const i of positions) {
        this.#refAt(i);
        const logs = this.#logs.get(i);
        const failures = logs === undefined ? NO_FAILURES : this.#takeLogs(logs);
        start = this.#encoder.addMapped(this.#ref, joined, start, failures) + 1;
      }
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
      else this.#encoder.addLog(this.#ref, log.text);
    }
    return failures;
  }
}

function isViewServerError(error: unknown): boolean {
  return (error as { code?: unknown }).code === "VIEWSERVER_NOT_JSON";
}

function linesIn(replies: string): number {
  let lines = 1;
  for (let at = replies.indexOf("\n"); at >= 0; at = replies.indexOf("\n", at + 1)) lines++;
  return lines;
}
