// A transport without a process: what the client writes is recorded, what the peer says is said by the test.

import { LineSplitter, ProtocolError, type Transport } from "../../protocol/index.js";

export class MemoryTransport implements Transport {
  /** Command lines the client has written in full, without LF. */
  readonly lines: string[] = [];
  /** Sizes of the client's writes. */
  readonly writes: number[] = [];
  closed = false;
  /** What `write` answers. */
  accepting = true;
  /** Called after each write. */
  written: (() => void) | undefined;
  readonly #splitter = new LineSplitter();
  #drain: () => void = () => undefined;
  #data: (bytes: Uint8Array) => void = () => undefined;
  #close: (reason: ProtocolError) => void = () => undefined;

  write(bytes: Uint8Array): boolean {
    this.writes.push(bytes.length);
    this.#splitter.push(Buffer.from(bytes));
    for (let line = this.#splitter.next(); line; line = this.#splitter.next()) {
      this.lines.push(Buffer.from(line).toString("utf8"));
    }
    this.written?.();
    return this.accepting;
  }

  onDrain(callback: () => void): void {
    this.#drain = callback;
  }

  onData(callback: (bytes: Uint8Array) => void): void {
    this.#data = callback;
  }

  onClose(callback: (reason: ProtocolError) => void): void {
    this.#close = callback;
  }

  close(): void {
    this.closed = true;
  }

  /** The peer prints. */
  say(text: string | Uint8Array): void {
    this.#data(Buffer.from(text as string));
  }

  /** The peer has read everything. */
  drain(): void {
    this.#drain();
  }

  /** The peer is gone. */
  die(message = "the peer ended its output"): void {
    this.#close(new ProtocolError("PROTOCOL_CLOSED", message));
  }
}
