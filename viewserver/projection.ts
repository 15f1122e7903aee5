// Which members of a document a map function can see at all, found by reading it. Most functions name the few they use; a host may then
// hand in a document of just these, and no one can tell. The proof rests on purity.ts (no eval, no `this`, no `arguments`, nothing
// passed on that could look back) and function-values.ts (no function can be asked for its arguments), and adds: the parameter is only
// ever read through a fixed name, or asked whether it is there. A reduce function whose first parameter is never read is told likewise.
import type { Node } from "acorn";
import { exposesFunctions } from "./function-values.js";
import { isSingleFunction, keepsToItself, needsFreeze } from "./purity.js";
import { declare } from "./scopes.js";
import { walk, type Prepared } from "./source.js";

type AnyNode = Node & {
  readonly name?: string;
  readonly computed?: boolean;
  readonly operator?: string;
  readonly value?: unknown;
  readonly object?: Node;
  readonly property?: AnyNode;
  readonly callee?: Node;
  readonly test?: Node;
  readonly left?: Node;
  readonly expression?: AnyNode;
  readonly params?: readonly AnyNode[];
};

/** Names of the top-level members that the function may read; undefined when that cannot be told. */
export function membersRead(fn: Prepared): ReadonlySet<string> | undefined {
  if (needsFreeze(fn) || !isSingleFunction(fn) || exposesFunctions(fn)) return undefined;
  const found = firstParameter(fn);
  if (found === undefined) return undefined;
  const { uses, parents } = found;
  const members = new Set<string>();
  for (const use of uses) {
    const parent = parents.get(use);
    if (parent === undefined) return undefined;
    if (parent.type === "MemberExpression" && parent.object === use) {
      const name = fixedName(parent);
      if (name === undefined || isCalled(parent, parents)) return undefined;
      members.add(name);
    } else if (!asksOnlyPresence(use, parent)) return undefined;
  }
  return members;
}

/** Whether the function may read its first parameter in any way: true when that cannot be told. */
export function readsFirstParameter(fn: Prepared): boolean {
  try {
    if (!keepsToItself(fn) || !isSingleFunction(fn) || exposesFunctions(fn)) return true;
    return firstParameter(fn)?.uses.length !== 0;
  } catch {
    return true;
  }
}

interface Parameter {
  /** Every place that names it, but its own. */
  readonly uses: readonly AnyNode[];
  readonly parents: ReadonlyMap<Node, AnyNode | undefined>;
}

/** Where a single function's first parameter is used; nowhere, if there is none. Undefined when it is no plain name. */
function firstParameter(fn: Prepared): Parameter | undefined {
  const statement = fn.program.body[0] as AnyNode;
  // A declaration has a member `expression` too, which tells another thing.
  const definition =
    statement.type === "ExpressionStatement" ? (statement.expression as AnyNode) : statement;
  const parameter = definition.params?.[0];
  const parents = new Map<Node, AnyNode | undefined>();
  if (parameter === undefined) return { uses: [], parents };
  if (parameter.type !== "Identifier") return undefined;
  const scope = declare(fn.program);
  const variable = scope.variable(parameter);
  if (variable === undefined) return undefined;
  const uses: AnyNode[] = [];
  walk(fn.program, (node, parent) => {
    parents.set(node, parent);
    if (node.type === "Identifier" && node !== parameter && scope.variable(node) === variable)
      uses.push(node);
  });
  return { uses, parents };
}

function fixedName(member: AnyNode): string | undefined {
  const { property } = member;
  if (member.computed !== true) return property?.name;
  return property?.type === "Literal" && typeof property.value === "string"
    ? property.value
    : undefined;
}

/** `doc.name(…)` would hand the document in as `this`. */
function isCalled(member: Node, parents: ReadonlyMap<Node, AnyNode | undefined>): boolean {
  let node: Node = member;
  let parent = parents.get(node);
  // Parentheses leave no node, optional chains do.
  while (parent?.type === "ChainExpression") {
    node = parent;
    parent = parents.get(node);
  }
  return parent?.callee === node;
}

/** A document is always an object: asking whether there is one gives the same answer for any part of it. */
function asksOnlyPresence(use: Node, parent: AnyNode): boolean {
  switch (parent.type) {
    case "UnaryExpression":
      return parent.operator === "!" || parent.operator === "typeof";
    case "IfStatement":
    case "ConditionalExpression":
      return parent.test === use;
    case "LogicalExpression":
      return parent.operator === "&&" && parent.left === use;
    default:
      return false;
  }
}
