// Marks in a source where it is. Realms capture no stacks (SECURITY.md tells why), so to say where a function throws it is run once more,
// as a copy that notes its own position: every function of the source keeps a frame, every statement writes its place into it. Only
// frames of the user's own code can show up that way. Lines and columns are those of the source as written.
import type { Node } from "acorn";
import type { Prepared } from "./source.js";

/** Globals that the copy calls; no source may contain the name already. */
export const TRACE_NAME = "__viewmill_trace";

const CLOSES = 0;
const OPENS = 1;

interface Edit {
  readonly at: number;
  /** At equal places: what closes (inner first, as pushed) comes before what opens (outer first, as pushed). */
  readonly order: number;
  readonly text: string;
}

type AnyNode = Node & Readonly<Record<string, unknown>>;

/** The copy's text, or undefined when the source cannot be marked. */
export function instrument(prepared: Prepared): string | undefined {
  const { source, program } = prepared;
  if (source.includes(TRACE_NAME)) return undefined;
  const edits: Edit[] = [];
  const starts = lineStarts(source);
  const place = (at: number): string => {
    let low = 0;
    for (let high = starts.length; high - low > 1;) {
      const middle = (low + high) >> 1;
      if ((starts[middle] as number) <= at) low = middle;
      else high = middle;
    }
    return `${low + 1},${at - (starts[low] as number) + 1}`;
  };
  const insert = (at: number, order: number, text: string): void => {
    edits.push({ at, order, text });
  };
  const mark = (at: number): string => `${TRACE_NAME}.at(${place(at)});`;

  /** Opens a function's frame; answers what closes it, to be called after its body was visited. */
  const enter = (node: AnyNode, name: string): (() => void) => {
    const body = node["body"] as AnyNode;
    const about = `${JSON.stringify(name)},${place(body.type === "BlockStatement" ? node.start : body.start)}`;
    if (body.type !== "BlockStatement") {
      // An arrow's expression; the parentheses around it, if any, stay around it.
      insert(body.start, OPENS, `${TRACE_NAME}.expression(${about},()=>(`);
      return () => {
        insert(body.end, CLOSES, "))");
      };
    }
    const depth = `${TRACE_NAME}_depth`;
    const error = `${TRACE_NAME}_e`;
    const open = `const ${depth}=${TRACE_NAME}.enter(${about});try{`;
    const close = `}catch(${error}){${TRACE_NAME}.thrown(${error});throw ${error}}finally{${TRACE_NAME}.leave(${depth})}`;
    let at = body.start + 1;
    let statements = 0;
    for (const statement of body["body"] as AnyNode[]) {
      if ("directive" in statement) at = statement.end;
      else statements++;
    }
    // A body that runs nothing cannot throw.
    if (statements === 0) return () => undefined;
    insert(at, OPENS, `;${open}`);
    return () => {
      insert(body.end - 1, CLOSES, close);
    };
  };
  const visit = (node: AnyNode, name: string): void => {
    let inner = name;
    if (isFunction(node)) {
      if (node["generator"] === true) return;
      inner = nameOf(node, name);
      const leave = enter(node, inner);
      for (const parameter of node["params"] as AnyNode[]) visit(parameter, inner);
      const body = node["body"] as AnyNode;
      if (body.type === "BlockStatement") statements(body["body"] as AnyNode[], inner);
      else visit(body, inner);
      leave();
      return;
    }
    if (node.type === "BlockStatement" || node.type === "StaticBlock") {
      statements(node["body"] as AnyNode[], inner);
      return;
    }
    if (node.type === "SwitchCase") {
      if (node["test"]) visit(node["test"] as AnyNode, inner);
      statements(node["consequent"] as AnyNode[], inner);
      return;
    }
    for (const [key, value] of Object.entries(node)) {
      const named = hint(node, key) ?? inner;
      for (const child of Array.isArray(value) ? (value as unknown[]) : [value]) {
        if (!isNode(child)) continue;
        if (isLoneStatement(node, key, child)) {
          insert(child.start, OPENS, `{${mark(child.start)}`);
          visit(child, named);
          insert(child.end, CLOSES, "}");
        } else visit(child, named);
      }
    }
  };
  const statements = (list: readonly AnyNode[], name: string): void => {
    for (const statement of list) {
      // Declarations of functions run nothing; directives must stay first.
      if (!("directive" in statement) && statement.type !== "FunctionDeclaration") {
        insert(statement.start, OPENS, mark(statement.start));
      }
      visit(statement, name);
    }
  };
  for (const statement of program.body) visit(statement as AnyNode, "");
  for (const { start, end } of prepared.wraps) {
    insert(start, OPENS, "(");
    insert(end, CLOSES - 1, ");");
  }
  return apply(source, edits) + prepared.tail;
}

function apply(source: string, edits: Edit[]): string {
  edits.sort((a, b) => a.at - b.at || a.order - b.order);
  let text = "";
  let at = 0;
  for (const edit of edits) {
    text += source.slice(at, edit.at) + edit.text;
    at = edit.at;
  }
  return text + source.slice(at);
}

function isFunction(node: AnyNode): boolean {
  return (
    node.type === "FunctionDeclaration" ||
    node.type === "FunctionExpression" ||
    node.type === "ArrowFunctionExpression"
  );
}

function nameOf(node: AnyNode, given: string): string {
  const id = node["id"] as (AnyNode & { name: string }) | null | undefined;
  return id ? id.name : given === "" ? "(anonymous)" : given;
}

/** `var f = function` and `{f: function}` name their function. */
function hint(node: AnyNode, key: string): string | undefined {
  const holder = node.type === "VariableDeclarator" && key === "init" ? node["id"] : undefined;
  const target = node.type === "AssignmentExpression" && key === "right" ? node["left"] : holder;
  const named =
    (node.type === "Property" || node.type === "MethodDefinition") && key === "value"
      ? node["key"]
      : target;
  const name = (named as { name?: unknown } | undefined)?.name;
  if (typeof name === "string") return name;
  return key === "expression" || key === "argument" || key === "arguments" || key === "callee"
    ? ""
    : undefined;
}

// `if (a) b();`: a statement that may stand without braces.
function isLoneStatement(node: AnyNode, key: string, child: AnyNode): boolean {
  if (!["consequent", "alternate", "body"].includes(key) || child.type === "BlockStatement")
    return false;
  if (node.type === "IfStatement")
    return child.type !== "IfStatement" || key === "consequent" ? isStatement(child) : false;
  return [
    "ForStatement",
    "ForInStatement",
    "ForOfStatement",
    "WhileStatement",
    "DoWhileStatement",
  ].includes(node.type);
}

function isStatement(node: AnyNode): boolean {
  return node.type.endsWith("Statement");
}

function isNode(value: unknown): value is AnyNode {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { type?: unknown }).type === "string"
  );
}

function lineStarts(source: string): number[] {
  const starts = [0];
  for (const m of source.matchAll(/\r\n|[\n\r\u2028\u2029]/g)) starts.push(m.index + m[0].length);
  return starts;
}
