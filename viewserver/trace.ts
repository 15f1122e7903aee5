// Where a map function throws: runs an instrumented copy on the same document, in a realm of its own that is kept for the next time. A copy
// whose exception differs (it depended on what earlier documents left behind) says nothing.
import { Script } from "node:vm";
import { instrument, TRACE_NAME } from "./instrument.js";
import { modulesFor } from "./modules.js";
import { createUserRealm } from "./realm.js";
import type { Core } from "./realm/types.js";
import type { Prepared } from "./source.js";

interface Copy {
  readonly fn: unknown;
  readonly helpers: object;
  left: number;
}

export class Tracer {
  readonly #core: Core;
  readonly #tracesMax: number;
  readonly #copies = new Map<Prepared, Copy | undefined>();

  constructor(core: Core, tracesMax: number) {
    this.#core = core;
    this.#tracesMax = tracesMax;
  }

  /** The frames, innermost first, or undefined. */
  trace(fn: Prepared, docText: string, name: string, message: string): string | undefined {
    if (this.#tracesMax === 0) return undefined;
    if (!this.#copies.has(fn)) this.#copies.set(fn, this.#copy(fn));
    const copy = this.#copies.get(fn);
    if (copy === undefined || copy.left === 0) return undefined;
    copy.left--;
    try {
      const answer = JSON.parse(this.#core.trace(copy.fn, copy.helpers, docText)) as string[];
      const [seenName, seenMessage, stack] = answer;
      return seenName === name && seenMessage === message && stack !== "" ? stack : undefined;
    } catch {
      return undefined;
    }
  }

  clear(): void {
    this.#copies.clear();
  }

  #copy(prepared: Prepared): Copy | undefined {
    try {
      const code = instrument(prepared);
      if (code === undefined) return undefined;
      const realm = createUserRealm();
      const helpers = this.#core.traceHelpers(TRACE_NAME);
      realm.install(helpers);
      const fn = realm.run(new Script(code, { filename: "function" }));
      if (typeof fn !== "function") return undefined;
      for (const module of modulesFor(prepared, () => this.#core.libText())) {
        const value = module.script === undefined ? undefined : realm.run(module.script);
        this.#core.supplyModule(helpers, module.id, value, module.error);
      }
      return { fn, helpers, left: this.#tracesMax };
    } catch {
      return undefined;
    }
  }
}
