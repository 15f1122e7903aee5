// Where encoders write: a buffer that grows. EntryBatch of the run files has the same shape, so keys go straight into it.

/**
 * Bytes `[0, used)` are written. After `ensure(n)` at least `n` more can be written at `bytes[used…]`; `ensure` may replace
 * `bytes`. The writer then advances `used`.
 */
export interface ByteSink {
  bytes: Uint8Array;
  used: number;
  ensure(n: number): void;
}

/** A plain growing buffer. */
export class ByteBuffer implements ByteSink {
  bytes: Uint8Array;
  used = 0;

  constructor(capacity = 256) {
    this.bytes = new Uint8Array(capacity);
  }

  ensure(n: number): void {
    const needed = this.used + n;
    if (needed <= this.bytes.length) return;
    const bigger = new Uint8Array(Math.max(needed, this.bytes.length * 2));
    bigger.set(this.bytes.subarray(0, this.used));
    this.bytes = bigger;
  }

  /** A copy of what was written. */
  take(): Uint8Array {
    return this.bytes.slice(0, this.used);
  }

  clear(): void {
    this.used = 0;
  }
}
