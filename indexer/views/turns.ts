// Sees to it that work which never waits does not keep the event loop to itself.

/** So long others may have to wait for their turn, in milliseconds. */
const TURN_MS = 10;

export class Turns {
  #since = performance.now();

  /** Whether others should have a turn now. */
  due(): boolean {
    return performance.now() - this.#since >= TURN_MS;
  }

  /** They had one. */
  taken(): void {
    this.#since = performance.now();
  }

  /** Gives them one. */
  async take(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.taken();
  }
}
