// From a function's source as people write it to a script V8 takes (PROTOCOL §17). Old design documents hold anonymous
// `function (doc) {…}` declarations, which JavaScript never allowed: they are put in parentheses, nothing else moves, so line numbers
// stay. What would lead out of a realm or outlive the reply (import(), async functions) is refused here; hence nothing is ever
// compiled that this parser did not understand.
import { Script } from "node:vm";
import { LRUCache } from "lru-cache";
import { Parser, type Node, type Options, type Program } from "acorn";

/** Where and why a source does not compile. `line` and `column` count from 1. */
export interface CompileError {
  readonly message: string;
  readonly line?: number;
  readonly column?: number;
  /** The line of the source that `line` names. */
  readonly sourceLine?: string;
}

export interface Prepared {
  readonly source: string;
  /** The text that runs: same lines as the source. */
  readonly code: string;
  readonly script: Script;
  readonly program: Program;
  /** Where anonymous function statements are put in parentheses. */
  readonly wraps: readonly Wrap[];
  /** Appended so that the script's value is the function: `;name` for a declared one. */
  readonly tail: string;
}

export type PrepareKind = "function" | "declared" | "module";

const NO_ASYNC =
  "async functions are not available in a view: the reply is written when the function returns";

class Refused extends Error {
  readonly pos: number;
  constructor(message: string, pos: number) {
    super(message);
    this.pos = pos;
  }
}

export interface Wrap {
  readonly start: number;
  readonly end: number;
}

// What acorn has but does not declare: the parser's own methods that a plugin overrides.
interface ParserInternals {
  readonly input: string;
  readonly end: number;
  readonly start: number;
  readonly lastTokEnd: number;
  readonly type: { readonly label: string };
  readonly anonymous: Wrap[];
  startNode(): Node;
  parseExprAtom(): Node;
  finishNode(node: Node, type: string): Node;
  eat(type: unknown): boolean;
}

const BLANK = /(?:\s|\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\/)*/y;

function nextCharacter(text: string, from: number): string {
  BLANK.lastIndex = from;
  BLANK.exec(text);
  return text.charAt(BLANK.lastIndex);
}

// Takes `function (…) {…}` as a statement: an expression statement whose semicolon may be missing.
const AnonymousFunctions = Parser.extend((Base) => {
  const base = Base.prototype as unknown as {
    parseFunctionStatement(this: ParserInternals, ...args: unknown[]): Node;
  };
  class WithAnonymous extends Base {
    readonly anonymous: Wrap[] = [];
    parseFunctionStatement(node: Node, isAsync: boolean, position: boolean): Node {
      const self = this as unknown as ParserInternals;
      if (isAsync) throw new Refused(NO_ASYNC, node.start);
      if (nextCharacter(self.input, self.end) !== "(") {
        return base.parseFunctionStatement.call(self, node, isAsync, position);
      }
      const expression = self.parseExprAtom();
      self.anonymous.push({ start: expression.start, end: expression.end });
      const statement = node as Node & { expression?: Node };
      statement.expression = expression;
      return self.finishNode(node, "ExpressionStatement");
    }
  }
  return WithAnonymous;
}) as unknown as new (options: Options, input: string) => ParserInternals & { parse(): Program };

const cache = new LRUCache<string, Prepared | Refusal>({ max: 2000, maxSize: 32 * 1024 * 1024 });
interface Refusal {
  readonly error: CompileError;
}

/** Parses, checks and compiles a source; never throws for anything in the source. Equal sources are prepared once. */
export function prepare(source: string, kind: PrepareKind): Prepared | Refusal {
  const key = `${kind}\n${source}`;
  const known = cache.get(key);
  if (known !== undefined) return known;
  const made = prepareAnew(source, kind);
  cache.set(key, made, { size: key.length + 100 });
  return made;
}

function prepareAnew(source: string, kind: PrepareKind): Prepared | Refusal {
  let program: Program;
  let code: string;
  let wraps: readonly Wrap[];
  let tail = "";
  try {
    const parser = new AnonymousFunctions(
      {
        ecmaVersion: "latest",
        sourceType: "script",
        locations: false,
        allowHashBang: false,
        allowReturnOutsideFunction: kind === "module",
      },
      source,
    );
    program = parser.parse();
    refuseForbidden(program);
    wraps = parser.anonymous;
    code = withParentheses(source, wraps);
    if (kind === "module") code = `(function (module, exports, require) {${code}\n})`;
    else if (kind === "declared") tail = declaredName(program);
    code += tail;
    // Once more, the very text that V8 will see, by the plain parser: the two must mean the same program.
    refuseForbidden(
      Parser.parse(code, { ecmaVersion: "latest", sourceType: "script", allowHashBang: false }),
    );
  } catch (e) {
    return { error: located(source, e) };
  }
  try {
    return {
      source,
      code,
      program,
      wraps,
      tail,
      script: new Script(code, { filename: "function" }),
    };
  } catch (e) {
    const { message } = e as { message?: unknown };
    return { error: { message: `SyntaxError: ${String(message)}` } };
  }
}

function withParentheses(source: string, wraps: readonly Wrap[]): string {
  const points = wraps.flatMap(({ start, end }) => [
    { at: start, text: "(" },
    { at: end, text: ");" },
  ]);
  let code = "";
  let at = 0;
  // A function ends after it starts, so no two points that differ in text are at one place but an end and the next start.
  for (const point of points.sort((a, b) => a.at - b.at || (a.text < b.text ? 1 : -1))) {
    code += source.slice(at, point.at) + point.text;
    at = point.at;
  }
  return code + source.slice(at);
}

// A source that only declares functions has no value; its last function is what its author meant.
function declaredName(program: Program): string {
  let name = "";
  for (const node of program.body) {
    if (node.type === "FunctionDeclaration") name = node.id.name;
    else if (node.type === "ExpressionStatement" && !("directive" in node)) return "";
  }
  return name === "" ? "" : `\n;${name}`;
}

function refuseForbidden(program: Program): void {
  walk(program, (node) => {
    switch (node.type) {
      case "ImportExpression":
        throw new Refused("import() is not available in a view", node.start);
      case "AwaitExpression":
        throw new Refused(
          "await is not available in a view: the reply is written when the function returns",
          node.start,
        );
      case "FunctionDeclaration":
      case "FunctionExpression":
      case "ArrowFunctionExpression":
        if ((node as Node & { async?: boolean }).async === true) {
          throw new Refused(NO_ASYNC, node.start);
        }
    }
  });
}

/** Calls `visit` for every node, parents first. */
export function walk(root: Node, visit: (node: Node, parent: Node | undefined) => void): void {
  const stack: { node: Node; parent: Node | undefined }[] = [{ node: root, parent: undefined }];
  for (let item = stack.pop(); item !== undefined; item = stack.pop()) {
    const { node } = item;
    visit(node, item.parent);
    for (const value of Object.values(node) as unknown[]) {
      for (const child of Array.isArray(value) ? (value as unknown[]) : [value]) {
        if (isNode(child)) stack.push({ node: child, parent: node });
      }
    }
  }
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { type?: unknown }).type === "string"
  );
}

function located(source: string, e: unknown): CompileError {
  const raw = e as { message?: unknown; pos?: unknown };
  const message = `SyntaxError: ${String(raw.message).replace(/ \(\d+:\d+\)$/, "")}`;
  if (typeof raw.pos !== "number") return { message };
  const before = source.slice(0, raw.pos).split(/\r\n|[\n\r\u2028\u2029]/);
  const line = before.length;
  const column = (before[line - 1] as string).length + 1;
  const sourceLine = source.split(/\r\n|[\n\r\u2028\u2029]/)[line - 1] ?? "";
  return { message, line, column, sourceLine };
}

/** One line of text for replies and terminals. */
export function compileErrorText(error: CompileError): string {
  if (error.line === undefined) return error.message;
  return `${error.message} at line ${error.line}, column ${error.column ?? 1}: ${(error.sourceLine ?? "").trim().slice(0, 200)}`;
}
