// What a host can learn about functions without running anything of theirs: whether they are JavaScript, which members of a document
// they can see, and whether a reduce function looks at keys.
import { membersRead, readsFirstParameter } from "./projection.js";
import { prepare, type CompileError, type Prepared } from "./source.js";

/** The fault of a source that is not JavaScript. One that is, but is no function, shows only when it is evaluated. */
export function syntaxFault(source: string): CompileError | undefined {
  const prepared = prepare(source, "declared");
  return "error" in prepared ? prepared.error : undefined;
}

/** Names of the top-level members that any of the map functions can see; undefined when that cannot be told. */
export function visibleMembers(sources: readonly string[]): ReadonlySet<string> | undefined {
  const functions: Prepared[] = [];
  for (const source of sources) {
    const prepared = prepare(source, "declared");
    if ("error" in prepared) return undefined;
    functions.push(prepared);
  }
  return unionOfMembers(functions);
}

/** The same for functions that were read before. */
export function unionOfMembers(functions: readonly Prepared[]): ReadonlySet<string> | undefined {
  const names = new Set<string>();
  for (const fn of functions) {
    const members = membersRead(fn);
    if (members === undefined) return undefined;
    for (const name of members) names.add(name);
  }
  return names;
}

const VERDICTS_MAX = 100;
const verdicts = new Map<string, boolean>();

/** Whether a reduce function may look at the keys of its rows: false when it provably never reads its first parameter. */
export function readsKeys(source: string): boolean {
  let reads = verdicts.get(source);
  if (reads === undefined) {
    const prepared = prepare(source, "declared");
    reads = "error" in prepared || readsFirstParameter(prepared);
    if (verdicts.size >= VERDICTS_MAX) verdicts.clear();
    verdicts.set(source, reads);
  }
  return reads;
}
