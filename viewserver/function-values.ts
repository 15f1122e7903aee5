// Whether a source does anything with its functions but call them. A function of the old kind can be asked for the arguments of the call
// that is under way (`f.arguments`, `f.caller`), also by a name that is only put together at run time; so a proof that a parameter is
// never read holds only where no function is a value that could be asked.
import type { Node } from "acorn";
import { CALLBACK_METHODS } from "./language.js";
import { declare, type Scope } from "./scopes.js";
import { walk, type Prepared } from "./source.js";

interface AnyNode extends Node {
  readonly name?: string;
  readonly computed?: boolean;
  readonly id?: Node | null;
  readonly init?: Node | null;
  readonly callee?: AnyNode;
  readonly property?: AnyNode;
  readonly arguments?: readonly Node[];
  readonly params?: readonly Node[];
}

/** False when all that becomes of its functions is that they are called, by the source itself or by a method it hands them to. */
export function exposesFunctions({ program }: Prepared): boolean {
  const scope = declare(program);
  let exposes = false;
  walk(program, (node: AnyNode, parent: AnyNode | undefined) => {
    if (exposes || node.type === "FunctionDeclaration") return;
    if (isFunctionExpression(node)) {
      const named = parent?.type === "VariableDeclarator" && parent.init === node;
      const whole = parent?.type === "ExpressionStatement";
      exposes = !named && !whole && !isOnlyCalled(node, parent);
    } else if (node.type === "Identifier" && holdsFunction(scope, node)) {
      exposes = !isDeclared(node, parent) && !isOnlyCalled(node, parent);
    }
  });
  return exposes;
}

function isFunctionExpression(node: Node): boolean {
  return node.type === "FunctionExpression" || node.type === "ArrowFunctionExpression";
}

function holdsFunction(scope: Scope, identifier: Node): boolean {
  return (
    scope
      .variable(identifier)
      ?.values.some(
        (value) => isFunctionExpression(value) || value.type === "FunctionDeclaration",
      ) === true
  );
}

/** The place that gives the function its name. */
function isDeclared(node: Node, parent: AnyNode | undefined): boolean {
  return (
    (parent?.type === "FunctionDeclaration" ||
      parent?.type === "FunctionExpression" ||
      parent?.type === "VariableDeclarator") &&
    parent.id === node
  );
}

/** `f(…)`, or `list.map(f)`: a method of the language calls it, and hands it to nobody. */
function isOnlyCalled(node: Node, parent: AnyNode | undefined): boolean {
  if (parent?.type !== "CallExpression") return false;
  if (parent.callee === node) return true;
  return (
    parent.arguments?.[0] === node &&
    parent.callee?.type === "MemberExpression" &&
    parent.callee.computed !== true &&
    CALLBACK_METHODS.has(parent.callee.property?.name ?? "")
  );
}
