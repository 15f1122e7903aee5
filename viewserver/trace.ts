// Where a function throws.
import type { Core } from "./realm/types.js";
import type { Prepared } from "./source.js";

export class Tracer {
  constructor(_core: Core, _max: number) {
    // Filled in below.
  }
  trace(_fn: Prepared, _withRequire: boolean, _docText: string, _name: string, _message: string): string | undefined {
    return undefined;
  }
  clear(): void {
    // Nothing kept.
  }
}
