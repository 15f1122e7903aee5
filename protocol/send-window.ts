// The sending half of the client: which commands may be with the peer, and how their bytes reach the transport.
//
// 1. A command is *released* when it enters the window, and leaves the window when it is answered. The window is bounded in
//    commands and in bytes; a command larger than the window travels alone.
// 2. The window is refilled when half of it is free, so that bytes go out in large pieces and not a line at a time.
// 3. Released bytes go to the transport at once, unless more than a window of bytes waits there already: that happens only
//    for huge commands, which are cut into pieces. Answers are read meanwhile; nothing here waits for them or they for it.

import type { Transport } from "./transport.js";

/** Largest piece handed to the transport; each piece that is drained counts as a sign of life. */
const PIECE_BYTES_MAX = 1 << 20;

/** Command lines on their way out. */
export interface Outgoing {
  readonly lines: Uint8Array;
  /** Offset after the LF of each command. */
  readonly ends: Uint32Array;
  /** How many commands have entered the window. */
  released: number;
}

export class SendWindow {
  readonly #transport: Transport;
  readonly #bytesMax: number;
  readonly #commandsMax: number;
  /** Not yet written in full, oldest first. */
  #queue: Outgoing[] = [];
  #commands = 0;
  #bytes = 0;
  /** Bytes of the first of the queue that were written. */
  #written = 0;
  /** Bytes written since the transport was last known to be empty. */
  #undrained = 0;
  #pumping = false;
  #pumpAgain = false;
  bytesOut = 0;

  constructor(transport: Transport, bytesMax: number, commandsMax: number) {
    this.#transport = transport;
    this.#bytesMax = bytesMax;
    this.#commandsMax = commandsMax;
  }

  /** Released and unanswered commands. */
  get commands(): number {
    return this.#commands;
  }

  add(outgoing: Outgoing): void {
    this.#queue.push(outgoing);
  }

  /** Commands `from … to` of `outgoing` were answered. */
  answered(outgoing: Outgoing, from: number, to: number): void {
    this.#commands -= to - from;
    this.#bytes -= endOf(outgoing, to) - endOf(outgoing, from);
  }

  drained(): void {
    this.#undrained = 0;
  }

  /** Releases and writes what the window allows. */
  pump(): void {
    // A transport in memory may deliver the answer inside `write`, which ends here again.
    this.#pumpAgain = true;
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (this.#pumpAgain) {
        this.#pumpAgain = false;
        this.#pumpOnce();
      }
    } finally {
      this.#pumping = false;
    }
  }

  #pumpOnce(): void {
    const refill = 2 * this.#commands <= this.#commandsMax && 2 * this.#bytes <= this.#bytesMax;
    let outgoing = this.#queue[0];
    while (outgoing) {
      if (refill) this.#release(outgoing);
      if (!this.#write(outgoing)) return;
      this.#queue.shift();
      this.#written = 0;
      outgoing = this.#queue[0];
    }
  }

  #release(outgoing: Outgoing): void {
    const { ends } = outgoing;
    const before = outgoing.released;
    const start = endOf(outgoing, before);
    const room = this.#bytesMax - this.#bytes;
    const last = Math.min(ends.length, before + this.#commandsMax - this.#commands);
    let released = before;
    while (released < last && (ends[released] as number) - start <= room) released++;
    // Nothing is on its way, and the next command alone exceeds the window: it goes alone.
    if (released === before && this.#commands === 0 && before < ends.length) released++;
    outgoing.released = released;
    this.#commands += released - before;
    this.#bytes += endOf(outgoing, released) - start;
  }

  /** Whether all of it was written. */
  #write(outgoing: Outgoing): boolean {
    const end = endOf(outgoing, outgoing.released);
    while (this.#written < end) {
      if (this.#undrained >= this.#bytesMax) return false;
      const pieceEnd = Math.min(end, this.#written + PIECE_BYTES_MAX);
      const piece = outgoing.lines.subarray(this.#written, pieceEnd);
      this.#written = pieceEnd;
      this.bytesOut += piece.length;
      this.#undrained = this.#transport.write(piece) ? 0 : this.#undrained + piece.length;
    }
    return end === outgoing.lines.length;
  }
}

/** The offset after the first `count` commands. */
export function endOf(outgoing: Outgoing, count: number): number {
  return count === 0 ? 0 : (outgoing.ends[count - 1] as number);
}
