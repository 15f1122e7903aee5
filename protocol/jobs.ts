// What the client is asked for, as it waits for its answers: one command whose reply is parsed, or a batch whose replies are kept
// as raw bytes. A batch costs a few loads per line: nothing is decoded, no object is made, bytes move in runs of many lines.

import { encodeCommand } from "./codec.js";
import {
  type BatchLog,
  type BatchReply,
  ProtocolError,
  type ProtocolErrorDetails,
} from "./errors.js";
import { badLine, looksLikeJson, mayBeSpecial, parseReply } from "./messages.js";
import type { Outgoing } from "./send-window.js";

const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const LOWER_T = 0x74;

/** The command that closes a fenced batch, and the only right answer to it, which is no answer to a map_doc. */
export const FENCE_COMMAND = ["reduce", [], []] as const;
const FENCE_LINE = encodeCommand(FENCE_COMMAND);
const FENCE_REPLY = /^\s*\[\s*true\s*,\s*\[\s*\]\s*\]\s*$/;

export interface JobLimits {
  readonly logBytesMax: number;
  readonly batchBytesMax: number;
  readonly onLog: ((text: string) => void) | undefined;
}

/** Bounds what one command may log. */
export class LogMeter {
  readonly #limits: JobLimits;
  #command = -1;
  #bytes = 0;

  constructor(limits: JobLimits) {
    this.#limits = limits;
  }

  /** @throws ProtocolError PROTOCOL_LOG_FLOOD */
  take(command: number, bytes: number, text: string): void {
    if (command !== this.#command) {
      this.#command = command;
      this.#bytes = 0;
    }
    this.#bytes += bytes;
    if (this.#bytes > this.#limits.logBytesMax) {
      throw new ProtocolError(
        "PROTOCOL_LOG_FLOOD",
        `one command logged more than ${this.#limits.logBytesMax} bytes; log less, or raise logBytesMax`,
      );
    }
    this.#limits.onLog?.(text);
  }
}

/** One command and the promise of its reply. */
export class PromptJob implements Outgoing {
  readonly kind = "prompt";
  readonly ends: Uint32Array;
  released = 0;
  readonly #meter: LogMeter;
  #outcome: { readonly value: unknown } | { readonly error: ProtocolError } | undefined;

  constructor(
    readonly lines: Uint8Array,
    limits: JobLimits,
    readonly resolve: (value: unknown) => void,
    readonly reject: (error: ProtocolError) => void,
  ) {
    this.ends = Uint32Array.of(lines.length);
    this.#meter = new LogMeter(limits);
  }

  get answered(): number {
    return this.#outcome ? 1 : 0;
  }

  /** Takes a line; afterwards `answered` tells whether it was the reply. Throws for a "fatal" one, which ends the client. */
  take(line: Uint8Array): void {
    const reply = parseReply(line);
    if (reply.kind === "log") {
      this.#meter.take(0, line.length, reply.text);
      return;
    }
    if (reply.kind === "value") {
      this.#outcome = { value: reply.value };
      return;
    }
    const error = errorReply(reply.kind === "fatal", reply.id, reply.reason);
    if (reply.kind === "fatal") throw error;
    this.#outcome = { error };
  }

  settle(): void {
    if (this.#outcome === undefined) return;
    if ("error" in this.#outcome) this.reject(this.#outcome.error);
    else this.resolve(this.#outcome.value);
  }

  failureDetails(): ProtocolErrorDetails {
    return { answered: 0, sent: this.released };
  }
}

/** A batch of commands and their raw replies. */
export class BatchJob implements Outgoing {
  readonly kind = "batch";
  released = 0;
  answered = 0;
  /** Sent after the batch to prove that the replies are aligned. */
  readonly fence: Outgoing | undefined;
  fenceAnswered = false;
  readonly #limits: JobLimits;
  readonly #meter: LogMeter;
  readonly #lineStarts: Uint32Array;
  /** Runs of reply lines, views of the chunks they came in. */
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #logs: BatchLog[] = [];
  #logBytes = 0;

  constructor(
    readonly lines: Uint8Array,
    readonly ends: Uint32Array,
    fenced: boolean,
    limits: JobLimits,
    readonly resolve: (reply: BatchReply) => void,
    readonly reject: (error: ProtocolError) => void,
  ) {
    this.#limits = limits;
    this.#meter = new LogMeter(limits);
    this.#lineStarts = new Uint32Array(ends.length + 1);
    if (fenced) {
      this.fence = { lines: FENCE_LINE, ends: Uint32Array.of(FENCE_LINE.length), released: 0 };
    }
  }

  /**
   * Takes lines `index … count` of a block, as far as they answer released commands of this batch, and returns the index of the
   * first line that does not. When it throws, all lines before the offending one are taken.
   */
  take(block: Uint8Array, ends: Uint32Array, index: number, count: number): number {
    const lineStarts = this.#lineStarts;
    const limit = this.released;
    let start = index === 0 ? 0 : (ends[index - 1] as number);
    let runStart = start;
    let base = this.#bytes - runStart;
    let answered = this.answered;
    try {
      while (index < count && answered < limit) {
        const end = ends[index] as number;
        const second = block[start + 1];
        // `[[…` and `[]`: an answer to map_doc as any engine prints it. All else is looked at closely.
        if (
          block[start] !== OPEN_BRACKET ||
          (second !== OPEN_BRACKET && second !== CLOSE_BRACKET) ||
          block[end - 2] !== CLOSE_BRACKET
        ) {
          if (this.#isLog(block.subarray(start, end - 1), answered)) {
            this.#keep(block, runStart, start);
            runStart = end;
            base = this.#bytes - runStart;
            start = end;
            index++;
            continue;
          }
        }
        answered++;
        index++;
        start = end;
        lineStarts[answered] = base + end;
      }
    } finally {
      this.#keep(block, runStart, start);
      this.answered = answered;
    }
    if (this.#bytes + this.#logBytes > this.#limits.batchBytesMax) {
      throw new ProtocolError(
        "PROTOCOL_BATCH_TOO_LARGE",
        `the replies to one batch exceed ${this.#limits.batchBytesMax} bytes; send smaller batches, or raise batchBytesMax`,
      );
    }
    return index;
  }

  /** Takes a line that comes after the last reply of a fenced batch: a log line, or the answer to the fence. */
  takeFence(line: Uint8Array): void {
    if (mayBeSpecial(line, 0, line.length)) {
      const reply = parseReply(line);
      if (reply.kind === "log") {
        this.#meter.take(this.ends.length, line.length, reply.text);
        return;
      }
    }
    if (!isFenceReply(line)) throw misaligned("more replies than it got commands", line);
    this.fenceAnswered = true;
  }

  settle(): void {
    this.resolve(this.reply());
  }

  /** `doubtful`: a line too many or too few came, and nobody knows where. */
  failureDetails(doubtful: boolean): ProtocolErrorDetails {
    const answered = doubtful ? 0 : this.answered;
    return { answered, sent: this.released, partial: this.reply(answered) };
  }

  /** The first `answered` replies, in buffers of their own. */
  reply(answered = this.answered): BatchReply {
    const lineStarts = this.#lineStarts.slice(0, answered + 1);
    const size = lineStarts[answered] as number;
    const replies = Buffer.allocUnsafeSlow(size);
    let position = 0;
    for (const piece of this.#pieces) {
      if (position === size) break;
      const part = piece.subarray(0, size - position);
      replies.set(part, position);
      position += part.length;
    }
    // A log line of the first unanswered command may be what explains its fate.
    return { replies, lineStarts, logs: this.#logs.filter((log) => log.index <= answered) };
  }

  /** Whether an unusual line is a log line, which is then taken. Throws for one that cannot be a reply either. */
  #isLog(line: Uint8Array, answered: number): boolean {
    if (!looksLikeJson(line, 0, line.length)) throw badLine(line);
    if (mayBeSpecial(line, 0, line.length)) {
      const reply = parseReply(line);
      if (reply.kind === "log") {
        this.#meter.take(answered, line.length, reply.text);
        this.#logs.push({ index: answered, text: reply.text });
        this.#logBytes += line.length;
        return true;
      }
      if (reply.kind === "fatal") throw errorReply(true, reply.id, reply.reason);
    } else if (this.fence && line[1] === LOWER_T && isFenceReply(line)) {
      throw misaligned("fewer replies than it got commands", line);
    }
    return false;
  }

  #keep(block: Uint8Array, start: number, end: number): void {
    if (start === end) return;
    this.#pieces.push(block.subarray(start, end));
    this.#bytes += end - start;
  }
}

export type Job = PromptJob | BatchJob;

function isFenceReply(line: Uint8Array): boolean {
  return line.length < 64 && FENCE_REPLY.test(Buffer.from(line).toString("latin1"));
}

function errorReply(fatal: boolean, id: string, reason: unknown): ProtocolError {
  const text = typeof reason === "string" ? reason : JSON.stringify(reason);
  return new ProtocolError("PROTOCOL_ERROR_REPLY", `the view server answered ${id}: ${text}`, {
    id,
    reason,
    fatal,
  });
}

function misaligned(what: string, line: Uint8Array): ProtocolError {
  return new ProtocolError(
    "PROTOCOL_UNEXPECTED_REPLY",
    `the view server sent ${what}; no reply of the batch can be trusted`,
    { line: Buffer.from(line.subarray(0, 200)).toString("utf8") },
  );
}
