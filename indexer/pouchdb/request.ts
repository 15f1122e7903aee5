// What `db.query(fun, options)` asks for: PouchDB's three ways to name a view, and its options as CouchDB's parameters.

import { createHash } from "node:crypto";

import { parseExpressionAt, type Expression } from "acorn";

import { QueryError } from "../query/index.js";
import type { QueryParameters } from "../view-index.js";

/** A map function, or both functions of a view, as functions or as their texts. */
export type TemporaryView =
  | ((...args: never[]) => unknown)
  | {
      readonly map: string | ((...args: never[]) => unknown);
      readonly reduce?: string | ((...args: never[]) => unknown);
    };

/** Options of `db.query`: CouchDB's parameters as values, and PouchDB's own. */
export interface QueryRequestOptions {
  /** A reduce function, or the name of a built-in one, for a temporary view; else whether to reduce. */
  readonly reduce?: unknown;
  /** Attachments of included documents as Buffers. Default false: as base64. */
  readonly binary?: boolean;
  readonly [parameter: string]: unknown;
}

export interface NamedView {
  readonly designDocument: string;
  readonly view: string;
}

/** A design document made for one view that no document holds. Its name is a digest of its functions. */
export interface MadeView extends NamedView {
  readonly json: string;
}

/** Name of the view in a design document made for it, as PouchDB calls it. */
const TEMPORARY = "temp_view";

/** `"shop/by_day"`, or `"by_day"` for the view of that name in the design document of that name. */
export function namedView(name: string): NamedView {
  const slash = name.indexOf("/");
  return slash < 0
    ? { designDocument: name, view: name }
    : { designDocument: name.slice(0, slash), view: name.slice(slash + 1) };
}

/**
 * A view given as functions. Only their texts are used: they see nothing of the scope they were written in.
 * @throws QueryError 400 for what is neither a function nor a text.
 */
export function madeView(given: TemporaryView, reduceOption: unknown): MadeView {
  const { map, reduce } = typeof given === "function" ? { map: given, reduce: undefined } : given;
  const chosen =
    typeof reduceOption === "string" || typeof reduceOption === "function" ? reduceOption : reduce;
  const view = {
    map: mapText(map),
    ...(chosen === undefined ? {} : { reduce: functionText(chosen, "reduce") }),
  };
  const digest = createHash("sha256").update(JSON.stringify(view)).digest("hex").slice(0, 32);
  return {
    designDocument: digest,
    view: TEMPORARY,
    json: JSON.stringify({ _id: `_design/${digest}`, views: { [TEMPORARY]: view } }),
  };
}

/** What is passed on of the options: everything defined but PouchDB's own. */
export function parametersOf(options: QueryRequestOptions): QueryParameters {
  const parameters: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || name === "binary") continue;
    parameters[name] = INTEGERS.has(name) ? integer(value) : value;
  }
  const { reduce } = options;
  if (typeof reduce === "string" || typeof reduce === "function") parameters["reduce"] = true;
  return parameters;
}

const INTEGERS = new Set(["group_level", "limit", "skip"]);

/** PouchDB takes these as text too. */
function integer(value: unknown): unknown {
  return typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value;
}

/** PouchDB hands `emit` over as a second argument to those who ask for it. */
function mapText(map: unknown): string {
  const text = functionText(map, "map");
  return typeof map === "function" && map.length > 1
    ? `function (doc) { return (${text})(doc, emit); }`
    : text;
}

function functionText(given: unknown, what: string): string {
  if (typeof given === "string") return given;
  if (typeof given !== "function") throw invalid(`a view's ${what} must be a function or its text`);
  const text = Function.prototype.toString.call(given);
  if (isFunctionText(text)) return text;
  // A method of an object, `{ map(doc) {…} }`: its text is an expression only inside of one.
  const method = `({ ${text} })[${JSON.stringify(given.name)}]`;
  if (isExpression(method)) return `function (...args) { return ${method}(...args); }`;
  throw invalid(`the text of a view's ${what} function cannot be read: ${text.slice(0, 80)}`);
}

function isFunctionText(text: string): boolean {
  const type = expression(text)?.type;
  return type === "FunctionExpression" || type === "ArrowFunctionExpression";
}

function isExpression(text: string): boolean {
  return expression(text) !== undefined;
}

function expression(text: string): Expression | undefined {
  try {
    const found = parseExpressionAt(text, 0, { ecmaVersion: "latest" });
    return text.slice(found.end).trim() === "" ? found : undefined;
  } catch {
    return undefined;
  }
}

function invalid(reason: string): QueryError {
  return new QueryError(400, "query_parse_error", reason);
}
