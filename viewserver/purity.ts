// What can be proved about a function by reading it. Freezing a document costs as much as a third of everything else, and is only seen by
// a function that tries to change it. So a function is checked for every way to do that, by rules that err on the side of freezing:
//
// 1. Nothing is assigned to, deleted from or called on that might be a part of the document, except on *fresh* variables: such as
//    only ever hold a new array, object or other value made by a literal or constructor in the same source.
// 2. Only functions of this source, known harmless functions of the language, and our helpers are called; these appear nowhere
//    but as a callee, so they cannot be smuggled into a callback. Methods must be on a list of harmless ones.
// 3. Whatever makes names or values uncertain (eval, with, classes, generators, tagged templates, `__proto__`, `constructor`, computed
//    writes, spread into unknown calls, …) ends the proof.
import type { Node } from "acorn";
import {
  CALLBACK_METHODS,
  CHANGING_METHODS,
  CONSTRUCTORS,
  ENDS_PROOF,
  GLOBAL_FUNCTIONS,
  GLOBAL_METHODS,
  HELPERS,
  LISTS,
  METHODS,
  OBJECT,
  OTHER_HELPERS,
  SUSPICIOUS_MEMBERS,
} from "./language.js";
import { declare, type Scope, type Variable } from "./scopes.js";
import { prepare, walk, type Prepared } from "./source.js";

const known = new WeakMap<Prepared, boolean>();

/** False when the function provably cannot tell a frozen document from one that is not. */
export function needsFreeze(fn: Prepared): boolean {
  let needs = known.get(fn);
  if (needs === undefined) {
    try {
      needs = !new Proof(fn.program).holds();
    } catch {
      needs = true;
    }
    known.set(fn, needs);
  }
  return needs;
}

/** True when all that the function calls is known, and all that it changes is its own or what it was handed. */
export function keepsToItself(fn: Prepared): boolean {
  return new Proof(fn.program, true).holds();
}

/** True when calls of the function provably leave nothing behind in its realm that a later call could see. */
export function leavesNothing(source: string): boolean {
  const prepared = prepare(source, "declared");
  if ("error" in prepared) return true;
  try {
    // What it is handed is its own to change; what must not be is an assignment to a global, or a variable outside the function.
    return keepsToItself(prepared) && isSingleFunction(prepared) && !changesOuterState(prepared);
  } catch {
    return false;
  }
}

// The nodes of acorn, read without its hundred types: every member may be missing.
interface AnyNode extends Node {
  readonly name?: string;
  readonly value?: unknown;
  readonly regex?: unknown;
  readonly kind?: string;
  readonly computed?: boolean;
  readonly method?: boolean;
  readonly generator?: boolean;
  readonly operator?: string;
  readonly object?: AnyNode;
  readonly property?: AnyNode;
  readonly callee?: AnyNode;
  readonly arguments?: readonly AnyNode[];
  readonly left?: AnyNode;
  readonly right?: AnyNode;
  readonly argument?: AnyNode;
  readonly key?: AnyNode;
  readonly expression?: unknown;
  readonly body?: unknown;
}

class Proof {
  readonly #scope: Scope;
  readonly #program: Node;
  readonly #ownInputs: boolean;
  /** Globals that the source itself assigns: they hold what it puts there. */
  readonly #implicit = new Set<string>();

  /** `ownInputs`: the function may change what it was handed, only nothing that outlives the call. */
  constructor(program: Node, ownInputs = false) {
    this.#program = program;
    this.#ownInputs = ownInputs;
    this.#scope = declare(program);
    for (const name of this.#scope.assignedGlobals) {
      if (!HELPERS.has(name) && !(name in globalThis) && !OTHER_HELPERS.has(name))
        this.#implicit.add(name);
    }
  }

  holds(): boolean {
    let holds = true;
    walk(this.#program, (node, parent) => {
      if (holds && !this.#allows(node, parent)) holds = false;
    });
    return holds;
  }

  #allows(node: AnyNode, parent: AnyNode | undefined): boolean {
    if (ENDS_PROOF.has(node.type)) return false;
    switch (node.type) {
      case "FunctionDeclaration":
      case "FunctionExpression":
        return node.generator !== true;
      case "Identifier":
        return this.#allowsName(node, parent);
      case "AssignmentExpression":
        return this.#allowsTarget(node.left as AnyNode);
      case "UpdateExpression":
        return this.#allowsTarget(node.argument as AnyNode);
      case "ForInStatement":
      case "ForOfStatement":
        return (
          (node.left as AnyNode).type === "VariableDeclaration" ||
          this.#allowsTarget(node.left as AnyNode)
        );
      case "UnaryExpression":
        return node.operator !== "delete" || this.#allowsTarget(node.argument as AnyNode);
      case "MemberExpression":
        return this.#allowsMember(node, parent);
      case "Property":
        // Accessors and methods may run where no call is seen.
        return (
          node.kind === "init" &&
          node.method !== true &&
          !isKey(node, "__proto__") &&
          !isFunction(node.value as AnyNode)
        );
      case "CallExpression":
        return this.#allowsCall(node);
      case "NewExpression":
        return this.#isGlobal(node.callee as AnyNode, CONSTRUCTORS);
      default:
        return true;
    }
  }

  /** A global may only be called, constructed, asked for a harmless method, or named by typeof and instanceof. */
  #allowsName(node: AnyNode, parent: AnyNode | undefined): boolean {
    if (!this.#scope.isFree(node)) return true;
    if (node.name === "undefined" || node.name === "NaN" || node.name === "Infinity") return true;
    if (node.name === "eval" || node.name === "arguments") return false;
    if (this.#implicit.has(node.name ?? "")) return true;
    if (parent === undefined) return false;
    if (parent.type === "CallExpression" || parent.type === "NewExpression") {
      return parent.callee === node || GLOBAL_FUNCTIONS.has(node.name ?? "");
    }
    if (parent.type === "MemberExpression") return parent.object === node;
    if (parent.type === "UnaryExpression") return parent.operator === "typeof";
    if (parent.type === "BinaryExpression")
      return parent.operator === "instanceof" && parent.right === node;
    return false;
  }

  #allowsTarget(target: AnyNode): boolean {
    // A standard global or helper must stay what it is; any other global is only a variable that was not declared.
    if (target.type === "Identifier")
      return !this.#scope.isFree(target) || this.#implicit.has(target.name ?? "");
    if (target.type !== "MemberExpression") return false;
    if (this.#ownInputs) return true;
    if (!this.#isFresh(target.object as AnyNode)) return false;
    // A name only known at run time may be `__proto__`, and then a later write would meet the document.
    return target.computed !== true || isNumber(target.property as AnyNode);
  }

  #allowsMember(node: AnyNode, parent: AnyNode | undefined): boolean {
    if (node.computed === true) {
      const key = node.property as AnyNode;
      if (key.type === "Literal" && typeof key.value === "string")
        return !isDangerousName(key.value);
      return !isCallee(node, parent);
    }
    const name = (node.property as AnyNode).name ?? "";
    if (name === "apply" || name === "call")
      return isCallee(node, parent) && this.#isGlobalMethod(node.object as AnyNode);
    if (SUSPICIOUS_MEMBERS.has(name)) return false;
    // A changing method may be called (checked there), never taken as a value.
    if (CHANGING_METHODS.has(name)) return isCallee(node, parent);
    // A method of a global is a function of the language: only as a callee, or it is a constant such as Math.PI.
    const object = node.object as AnyNode;
    if (object.type === "Identifier" && this.#scope.isFree(object)) {
      if (isCallee(node, parent)) return true;
      if (parent?.type === "MemberExpression" && this.#isGlobalMethod(node))
        return isApplied(parent);
      if (this.#implicit.has(object.name ?? "")) return true;
      return (object.name === "Math" || object.name === "Number") && /^[A-Z0-9_]+$/.test(name);
    }
    return true;
  }

  #allowsCall(node: AnyNode): boolean {
    const callee = node.callee as AnyNode;
    const args = node.arguments ?? [];
    if (isFunction(callee)) return true;
    if (callee.type === "Identifier") {
      if (!this.#scope.isFree(callee)) return this.#isOwnFunction(callee);
      const name = callee.name ?? "";
      if (this.#implicit.has(name)) return false;
      // A replacer would be called with parts of the document as `this`.
      if (name === "toJSON") return this.#cannotCallBack(args, 1);
      return HELPERS.has(name) || GLOBAL_FUNCTIONS.has(name);
    }
    if (callee.type !== "MemberExpression" || callee.computed === true) return false;
    const object = callee.object as AnyNode;
    const method = callee.property?.name ?? "";
    if (
      object.type === "Identifier" &&
      this.#scope.isFree(object) &&
      !this.#implicit.has(object.name ?? "")
    ) {
      const methods = Object.hasOwn(GLOBAL_METHODS, object.name ?? "")
        ? GLOBAL_METHODS[object.name ?? ""]
        : undefined;
      if (methods === undefined || !methods.has(method)) return false;
      return object.name !== "JSON" || this.#cannotCallBack(args, 1);
    }
    if (method === "apply" || method === "call") return this.#isGlobalMethod(object);
    if (CHANGING_METHODS.has(method)) {
      if (this.#ownInputs && method !== "sort") return true;
      return (
        (this.#ownInputs || this.#isFresh(object)) &&
        (method !== "sort" || args.length === 0 || this.#isHarmlessCallback(args[0]))
      );
    }
    if (CALLBACK_METHODS.has(method)) return this.#isHarmlessCallback(args[0]);
    return METHODS.has(method);
  }

  /** `Math.max` and the like, without JSON: its replacer could do harm. */
  #isGlobalMethod(node: AnyNode): boolean {
    if (node.type !== "MemberExpression" || node.computed === true) return false;
    const object = node.object as AnyNode;
    if (object.type !== "Identifier" || object.name === "JSON" || !this.#scope.isFree(object))
      return false;
    if (this.#implicit.has(object.name ?? "") || !Object.hasOwn(GLOBAL_METHODS, object.name ?? ""))
      return false;
    return GLOBAL_METHODS[object.name ?? ""]?.has(node.property?.name ?? "") === true;
  }

  #cannotCallBack(args: readonly AnyNode[], from: number): boolean {
    return args.every(
      (a, i) =>
        a.type !== "SpreadElement" &&
        (i < from || !mayHoldFunction(a) || this.#isHarmlessCallback(a)),
    );
  }

  #isHarmlessCallback(node: AnyNode | undefined): boolean {
    if (node === undefined) return false;
    return isFunction(node) || this.#isOwnFunction(node) || this.#isGlobal(node, GLOBAL_FUNCTIONS);
  }

  #isGlobal(node: AnyNode, allowed: ReadonlySet<string>): boolean {
    return node.type === "Identifier" && allowed.has(node.name ?? "") && this.#scope.isFree(node);
  }

  #isOwnFunction(node: AnyNode): boolean {
    const variable = node.type === "Identifier" ? this.#scope.variable(node) : undefined;
    if (variable === undefined || variable.unknown) return false;
    return (
      variable.values.length > 0 && variable.values.every((value) => isFunction(value as AnyNode))
    );
  }

  #isFresh(node: AnyNode): boolean {
    if (node.type === "ArrayExpression") return true;
    const callee = node.type === "CallExpression" ? node.callee : undefined;
    if (callee?.type === "MemberExpression" && this.#isGlobal(callee.object as AnyNode, OBJECT)) {
      return callee.computed !== true && LISTS.has(callee.property?.name ?? "");
    }
    const variable = node.type === "Identifier" ? this.#scope.variable(node) : undefined;
    return variable !== undefined && isFreshVariable(variable);
  }
}

function isFreshVariable(variable: Variable): boolean {
  if (variable.unknown || variable.values.length === 0) return false;
  return variable.values.every((value) => {
    const v = value as AnyNode;
    if (v.type === "ArrayExpression" || v.type === "ObjectExpression") return true;
    if (v.type === "Literal") return v.value !== null || v.regex !== undefined;
    // What may be constructed is checked elsewhere: all of it is new, whatever the arguments.
    return v.type === "NewExpression";
  });
}

function isFunction(node: AnyNode | null | undefined): boolean {
  return (
    node?.type === "FunctionExpression" ||
    node?.type === "ArrowFunctionExpression" ||
    node?.type === "FunctionDeclaration"
  );
}

function mayHoldFunction(node: AnyNode): boolean {
  return !(
    node.type === "Literal" ||
    node.type === "TemplateLiteral" ||
    node.type === "BinaryExpression" ||
    node.type === "UnaryExpression"
  );
}

function isCallee(node: AnyNode, parent: AnyNode | undefined): boolean {
  return parent?.type === "CallExpression" && parent.callee === node;
}

function isApplied(node: AnyNode): boolean {
  return (
    node.computed !== true && (node.property?.name === "apply" || node.property?.name === "call")
  );
}

function isNumber(node: AnyNode): boolean {
  return node.type === "Literal" && typeof node.value === "number";
}

function isDangerousName(name: string): boolean {
  return SUSPICIOUS_MEMBERS.has(name) || CHANGING_METHODS.has(name);
}

function isKey(node: AnyNode, name: string): boolean {
  const key = node.key as AnyNode;
  if (node.computed === true) return !isNumber(key);
  return key.name === name || key.value === name;
}

export function isSingleFunction(prepared: Prepared): boolean {
  const statement = prepared.program.body[0] as AnyNode | undefined;
  return (
    prepared.program.body.length === 1 &&
    (statement?.type === "FunctionDeclaration" ||
      (statement?.type === "ExpressionStatement" && isFunction(statement.expression as AnyNode)))
  );
}

function changesOuterState(prepared: Prepared): boolean {
  return declare(prepared.program).assignedGlobals.size > 0;
}
