// Which functions end by themselves, whatever document they get: proved by reading them, for the sake of those that do. A function that
// may run on needs somebody who watches it, and a watcher costs a thread. The proof knows few ways to repeat anything: loops over
// what is there already, and callbacks of methods that take as many steps; and none of them inside of another. What makes something
// much larger than the document by a number alone (a length, an index, a repetition), or goes through a nesting of its own making,
// is no part of it either: it would end in theory only.
import type { Node } from "acorn";
import { CALLBACK_METHODS, CHANGING_METHODS, GLOBAL_FUNCTIONS, HELPERS } from "./language.js";
import { isSingleFunction, keepsToItself } from "./purity.js";
import { declare, type Scope } from "./scopes.js";
import type { Prepared } from "./source.js";

interface AnyNode extends Node {
  readonly name?: string;
  readonly value?: unknown;
  readonly regex?: unknown;
  readonly bigint?: unknown;
  readonly computed?: boolean;
  readonly object?: AnyNode;
  readonly callee?: AnyNode;
  readonly property?: AnyNode;
  readonly left?: AnyNode;
  readonly argument?: AnyNode;
  readonly arguments?: readonly AnyNode[];
}

/** Loops with a condition of their own, and what runs code where no call is seen. */
const REFUSED = new Set(["ForStatement", "WhileStatement", "DoWhileStatement", "ClassBody"]);
const REFUSED_NAMES = new Set([
  // They make a regular expression of a text, and some of these search for ever.
  ...["match", "matchAll", "search", "RegExp", "test", "exec"],
  // What is added to them while they are gone through is gone through, too.
  ...["Map", "Set"],
  // They make much of a number, or go through the same thing as often as it is nested.
  ...["Array", "BigInt", "repeat", "padStart", "padEnd", "flat"],
]);
/** Iterators of arrays see what is added meanwhile, and have methods that call back. */
const ITERATORS = new Set(["keys", "values", "entries"]);
/** An index above makes an array long that holds nothing. */
const INDEX_MAX = 1000;

/** True when each call of the function provably ends. Errs on the side of false. */
export function provablyEnds(fn: Prepared): boolean {
  try {
    // Functions beside it could be called where no call is seen: as a toString, or as a method with the name of a harmless one.
    return (
      isSingleFunction(fn) && keepsToItself(fn) && new Steps(declare(fn.program)).areFew(fn.program)
    );
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
        return (
          loops === 0 && this.#assigns(node.left as AnyNode) && this.#children(node, 1, functions)
        );
      case "AssignmentExpression":
        return this.#assigns(node.left as AnyNode) && this.#children(node, loops, functions);
      case "UpdateExpression":
        return this.#assigns(node.argument as AnyNode) && this.#children(node, loops, functions);
      case "Literal":
        return (node.regex ?? node.bigint ?? undefined) === undefined;
      case "Identifier":
        return !REFUSED_NAMES.has(node.name ?? "");
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

  /** False for a target that could make an array long by itself. */
  #assigns(target: AnyNode): boolean {
    if (target.type === "Identifier" || target.type === "VariableDeclaration") return true;
    this.#changes = true;
    if (target.type !== "MemberExpression") return false;
    const key = target.property as AnyNode;
    if (target.computed !== true) return key.name !== "length";
    if (key.type === "Literal" && typeof key.value === "number") return key.value < INDEX_MAX;
    return this.#isPlainObject(target.object as AnyNode);
  }

  /** A variable that only ever holds what braces make: no array, whatever is written into it. */
  #isPlainObject(node: AnyNode): boolean {
    const variable = node.type === "Identifier" ? this.#scope.variable(node) : undefined;
    return (
      variable !== undefined &&
      !variable.unknown &&
      variable.values.length > 0 &&
      variable.values.every((value) => value.type === "ObjectExpression")
    );
  }

  #call(node: AnyNode, loops: number, functions: number): boolean {
    const callee = node.callee as AnyNode;
    const method = callee.type === "MemberExpression" ? (callee.property?.name ?? "") : "";
    if (CHANGING_METHODS.has(method)) this.#changes = true;
    // Takes as many steps as a member `length` says, which may be any number.
    if (method === "apply" && loops > 0) return false;
    const ofGlobal = this.#isGlobalObject(callee.object);
    if (ITERATORS.has(method) && !ofGlobal) this.#iterates = true;
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
    // `Array.isArray` names Array, and makes none.
    return (ofGlobal && method === "isArray") || this.#visit(callee, loops, functions);
  }

  #isGlobalObject(node: AnyNode | undefined): boolean {
    return (
      node?.type === "Identifier" &&
      (node.name === "Object" || node.name === "Array") &&
      this.#scope.isFree(node)
    );
  }

  #isOfTheLanguage(node: AnyNode): boolean {
    const name = node.name ?? "";
    return (
      node.type === "Identifier" &&
      (HELPERS.has(name) || GLOBAL_FUNCTIONS.has(name)) &&
      !REFUSED_NAMES.has(name) &&
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
