// Compiled reduce functions. couchjs compiles them anew for every command, in a fresh sandbox, so what one call leaves in its globals
// is gone at the next. A realm costs a millisecond; so it is kept for a source that provably leaves nothing behind.
import { LRUCache } from "lru-cache";
import type { CompileError } from "./source.js";
import { leavesNothing } from "./purity.js";

type Compiled = { readonly fn: unknown } | { readonly error: CompileError };

const KEPT_MAX = 100;

export class ReduceCache {
  readonly #kept = new LRUCache<string, Compiled>({ max: KEPT_MAX });

  find(source: string, compile: () => Compiled): Compiled {
    const known = this.#kept.get(source);
    if (known !== undefined) return known;
    const made = compile();
    if ("error" in made || leavesNothing(source)) this.#kept.set(source, made);
    return made;
  }

  clear(): void {
    this.#kept.clear();
  }
}
