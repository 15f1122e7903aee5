// Which functions end by themselves, whatever document they get: proved by reading them, for the sake of those that do. A function that
// may run on needs somebody who watches it, and a watcher costs a thread. The proof knows few ways to repeat anything: loops over
// what is there already, and callbacks of methods that take as many steps; and none of them inside of another.
import type { Node } from "acorn";
import { CALLBACK_METHODS, CHANGING_METHODS, GLOBAL_FUNCTIONS, HELPERS } from "./language.js";
import { keepsToItself } from "./purity.js";
import { declare, type Scope } from "./scopes.js";
import type { Prepared } from "./source.js";

interface AnyNode extends Node {
  readonly name?: string;
  readonly regex?: unknown;
  readonly callee?: AnyNode;
  readonly property?: AnyNode;
  readonly left?: AnyNode;
  readonly argument?: AnyNode;
  readonly arguments?: readonly AnyNode[];
}

/** Loops with a condition of their own, and what runs code where no call is seen. */
const REFUSED = new Set(["ForStatement", "WhileStatement", "DoWhileStatement", "ClassBody"]);
/** They make a regular expression of a text, and some of these search for ever. */
const SEARCHING = new Set(["match", "matchAll", "search", "RegExp", "test", "exec"]);

/** True when each call of the function provably ends. Errs on the side of false. */
export function provablyEnds(fn: Prepared): boolean {
  try {
    return keepsToItself(fn) && new Steps(declare(fn.program)).areFew(fn.program);
  } catch {
    return false;
  }
}

class Steps {
  readonly #scope: Scope;
  /** There is a loop over something that could grow meanwhile. */
  #iterates = false;
  #changes = false;

  constructor(scope: Scope) {
    this.#scope = scope;
  }

  areFew(program: AnyNode): boolean {
    return this.#visit(program, 0, 0) && !(this.#iterates && this.#changes);
  }

  /** `loops` and `functions` count what the node is inside of. */
  #visit(node: AnyNode, loops: number, functions: number): boolean {
    switch (node.type) {
      case "ForInStatement":
      case "ForOfStatement":
        if (node.type === "ForOfStatement") this.#iterates = true;
        if (node.left?.type === "MemberExpression") this.#changes = true;
        return loops === 0 && this.#children(node, 1, functions);
      case "AssignmentExpression":
        if (node.left?.type !== "Identifier") this.#changes = true;
        return this.#children(node, loops, functions);
      case "UpdateExpression":
        if (node.argument?.type !== "Identifier") this.#changes = true;
        return this.#children(node, loops, functions);
      case "Literal":
        return node.regex === undefined || node.regex === null;
      case "Identifier":
        return !SEARCHING.has(node.name ?? "");
      case "CallExpression":
        return this.#call(node, loops, functions);
      case "FunctionDeclaration":
      case "FunctionExpression":
      case "ArrowFunctionExpression":
        // The function itself. Any other one is met as a callee or a callback, or could be called by whatever it was given to.
        return functions === 0 && this.#children(node, loops, 1);
      default:
        return !REFUSED.has(node.type) && this.#children(node, loops, functions);
    }
  }

  #call(node: AnyNode, loops: number, functions: number): boolean {
    const callee = node.callee as AnyNode;
    const method = callee.type === "MemberExpression" ? (callee.property?.name ?? "") : "";
    if (CHANGING_METHODS.has(method)) this.#changes = true;
    const callsBack = CALLBACK_METHODS.has(method) || method === "sort";
    for (const [i, argument] of (node.arguments ?? []).entries()) {
      if (!callsBack || i > 0) {
        if (!this.#visit(argument, loops, functions)) return false;
      } else if (isFunction(argument)) {
        if (loops > 0 || !this.#children(argument, 1, 1)) return false;
      } else if (!this.#isOfTheLanguage(argument)) return false;
    }
    if (isFunction(callee)) return this.#children(callee, loops, 1);
    // A function of this source might call itself.
    if (callee.type === "Identifier") return this.#isOfTheLanguage(callee);
    return this.#visit(callee, loops, functions);
  }

  #isOfTheLanguage(node: AnyNode): boolean {
    const name = node.name ?? "";
    return (
      node.type === "Identifier" &&
      (HELPERS.has(name) || GLOBAL_FUNCTIONS.has(name)) &&
      !SEARCHING.has(name) &&
      this.#scope.isFree(node)
    );
  }

  #children(node: AnyNode, loops: number, functions: number): boolean {
    for (const value of Object.values(node) as unknown[]) {
      for (const child of Array.isArray(value) ? (value as unknown[]) : [value]) {
        if (isNode(child) && !this.#visit(child, loops, functions)) return false;
      }
    }
    return true;
  }
}

function isFunction(node: AnyNode): boolean {
  return node.type === "FunctionExpression" || node.type === "ArrowFunctionExpression";
}

function isNode(value: unknown): value is AnyNode {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { type?: unknown }).type === "string"
  );
}
