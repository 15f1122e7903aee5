// The host's end of the protocol, pipelined (PROTOCOL.md, "The client"): commands go out through a window, replies are matched by
// order alone, log lines belong to the oldest unanswered command, and one deadline watches the peer. Reading and writing never
// wait for each other, so a peer that stops reading until its own output is read cannot deadlock with it.

import type {
  BatchOptions,
  ProtocolClientOptions,
  ProtocolClientState,
  ProtocolClientStats,
} from "./client-options.js";
import { encodeCommand } from "./codec.js";
import { Deadline } from "./deadline.js";
import { type BatchReply, failureFor, ProtocolError } from "./errors.js";
import { limitOption, lineEnds, LineSplitter } from "./framing.js";
import { BatchJob, FENCE_COMMAND, type Job, type JobLimits, LogMeter, PromptJob } from "./jobs.js";
import { parseReply } from "./messages.js";
import { endOf, type Outgoing, SendWindow } from "./send-window.js";
import type { Transport } from "./transport.js";

/** Lines taken from the splitter at a time. */
const BLOCK_LINES = 4096;
/** Characters of the oldest unanswered command that an error shows. */
const COMMAND_CHARACTERS = 200;

/**
 * A pipelined client of one view server.
 *
 * Calls may overlap; their commands go out in the order of the calls. After any failure but an ordinary error reply the client
 * is broken: pending calls are rejected, the transport is closed, and a fresh server is needed. Of the pending calls the first
 * one carries the failure's own code; later ones were not its cause and are rejected with PROTOCOL_CLOSED.
 *
 * @example
 * ```ts
 * const client = new ProtocolClient(streamTransport(child.stdout, child.stdin));
 * await client.prompt(["reset"]);
 * await client.prompt(["add_fun", "function (doc) { emit(doc._id) }"]);
 * const rows = await client.prompt(["map_doc", { _id: "a" }]); // [[["a", null]]]
 * ```
 */
export class ProtocolClient {
  readonly #transport: Transport;
  readonly #limits: JobLimits;
  readonly #splitter: LineSplitter;
  readonly #window: SendWindow;
  readonly #deadline: Deadline;
  readonly #timeoutMs: number;
  readonly #onBroken: ((reason: ProtocolError) => void) | undefined;
  /** For log lines that belong to no command. */
  readonly #idleMeter: LogMeter;
  readonly #ends = new Uint32Array(BLOCK_LINES);
  /** Unanswered, oldest first, from `#head` on. */
  #jobs: Job[] = [];
  #head = 0;
  /** Answered by the chunk at hand, but not settled: a line too many in the same chunk puts them in doubt. */
  #answered: Job[] = [];
  #state: ProtocolClientState = "open";
  #commands = 0;
  #bytesIn = 0;

  /** @throws RangeError for an option that is not a positive integer or Infinity. */
  constructor(transport: Transport, options: ProtocolClientOptions = {}) {
    const windowCommands = limitOption("windowCommands", options.windowCommands, 1000);
    const windowBytes = limitOption("windowBytes", options.windowBytes, 1 << 20);
    this.#timeoutMs = limitOption("timeoutMs", options.timeoutMs, 5000);
    const batchBytesMax = limitOption("batchBytesMax", options.batchBytesMax, 1 << 30);
    this.#limits = {
      logBytesMax: limitOption("logBytesMax", options.logBytesMax, 16 << 20),
      // Offsets of replies are 32-bit.
      batchBytesMax: Math.min(batchBytesMax, 2 ** 32 - 1),
      onLog: options.onLog,
    };
    this.#idleMeter = new LogMeter({ ...this.#limits, logBytesMax: Infinity });
    this.#splitter = new LineSplitter(
      options.lineBytesMax === undefined ? {} : { lineBytesMax: options.lineBytesMax },
    );
    this.#onBroken = options.onBroken;
    this.#transport = transport;
    this.#window = new SendWindow(transport, windowBytes, windowCommands);
    this.#deadline = new Deadline(this.#timeoutMs, () => {
      this.#fail(
        new ProtocolError(
          "PROTOCOL_TIMEOUT",
          `the view server was silent for ${this.#timeoutMs} ms; kill it, and raise timeoutMs if its functions need longer`,
        ),
      );
    });
    transport.onDrain(() => {
      this.#deadline.touch();
      this.#window.drained();
      this.#pump();
    });
    transport.onData((bytes) => {
      this.#receive(bytes);
    });
    transport.onClose((reason) => {
      const half = this.#splitter.unfinishedBytes;
      this.#fail(
        half === 0
          ? reason
          : new ProtocolError(
              "PROTOCOL_CLOSED",
              `${reason.message}, ${half} bytes into an unfinished line`,
              {},
              { cause: reason },
            ),
      );
    });
  }

  get state(): ProtocolClientState {
    return this.#state;
  }

  get stats(): ProtocolClientStats {
    return {
      commands: this.#commands,
      bytesIn: this.#bytesIn,
      bytesOut: this.#window.bytesOut,
    };
  }

  /**
   * Sends one command and resolves with its reply, parsed.
   *
   * Rejects with ProtocolError PROTOCOL_ERROR_REPLY {id, reason} for `["error",id,reason]`, after which the client goes on, and
   * for `["fatal",id,reason]` {fatal: true}, after which it is broken; with another ProtocolError when the client breaks; with a
   * TypeError for a command that is not an array beginning with its name.
   */
  prompt(command: readonly unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const lines = encodeCommand(command);
      this.#requireOpen();
      this.#send(new PromptJob(lines, this.#limits, resolve, reject));
    });
  }

  /**
   * Sends `count` complete command lines, each with its LF, and resolves with the raw reply lines in the same order. Error
   * lines are replies like any other here. `lines` must not be changed or transferred before the promise is settled.
   *
   * Rejects with a ProtocolError that tells what can be kept: `answered` commands have the replies in `partial`, the peer may
   * have seen the first `sent`, and the first unanswered one is to blame, if any. With PROTOCOL_UNEXPECTED_REPLY `answered` is 0
   * and the culprit unknown, because every reply may be another command's: only a fenced batch of one command finds it. A
   * "fatal" reply is not in `partial`: its command is the one to blame. Rejects with a TypeError if `lines` is not exactly `count` non-empty lines.
   */
  batch(lines: Uint8Array, count: number, options: BatchOptions = {}): Promise<BatchReply> {
    return new Promise((resolve, reject) => {
      const ends = options.lineEnds ?? lineEnds(lines, count);
      this.#requireOpen();
      const job = new BatchJob(lines, ends, options.fence ?? false, this.#limits, resolve, reject);
      if (count === 0) job.settle();
      else this.#send(job);
    });
  }

  /**
   * Whether the peer answers the command that closes a fenced batch as every couchjs does. To be asked once after `reset` of a
   * program that is not known: one that takes the command amiss may exit, or never answer, which breaks the client.
   */
  async probeFence(): Promise<boolean> {
    try {
      const reply = await this.prompt(FENCE_COMMAND);
      return JSON.stringify(reply) === "[true,[]]";
    } catch (error) {
      if (error instanceof ProtocolError && error.code === "PROTOCOL_ERROR_REPLY") return false;
      throw error;
    }
  }

  /** Rejects what is pending with PROTOCOL_CLOSED and ends the peer's input. Idempotent. */
  close(): void {
    if (this.#state !== "open") return;
    this.#end("closed", new ProtocolError("PROTOCOL_CLOSED", "the client was closed"));
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #requireOpen(): void {
    if (this.#state === "open") return;
    throw new ProtocolError(
      "PROTOCOL_CLOSED",
      this.#state === "closed"
        ? "the client was closed"
        : "the client broke earlier; start a fresh view server",
      { answered: 0, sent: 0 },
    );
  }

  #send(job: Job): void {
    this.#jobs.push(job);
    this.#window.add(job);
    if (job.kind === "batch" && job.fence) this.#window.add(job.fence);
    this.#pump();
  }

  #pump(): void {
    if (this.#state !== "open") return;
    this.#window.pump();
    this.#deadline.running = this.#window.commands > 0;
  }

  #receive(bytes: Uint8Array): void {
    if (this.#state !== "open") return;
    this.#bytesIn += bytes.length;
    this.#deadline.touch();
    try {
      this.#splitter.push(bytes);
      for (;;) {
        const block = this.#splitter.nextBlock(this.#ends);
        if (block === undefined) break;
        this.#takeBlock(block, this.#splitter.blockLines);
      }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#fail(error);
      return;
    }
    this.#settleAnswered();
    this.#pump();
  }

  #takeBlock(block: Uint8Array, count: number): void {
    let index = 0;
    while (index < count) {
      // A log callback may have closed the client.
      if (this.#state !== "open") return;
      const job = this.#jobs[this.#head];
      if (job?.kind === "batch" && job.answered < job.released) {
        index = this.#takeForBatch(job, block, index, count);
        continue;
      }
      const start = index === 0 ? 0 : (this.#ends[index - 1] as number);
      const line = block.subarray(start, (this.#ends[index] as number) - 1);
      index++;
      if (job?.kind === "prompt" && job.released === 1) this.#takeForPrompt(job, line);
      else if (job?.kind === "batch" && job.fence?.released === 1)
        this.#takeFence(job, job.fence, line);
      else this.#takeIdle(line);
    }
  }

  #takeForBatch(job: BatchJob, block: Uint8Array, index: number, count: number): number {
    const before = job.answered;
    let next: number;
    try {
      next = job.take(block, this.#ends, index, count);
    } finally {
      this.#commands += job.answered - before;
      this.#window.answered(job, before, job.answered);
    }
    if (job.answered === job.ends.length && job.fence === undefined) this.#shift(job);
    return next;
  }

  #takeForPrompt(job: PromptJob, line: Uint8Array): void {
    job.take(line);
    if (job.answered === 0) return;
    this.#commands++;
    this.#window.answered(job, 0, 1);
    this.#shift(job);
  }

  #takeFence(job: BatchJob, fence: Outgoing, line: Uint8Array): void {
    job.takeFence(line);
    if (!job.fenceAnswered) return;
    this.#window.answered(fence, 0, 1);
    this.#shift(job);
  }

  /** A line while nothing is unanswered: only a log line may come. */
  #takeIdle(line: Uint8Array): void {
    const reply = parseReply(line);
    if (reply.kind === "log") {
      this.#idleMeter.take(0, line.length, reply.text);
      return;
    }
    throw new ProtocolError(
      "PROTOCOL_UNEXPECTED_REPLY",
      "the view server sent a reply that no command asked for; its replies cannot be trusted any more",
      { line: Buffer.from(line.subarray(0, COMMAND_CHARACTERS)).toString("utf8") },
    );
  }

  #shift(job: Job): void {
    this.#answered.push(job);
    this.#head++;
    if (this.#head === this.#jobs.length) {
      this.#jobs = [];
      this.#head = 0;
    } else if (this.#head >= 1024) {
      this.#jobs = this.#jobs.slice(this.#head);
      this.#head = 0;
    }
  }

  #settleAnswered(): void {
    if (this.#answered.length === 0) return;
    const answered = this.#answered;
    this.#answered = [];
    for (const job of answered) job.settle();
  }

  #fail(reason: ProtocolError): void {
    if (this.#state !== "open") return;
    this.#end("broken", reason);
    this.#onBroken?.(reason);
  }

  /** The one place where a client ends: everything pending is settled here. */
  #end(state: "closed" | "broken", reason: ProtocolError): void {
    this.#state = state;
    this.#deadline.stop();
    const doubtful = reason.code === "PROTOCOL_UNEXPECTED_REPLY";
    if (!doubtful) this.#settleAnswered();
    const pending = [...this.#answered, ...this.#jobs.slice(this.#head)];
    this.#answered = [];
    this.#jobs = [];
    this.#head = 0;
    this.#transport.close();
    let error = reason;
    for (const job of pending) {
      const command = error === reason && !doubtful ? oldestUnanswered(job) : {};
      job.reject(failureFor(error, { ...job.failureDetails(doubtful), ...command }));
      error = new ProtocolError(
        "PROTOCOL_CLOSED",
        `the connection broke at an earlier command: ${reason.message}`,
        {},
        { cause: reason },
      );
    }
  }
}

function oldestUnanswered(job: Job): { command?: string } {
  if (job.answered >= job.released) return {};
  const start = endOf(job, job.answered);
  const end = Math.min(endOf(job, job.answered + 1) - 1, start + 4 * COMMAND_CHARACTERS);
  const text = Buffer.from(job.lines.subarray(start, end)).toString("utf8");
  return { command: text.slice(0, COMMAND_CHARACTERS) };
}
