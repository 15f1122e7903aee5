// What can be proved about a function by reading it.
import type { Prepared } from "./source.js";

export function needsFreeze(_fn: Prepared): boolean {
  return true;
}

export function leavesNothing(_source: string): boolean {
  return false;
}
