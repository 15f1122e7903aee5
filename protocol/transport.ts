// The seam between the client and whatever carries its bytes. A transport is one ordered stream each way; it never parses, and
// it goes on reading whatever happens on the writing side, because a peer may refuse to read until its own output is read.

import type { Readable, Writable } from "node:stream";
import { ProtocolError } from "./errors.js";

/**
 * How long after a failed write the other direction is still read, in milliseconds without data. What the peer said before it
 * died is often still in the pipe; without a limit, a peer that closed its input only would never be given up.
 */
const READ_AFTER_WRITE_FAILURE_MS = 1000;

/** One ordered stream of bytes each way. Each callback is set once, before the first write. */
export interface Transport {
  /**
   * Queues bytes; never blocks, never throws. False asks the caller to wait for `onDrain` when it can; bytes are queued either
   * way. The bytes must not change until they are drained.
   */
  write(bytes: Uint8Array): boolean;
  /** Called each time everything queued has been passed on after a `write` answered false. */
  onDrain(callback: () => void): void;
  /** Called with each piece of the peer's output, which the callback may keep. */
  onData(callback: (bytes: Uint8Array) => void): void;
  /** Called once, after all data, when the peer is gone; code PROTOCOL_CLOSED. Not called after `close`. */
  onClose(callback: (reason: ProtocolError) => void): void;
  /** Ends the peer's input and stops calling back; what the peer still says is read and dropped. Idempotent. */
  close(): void;
}

/**
 * A transport over any pair of Node streams: a child's stdout and stdin, the two sides of a socket, a PassThrough.
 *
 * Every way for the peer to disappear ends in one `onClose`. A failed write alone does not: the readable side is read to its end
 * first (or until it is silent for a second), so that answers given before the death are kept.
 *
 * @throws TypeError if the readable stream yields strings or objects.
 */
export function streamTransport(readable: Readable, writable: Writable): Transport {
  return new StreamTransport(readable, writable);
}

class StreamTransport implements Transport {
  readonly #readable: Readable;
  readonly #writable: Writable;
  #drained: (() => void) | undefined;
  #data: ((bytes: Uint8Array) => void) | undefined;
  #closed: ((reason: ProtocolError) => void) | undefined;
  #done = false;
  #writeFailure: Error | undefined;
  #grace: NodeJS.Timeout | undefined;

  constructor(readable: Readable, writable: Writable) {
    if (readable.readableObjectMode || readable.readableEncoding !== null) {
      throw new TypeError("the readable stream must yield bytes; do not set an encoding on it");
    }
    this.#readable = readable;
    this.#writable = writable;
    writable.on("drain", () => {
      if (!this.#done) this.#drained?.();
    });
    // The listeners stay for good: an error without a listener would end the process.
    writable.on("error", (error: Error) => {
      this.#failWrite(error);
    });
    writable.on("close", () => {
      if (!writable.writableFinished) this.#failWrite(new Error("its input was closed"));
    });
    readable.on("error", (error: Error) => {
      this.#fail(`reading from the peer failed: ${error.message}`, error);
    });
    readable.on("end", () => {
      this.#fail("the peer ended its output", this.#writeFailure);
    });
    readable.on("close", () => {
      this.#fail("the peer's output was closed", this.#writeFailure);
    });
  }

  write(bytes: Uint8Array): boolean {
    if (this.#done || this.#writeFailure) return true;
    return this.#writable.write(bytes);
  }

  onDrain(callback: () => void): void {
    this.#drained = callback;
  }

  onData(callback: (bytes: Uint8Array) => void): void {
    this.#data = callback;
    this.#readable.on("data", (bytes: Uint8Array) => {
      if (this.#done) return;
      this.#grace?.refresh();
      this.#data?.(bytes);
    });
  }

  onClose(callback: (reason: ProtocolError) => void): void {
    this.#closed = callback;
    if (this.#readable.readableEnded || this.#readable.destroyed) {
      process.nextTick(() => {
        this.#fail("the peer's output was closed", this.#writeFailure);
      });
    }
  }

  close(): void {
    if (this.#done) return;
    this.#finish();
    // The peer sees the end of its input; reading goes on, so that it is not stuck in a write and can exit.
    if (!this.#writable.destroyed) this.#writable.end();
    this.#readable.resume();
  }

  #failWrite(error: Error): void {
    if (this.#done || this.#writeFailure) return;
    this.#writeFailure = error;
    this.#grace = setTimeout(() => {
      this.#fail(`writing to the peer failed: ${error.message}`, error);
    }, READ_AFTER_WRITE_FAILURE_MS);
  }

  #fail(message: string, cause: Error | undefined): void {
    if (this.#done) return;
    this.#finish();
    this.#closed?.(
      new ProtocolError("PROTOCOL_CLOSED", message, {}, cause === undefined ? {} : { cause }),
    );
  }

  #finish(): void {
    this.#done = true;
    clearTimeout(this.#grace);
  }
}
