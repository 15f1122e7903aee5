// Which names a function of a module takes from around it, and which statements of the module make them. Enough of scope analysis to take
// a function out of its module together with what it uses.

import { parse, type Node } from "acorn";

type AnyNode = Node & Readonly<Record<string, unknown>>;

interface Frame {
  readonly names: Set<string>;
  readonly parent: Frame | undefined;
  /** Where `var` and functions are declared. */
  readonly ofFunction: boolean;
}

/** A function of the module, as `toString` prints it. */
export interface ModuleFunction {
  readonly start: number;
  readonly end: number;
  /** Of a method the text begins with its name, and this is where its parameters begin; else undefined. */
  readonly parameters: number | undefined;
  /** The name at the top of the module that it is declared as, or the value of. */
  readonly binding: string | undefined;
  readonly line: number;
}

/** What a function uses that is not its own. */
export interface OuterNames {
  /** Declared at the top of the module, or imported. */
  readonly ofModule: ReadonlySet<string>;
  /** Declared in a function or block around it. */
  readonly ofEnclosing: ReadonlySet<string>;
  /** Declared nowhere: globals. */
  readonly free: ReadonlySet<string>;
}

export interface Statement {
  readonly start: number;
  readonly end: number;
}

export class ModuleScope {
  readonly #text: string;
  readonly #frames = new Map<Node, Frame>();
  readonly #top: Frame = { names: new Set(), parent: undefined, ofFunction: true };
  readonly #statements: readonly AnyNode[];
  readonly #functions: ModuleFunction[] = [];
  readonly #nodes = new Map<ModuleFunction, AnyNode>();

  /** @throws SyntaxError when the text is neither a module nor a script. */
  constructor(text: string) {
    this.#text = text;
    const program = parseAny(text);
    this.#statements = program["body"] as AnyNode[];
    this.#declareIn(program, this.#top, undefined);
  }

  /** The functions that print so. */
  find(printed: string): readonly ModuleFunction[] {
    return this.#functions.filter(({ start, end }) => this.#text.slice(start, end) === printed);
  }

  outerNames(fn: ModuleFunction): OuterNames {
    const outer = {
      ofModule: new Set<string>(),
      ofEnclosing: new Set<string>(),
      free: new Set<string>(),
    };
    const node = this.#nodes.get(fn) as AnyNode;
    this.#references(node, undefined, (identifier, frame) => {
      const declared = frameOf(frame, identifier);
      if (declared === undefined) outer.free.add(identifier);
      else if (declared === this.#top) outer.ofModule.add(identifier);
      else if (!this.#isWithin(declared, node)) outer.ofEnclosing.add(identifier);
    });
    return outer;
  }

  /**
   * Statements at the top of the module that make the names, with all that these need, in order: declarations, and statements that change
   * what they declare.
   * @param without - names that are not followed.
   */
  closure(names: Iterable<string>, without: ReadonlySet<string>): readonly Statement[] {
    const wanted = new Set([...names].filter((name) => !without.has(name)));
    const taken = new Set<AnyNode>();
    for (let grown = true; grown;) {
      grown = false;
      for (const statement of this.#statements) {
        if (taken.has(statement) || !this.#makes(statement, wanted)) continue;
        taken.add(statement);
        grown = true;
        this.#references(statement, undefined, (name, frame) => {
          if (!without.has(name) && frameOf(frame, name) === this.#top) wanted.add(name);
        });
      }
    }
    return this.#statements.filter((statement) => taken.has(statement));
  }

  /** The statement at the top of the module that a function stands in. */
  statementOf(fn: ModuleFunction): Statement {
    const found = this.#statements.find(({ start, end }) => start <= fn.start && fn.end <= end);
    return found ?? { start: 0, end: this.#text.length };
  }

  /** Whether anything in the module has the name, or asks for it. */
  mentions(name: string): boolean {
    const asked = new Set<string>();
    for (const statement of this.#statements)
      this.#references(statement, undefined, (identifier) => asked.add(identifier));
    return asked.has(name) || [...this.#frames.values()].some(({ names }) => names.has(name));
  }

  /** Positions of an identifier that means a name of the module. */
  uses(name: string): readonly number[] {
    const found: number[] = [];
    for (const statement of this.#statements)
      this.#references(statement, undefined, (identifier, frame, node) => {
        if (identifier === name && frameOf(frame, name) === this.#top) found.push(node.start);
      });
    return found;
  }

  #makes(statement: AnyNode, wanted: ReadonlySet<string>): boolean {
    const declares = (name: string): boolean => wanted.has(name);
    if (namesDeclared(statement).some(declares)) return true;
    if (statement.type.endsWith("Declaration") || isTalk(statement)) return false;
    return changes(statement).some(
      (root) =>
        wanted.has(root.name) && frameOf(this.#frames.get(root.node), root.name) === this.#top,
    );
  }

  #isWithin(frame: Frame, node: AnyNode): boolean {
    const own = this.#frames.get(node);
    for (let at: Frame | undefined = frame; at !== undefined; at = at.parent)
      if (at === own) return true;
    return false;
  }

  /** Frames for all that has one, with the names declared in them. */
  #declareIn(node: AnyNode, outer: Frame, parent: AnyNode | undefined): void {
    let frame = outer;
    if (isFunction(node)) {
      if (node.type === "FunctionDeclaration") declare(node["id"], outer);
      frame = { names: new Set(), parent: outer, ofFunction: true };
      if (node.type === "FunctionExpression") declare(node["id"], frame);
      if (node.type !== "ArrowFunctionExpression") frame.names.add("arguments");
      for (const parameter of node["params"] as AnyNode[]) declare(parameter, frame);
      this.#note(node, parent, outer);
    } else if (node.type === "ClassDeclaration" || node.type === "ClassExpression") {
      if (node.type === "ClassDeclaration") declare(node["id"], outer);
      frame = { names: new Set(), parent: outer, ofFunction: false };
      declare(node["id"], frame);
    } else if (BLOCKS.has(node.type)) {
      frame = { names: new Set(), parent: outer, ofFunction: node.type === "StaticBlock" };
      if (node.type === "CatchClause") declare(node["param"], frame);
    } else if (node.type === "VariableDeclaration") {
      let to = outer;
      while (node["kind"] === "var" && !to.ofFunction && to.parent) to = to.parent;
      for (const { id } of node["declarations"] as { id: unknown }[]) declare(id, to);
    } else if (node.type.startsWith("Import") && node.type.endsWith("Specifier")) {
      declare(node["local"], outer);
    }
    this.#frames.set(node, frame);
    for (const child of children(node)) this.#declareIn(child, frame, node);
  }

  #note(node: AnyNode, parent: AnyNode | undefined, outer: Frame): void {
    const method =
      (parent?.type === "Property" && (parent["method"] === true || parent["kind"] !== "init")) ||
      parent?.type === "MethodDefinition";
    const { start, end } = method ? parent : node;
    const bound =
      node.type === "FunctionDeclaration"
        ? node["id"]
        : parent?.type === "VariableDeclarator" && parent["init"] === node
          ? parent["id"]
          : undefined;
    const fn: ModuleFunction = {
      start,
      end,
      parameters: method ? node.start : undefined,
      binding: outer === this.#top ? namesOf(bound)[0] : undefined,
      line: (node.loc as NonNullable<Node["loc"]>).start.line,
    };
    this.#functions.push(fn);
    this.#nodes.set(fn, node);
  }

  #references(
    node: AnyNode,
    parent: AnyNode | undefined,
    visit: (name: string, frame: Frame | undefined, node: AnyNode) => void,
  ): void {
    if (node.type === "Identifier" && isReference(node, parent))
      visit(node["name"] as string, this.#frames.get(node), node);
    for (const child of children(node)) this.#references(child, node, visit);
  }
}

const BLOCKS: ReadonlySet<string> = new Set([
  "BlockStatement",
  "ForStatement",
  "ForInStatement",
  "ForOfStatement",
  "SwitchStatement",
  "CatchClause",
  "StaticBlock",
]);

function parseAny(text: string): AnyNode {
  const options = { ecmaVersion: "latest", allowHashBang: true, locations: true } as const;
  try {
    return parse(text, { ...options, sourceType: "module" }) as unknown as AnyNode;
  } catch (error) {
    try {
      return parse(text, {
        ...options,
        sourceType: "script",
        allowReturnOutsideFunction: true,
      }) as unknown as AnyNode;
    } catch {
      throw error;
    }
  }
}

function isFunction(node: AnyNode): boolean {
  return (
    node.type === "FunctionDeclaration" ||
    node.type === "FunctionExpression" ||
    node.type === "ArrowFunctionExpression"
  );
}

/** The names of a pattern. */
function namesOf(pattern: unknown): string[] {
  if (!isNode(pattern)) return [];
  if (pattern.type === "Identifier") return [pattern["name"] as string];
  return children(pattern).flatMap((child) =>
    (pattern.type === "AssignmentPattern" && child === pattern["right"]) ||
    (pattern.type === "Property" && child === pattern["key"] && child !== pattern["value"])
      ? []
      : namesOf(child),
  );
}

function declare(pattern: unknown, frame: Frame): void {
  for (const name of namesOf(pattern)) frame.names.add(name);
}

function frameOf(from: Frame | undefined, name: string): Frame | undefined {
  let frame = from;
  while (frame !== undefined && !frame.names.has(name)) frame = frame.parent;
  return frame;
}

/** Names that a statement declares at the level it stands on; a `var` also from within blocks. */
function namesDeclared(node: AnyNode): string[] {
  switch (node.type) {
    case "ImportDeclaration":
      return (node["specifiers"] as AnyNode[]).flatMap((one) => namesOf(one["local"]));
    case "ExportNamedDeclaration":
    case "ExportDefaultDeclaration":
      return isNode(node["declaration"]) ? namesDeclared(node["declaration"]) : [];
    case "FunctionDeclaration":
    case "ClassDeclaration":
      return namesOf(node["id"]);
    case "VariableDeclaration":
      return (node["declarations"] as AnyNode[]).flatMap(({ id }) => namesOf(id));
    default:
      return isFunction(node)
        ? []
        : children(node)
            .filter((child) => child.type !== "VariableDeclaration" || child["kind"] === "var")
            .filter(
              (child) => child.type !== "FunctionDeclaration" && child.type !== "ClassDeclaration",
            )
            .flatMap(namesDeclared);
  }
}

/** What tells and checks while the module is loaded is nothing that a view needs, or could do. */
const TALKERS: ReadonlySet<string> = new Set(["console", "assert", "process"]);

function isTalk(statement: AnyNode): boolean {
  const { type, expression } = statement;
  if (type !== "ExpressionStatement" || !isNode(expression)) return false;
  return (
    expression.type === "CallExpression" && TALKERS.has(rootOf(expression["callee"])?.name ?? "")
  );
}

/** Namespaces whose functions change none of their arguments. */
const HARMLESS: ReadonlySet<string> = new Set(["JSON", "Math", ...TALKERS]);

interface Root {
  readonly name: string;
  readonly node: AnyNode;
}

/** Variables that a statement assigns to, calls a method of, or hands to a function: what it may change. */
function changes(node: AnyNode): Root[] {
  const own: unknown[] = [];
  if (node.type === "AssignmentExpression") own.push(node["left"]);
  if (
    node.type === "UpdateExpression" ||
    (node.type === "UnaryExpression" && node["operator"] === "delete")
  )
    own.push(node["argument"]);
  if (node.type === "CallExpression") {
    const callee = rootOf(node["callee"]);
    if ((node["callee"] as AnyNode).type === "MemberExpression") own.push(node["callee"]);
    if (!HARMLESS.has(callee?.name ?? "")) own.push(...(node["arguments"] as AnyNode[]));
  }
  return [
    ...own.flatMap((target) => rootOf(target) ?? []),
    ...children(node).flatMap((child) => changes(child)),
  ];
}

function rootOf(expression: unknown): Root | undefined {
  let node = expression;
  while (isNode(node) && node.type === "MemberExpression") node = node["object"];
  return isNode(node) && node.type === "Identifier"
    ? { name: node["name"] as string, node }
    : undefined;
}

/** Parents whose identifiers are names of labels, imports and the like. */
const NO_REFERENCES: ReadonlySet<string> = new Set([
  "LabeledStatement",
  "BreakStatement",
  "ContinueStatement",
  "MetaProperty",
  "ImportSpecifier",
  "ImportDefaultSpecifier",
  "ImportNamespaceSpecifier",
]);

const KEYED: ReadonlySet<string> = new Set(["Property", "PropertyDefinition", "MethodDefinition"]);

function isReference(node: AnyNode, parent: AnyNode | undefined): boolean {
  if (parent === undefined) return true;
  if (parent.type === "MemberExpression")
    return parent["object"] === node || parent["computed"] === true;
  if (KEYED.has(parent.type)) return parent["value"] === node || parent["computed"] === true;
  if (parent.type === "ExportSpecifier") return parent["local"] === node;
  return !NO_REFERENCES.has(parent.type);
}

function isNode(value: unknown): value is AnyNode {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { type?: unknown }).type === "string"
  );
}

function children(node: AnyNode): AnyNode[] {
  return Object.values(node).flatMap((value) =>
    Array.isArray(value) ? (value as unknown[]).filter(isNode) : isNode(value) ? [value] : [],
  );
}
