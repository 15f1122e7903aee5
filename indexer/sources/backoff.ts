// Waiting longer and longer between attempts, with some chance in it so that many clients do not come back as one.

import { setTimeout as delay } from "node:timers/promises";
import { abortedError } from "./source.js";

export interface BackoffOptions {
  /** First wait in milliseconds; each one after it doubles. Default 200. */
  readonly firstMs?: number | undefined;
  /** Longest wait. Default 30 000. */
  readonly longestMs?: number | undefined;
  /** Attempts in a row that may fail before the error is final. Default 5: some three seconds. */
  readonly attempts?: number | undefined;
  /** The same once something has worked: a server that was there is worth waiting for. Default 10: over a minute. */
  readonly attemptsLater?: number | undefined;
}

export class Backoff {
  readonly #firstMs: number;
  readonly #longestMs: number;
  readonly #attemptsLater: number;
  #attempts: number;
  #failures = 0;

  constructor(options: BackoffOptions = {}) {
    this.#firstMs = options.firstMs ?? 200;
    this.#longestMs = options.longestMs ?? 30_000;
    this.#attempts = options.attempts ?? 5;
    this.#attemptsLater = Math.max(this.#attempts, options.attemptsLater ?? 10);
  }

  /** Something worked: the next failure is a first one. */
  reset(): void {
    this.#failures = 0;
    this.#attempts = this.#attemptsLater;
  }

  /** Waits before the next attempt. False when there have been enough, unless `forever`. Throws INDEXER_ABORTED. */
  async wait(forever: boolean, signal: AbortSignal | undefined): Promise<boolean> {
    this.#failures++;
    if (!forever && this.#failures >= this.#attempts) return false;
    const full = Math.min(this.#longestMs, this.#firstMs * 2 ** (this.#failures - 1));
    try {
      await delay(full * (0.75 + Math.random() * 0.25), undefined, signal ? { signal } : {});
    } catch {
      throw abortedError(signal);
    }
    return true;
  }
}
