// What can be set on a client and read from it. All options have defaults that suit a view server on this machine.

import type { ProtocolError } from "./errors.js";

export interface ProtocolClientOptions {
  /**
   * Unanswered bytes, LFs included. A larger command travels alone.
   * @defaultValue 1 MiB
   */
  readonly windowBytes?: number;
  /**
   * Unanswered commands; 1 is strict half-duplex.
   * @defaultValue 1000
   */
  readonly windowCommands?: number;
  /**
   * Milliseconds without a byte from or to the peer while a command is unanswered; Infinity for none.
   * @defaultValue 5000
   */
  readonly timeoutMs?: number;
  /**
   * Longest line accepted from the peer, in bytes.
   * @defaultValue LINE_BYTES_MAX (512 MiB)
   */
  readonly lineBytesMax?: number;
  /**
   * Bytes of log lines accepted for one command. Log lines count as a sign of life, so this is what ends an endless chatty one.
   * @defaultValue 16 MiB
   */
  readonly logBytesMax?: number;
  /**
   * Bytes of replies and log lines accepted for one batch; at most 4 GiB - 1.
   * @defaultValue 1 GiB
   */
  readonly batchBytesMax?: number;
  /** Called with the text of each log line, also between commands. Must not throw. */
  readonly onLog?: (text: string) => void;
  /** Called once when the client breaks, after all pending calls were rejected; not after `close`. Must not throw. */
  readonly onBroken?: (reason: ProtocolError) => void;
}

export interface BatchOptions {
  /**
   * Ends the batch with the command `["reduce",[],[]]`, whose answer `[true,[]]` no map_doc gives: a server that printed a line
   * too many or too few is found out before the batch resolves, rather than every later row being filed under the wrong
   * document. Costs one command a batch; the peer must know `reduce`: see `probeFence`.
   * @defaultValue false
   */
  readonly fence?: boolean;
  /**
   * The offset after the LF of each line, when it is known: then the lines are not looked at. Must be right.
   * @defaultValue found by looking for the LFs
   */
  readonly lineEnds?: Uint32Array;
}

/** open: takes commands; closed: `close` was called; broken: the peer is gone or cannot be trusted any more. */
export type ProtocolClientState = "open" | "closed" | "broken";

/** Counters since the client was made. */
export interface ProtocolClientStats {
  /** Commands answered. */
  readonly commands: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}
