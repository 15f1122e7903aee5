// Which strings of a design document a function may require, compiled. User code cannot ask the host to compile anything, so this happens
// before it runs: the literal arguments of `require` are followed by their last segment, anything cleverer takes all strings.
import type { Node } from "acorn";
import type { Script } from "node:vm";
import { compileErrorText, prepare, walk, type Prepared } from "./source.js";

export interface CompiledModule {
  readonly id: string;
  readonly script?: Script;
  readonly error: string;
}

const MODULES_MAX = 20_000;

/** `rootText` answers the JSON of the object that `require` walks; it is asked only when the function mentions `require`. */
export function modulesFor(fn: Prepared, rootText: () => string): CompiledModule[] {
  const wanted = wantedBy(fn);
  if (wanted === undefined) return [];
  const strings: { id: string; text: string }[] = [];
  collect(JSON.parse(rootText()) as unknown, "", strings);
  const found = new Map<string, CompiledModule>();
  const names = wanted === "all" ? undefined : new Set(wanted);
  for (let before = -1; before !== found.size;) {
    before = found.size;
    for (const { id, text } of strings) {
      if (found.has(id) || (names !== undefined && !names.has(id.slice(id.lastIndexOf("/") + 1))))
        continue;
      const made = prepare(text, "module");
      if ("error" in made) {
        found.set(id, { id, error: compileErrorText(made.error) });
        continue;
      }
      found.set(id, { id, script: made.script, error: "" });
      const more = wantedBy(made);
      if (more === "all") return modulesOf(strings);
      for (const name of more ?? []) names?.add(name);
    }
  }
  return [...found.values()];
}

function modulesOf(strings: readonly { id: string; text: string }[]): CompiledModule[] {
  return strings.map(({ id, text }) => {
    const made = prepare(text, "module");
    return "error" in made
      ? { id, error: compileErrorText(made.error) }
      : { id, script: made.script, error: "" };
  });
}

function collect(value: unknown, id: string, into: { id: string; text: string }[]): void {
  if (into.length >= MODULES_MAX) return;
  if (typeof value === "string") into.push({ id, text: value });
  else if (typeof value === "object" && value !== null) {
    for (const [name, child] of Object.entries(value)) {
      if (name !== "_attachments") collect(child, id === "" ? name : `${id}/${name}`, into);
    }
  }
}

/** Last segments of what is required; "all" when that cannot be read off; undefined when nothing is. */
function wantedBy(prepared: Prepared): readonly string[] | "all" | undefined {
  if (!/\brequire\b|\\u/.test(prepared.source)) return undefined;
  const names: (string | undefined)[] = [];
  walk(prepared.program, (node, parent) => {
    if (node.type !== "Identifier" || (node as Node & { name: string }).name !== "require") return;
    const call = parent as (Node & { callee?: Node; arguments?: Node[] }) | undefined;
    const isCall = call?.type === "CallExpression" && call.callee === node;
    names.push(lastSegment(isCall ? call.arguments?.[0] : undefined));
  });
  if (names.length === 0) return undefined;
  const known = names.filter((name) => name !== undefined);
  return known.length === names.length ? known : "all";
}

function lastSegment(argument: Node | undefined): string | undefined {
  const value = (argument as { value?: unknown } | undefined)?.value;
  if (argument?.type !== "Literal" || typeof value !== "string") return undefined;
  const last = value.slice(value.lastIndexOf("/") + 1);
  return last === "" || last === "." || last === ".." ? undefined : last;
}
