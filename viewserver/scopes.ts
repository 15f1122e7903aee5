// Which variable an identifier means, and everything that variable is ever given. Enough of scope analysis for the proofs of purity.ts:
// where it cannot tell, it says `unknown`.
import type { Node } from "acorn";

export interface Variable {
  /** The expressions (or function declarations) it is given. */
  readonly values: Node[];
  /** It may hold something else too: a parameter, a part of a pattern, a loop variable, what `+=` makes. */
  unknown: boolean;
}

interface Frame {
  readonly names: Map<string, Variable>;
  readonly parent: Frame | undefined;
  readonly isFunction: boolean;
}

type AnyNode = Node & Readonly<Record<string, unknown>> & { readonly name?: string };

/** Resolves names of one program. */
export class Scope {
  readonly #frames = new Map<Node, Frame>();
  /** Names of globals that the program assigns to. */
  readonly assignedGlobals = new Set<string>();

  /** @internal */
  note(identifier: Node, frame: Frame): void {
    this.#frames.set(identifier, frame);
  }

  variable(identifier: Node): Variable | undefined {
    const name = (identifier as AnyNode).name ?? "";
    for (let frame = this.#frames.get(identifier); frame !== undefined; frame = frame.parent) {
      const found = frame.names.get(name);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** True for a reference to a global; false for names of this program, and for what is no reference (members, keys, labels). */
  isFree(identifier: Node): boolean {
    return this.#frames.has(identifier) && this.variable(identifier) === undefined;
  }
}

export function declare(program: Node): Scope {
  const scope = new Scope();
  const assignments: { target: AnyNode; value: Node | undefined }[] = [];
  const frameOf = (parent: Frame | undefined, isFunction: boolean): Frame => ({
    names: new Map(),
    parent,
    isFunction,
  });

  const add = (frame: Frame, name: string): Variable => {
    let variable = frame.names.get(name);
    if (variable === undefined) {
      variable = { values: [], unknown: false };
      frame.names.set(name, variable);
    }
    return variable;
  };
  const functionFrame = (frame: Frame): Frame => {
    let f = frame;
    while (!f.isFunction && f.parent !== undefined) f = f.parent;
    return f;
  };
  /** Declares all names of a pattern; only a plain name can have a known value. */
  const bind = (pattern: AnyNode, frame: Frame, value: Node | undefined, known: boolean): void => {
    if (pattern.type === "Identifier") {
      const variable = add(frame, pattern.name ?? "");
      if (value !== undefined && known) variable.values.push(value);
      else if (value !== undefined || !known) variable.unknown = true;
      scope.note(pattern, frame);
      return;
    }
    for (const child of children(pattern)) {
      if (pattern.type === "AssignmentPattern" && child === pattern["right"]) continue;
      if (pattern.type === "Property" && child === pattern["key"]) continue;
      bind(child, frame, undefined, false);
    }
  };

  // First all declarations, so that a use before its declaration is resolved.
  const visit = (node: AnyNode, frame: Frame, parent: AnyNode | undefined): void => {
    let inner = frame;
    if (node.type === "FunctionDeclaration") {
      const id = node["id"] as AnyNode | null;
      if (id !== null) bind(id, functionFrame(frame), node, true);
    }
    if (
      node.type === "FunctionDeclaration" ||
      node.type === "FunctionExpression" ||
      node.type === "ArrowFunctionExpression"
    ) {
      inner = frameOf(frame, true);
      if (node.type === "FunctionExpression" && node["id"])
        bind(node["id"] as AnyNode, inner, node, true);
      for (const parameter of node["params"] as AnyNode[]) bind(parameter, inner, undefined, false);
    } else if (
      (node.type === "BlockStatement" && !isFunctionNode(parent)) ||
      node.type === "ForStatement" ||
      node.type === "ForInStatement" ||
      node.type === "ForOfStatement" ||
      node.type === "SwitchStatement"
    ) {
      inner = frameOf(frame, false);
    } else if (node.type === "CatchClause") {
      inner = frameOf(frame, false);
      if (node["param"]) bind(node["param"] as AnyNode, inner, undefined, false);
    } else if (node.type === "VariableDeclaration") {
      const to = node["kind"] === "var" ? functionFrame(frame) : frame;
      const looped =
        (parent?.type === "ForInStatement" || parent?.type === "ForOfStatement") &&
        parent["left"] === node;
      for (const declarator of node["declarations"] as AnyNode[]) {
        const init = (declarator["init"] ?? undefined) as Node | undefined;
        bind(declarator["id"] as AnyNode, to, looped ? undefined : init, !looped);
      }
    } else if (node.type === "AssignmentExpression") {
      assignments.push({
        target: node["left"] as AnyNode,
        value: node["operator"] === "=" ? (node["right"] as Node) : undefined,
      });
    } else if (node.type === "UpdateExpression") {
      assignments.push({ target: node["argument"] as AnyNode, value: undefined });
    } else if (node.type === "Identifier" && isReference(node, parent)) {
      scope.note(node, frame);
    }
    // A loop without a declaration of its own assigns to its target.
    if (
      (node.type === "ForInStatement" || node.type === "ForOfStatement") &&
      (node["left"] as Node).type !== "VariableDeclaration"
    ) {
      assignments.push({ target: node["left"] as AnyNode, value: undefined });
    }
    for (const child of children(node)) visit(child, inner, node);
  };
  visit(program as AnyNode, frameOf(undefined, true), undefined);

  for (const { target, value } of assignments) give(scope, target, value);
  return scope;
}

function give(scope: Scope, target: AnyNode, value: Node | undefined): void {
  if (target.type === "Identifier") {
    const variable = scope.variable(target);
    if (variable === undefined) {
      scope.assignedGlobals.add(target.name ?? "");
      return;
    }
    if (value === undefined) variable.unknown = true;
    else variable.values.push(value);
  } else if (target.type !== "MemberExpression") {
    for (const child of children(target)) give(scope, child, undefined);
  }
}

function isFunctionNode(node: AnyNode | undefined): boolean {
  return (
    node?.type === "FunctionDeclaration" ||
    node?.type === "FunctionExpression" ||
    node?.type === "ArrowFunctionExpression"
  );
}

function isReference(node: AnyNode, parent: AnyNode | undefined): boolean {
  if (parent === undefined) return true;
  if (parent.type === "MemberExpression")
    return parent["object"] === node || parent["computed"] === true;
  if (parent.type === "Property") return parent["value"] === node || parent["computed"] === true;
  if (
    parent.type === "LabeledStatement" ||
    parent.type === "BreakStatement" ||
    parent.type === "ContinueStatement"
  )
    return false;
  return true;
}

function children(node: AnyNode): AnyNode[] {
  const found: AnyNode[] = [];
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (
        typeof child === "object" &&
        child !== null &&
        typeof (child as { type?: unknown }).type === "string"
      ) {
        found.push(child as AnyNode);
      }
    }
  }
  return found;
}
