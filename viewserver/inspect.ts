// What a host can learn about functions without running anything of theirs: whether they are JavaScript, and which members of a document
// they can see.
import { membersRead } from "./projection.js";
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
