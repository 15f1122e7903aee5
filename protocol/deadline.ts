// One timer for a client, however many commands are unanswered. The timer is armed rarely and looks at the time of the last byte
// when it fires, so that a busy client pays one clock read per chunk.

/** The longest delay a Node timer takes; longer ones would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Calls back once when it runs and was not touched for `timeoutMs`. */
export class Deadline {
  readonly #timeoutMs: number;
  readonly #expired: () => void;
  #running = false;
  #touchedMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #check: NodeJS.Immediate | undefined;

  /** `timeoutMs` may be Infinity: then it never expires. */
  constructor(timeoutMs: number, expired: () => void) {
    this.#timeoutMs = timeoutMs;
    this.#expired = expired;
  }

  /** Bytes flow: the time begins anew. */
  touch(): void {
    this.#touchedMs = performance.now();
  }

  /** Runs while something is unanswered; the time begins when it starts to run. */
  set running(running: boolean) {
    if (running === this.#running) return;
    this.#running = running;
    if (!running) {
      // Left armed, because the next command is near; but an idle client must not keep the process alive.
      this.#timer?.unref();
      return;
    }
    this.touch();
    if (this.#timer) this.#timer.ref();
    else this.#arm(this.#timeoutMs);
  }

  /** Ends it for good. */
  stop(): void {
    this.#running = false;
    clearTimeout(this.#timer);
    clearImmediate(this.#check);
    this.#timer = undefined;
  }

  #arm(delayMs: number): void {
    if (delayMs === Infinity) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        if (this.#running) this.#look();
      },
      Math.min(Math.ceil(delayMs), TIMER_MS_MAX),
    );
  }

  #look(): void {
    const leftMs = this.#touchedMs + this.#timeoutMs - performance.now();
    if (leftMs > 0) {
      this.#arm(leftMs);
      return;
    }
    // The event loop may have been busy elsewhere while an answer waited in the pipe. Timers come before reads in the loop and
    // immediates after them, so whatever has arrived is seen before the peer is condemned.
    const touchedMs = this.#touchedMs;
    this.#check = setImmediate(() => {
      if (!this.#running) return;
      if (this.#touchedMs === touchedMs) this.#expired();
      else this.#look();
    });
  }
}
