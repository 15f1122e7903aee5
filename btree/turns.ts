// Long work in turns: after some milliseconds others get the event loop.

import { setImmediate } from "node:timers/promises";

/** After so much work others get a turn. */
const TURN_MS = 5;

/** The turns of one piece of work. */
export class Turns {
  #end = performance.now() + TURN_MS;

  /** Whether it is time to let others have a turn. */
  due(): boolean {
    return performance.now() >= this.#end;
  }

  /** Gives them one. */
  async take(): Promise<void> {
    await setImmediate();
    this.#end = performance.now() + TURN_MS;
  }
}
