// Query parameters (VIEWS §7): names, aliases, defaults and the errors of reading them one by one, in the order given.
// What they mean together is checked in resolve.ts. Keys stay raw JSON text, so that member order survives.

import { badRequest, parseError, QueryError } from "./errors.js";
import { erlangString, erlangTerm } from "./erlang-text.js";
import { arrayElements, jsonKind } from "./json-slices.js";
import { assertJson } from "./json-text.js";
import { type ViewBody } from "./body.js";

/** A query as it was asked. Keys are raw JSON texts. */
export interface ViewQuery {
  /** Absent: yes if the view has a reduce. */
  readonly reduce?: boolean;
  readonly startKey?: string;
  readonly endKey?: string;
  /** `undefined`: not given. `"invalid"`: not a list. A list of one key arrives as startKey and endKey (VIEWS §10). */
  readonly keys?: readonly string[] | "invalid";
  readonly startKeyDocId?: string;
  readonly endKeyDocId?: string;
  readonly inclusiveEnd: boolean;
  readonly descending: boolean;
  /** Rows at most; Infinity without a limit. */
  readonly limit: number;
  readonly skip: number;
  readonly group?: boolean;
  readonly groupLevel?: number;
  readonly includeDocs: boolean;
  /** Absent: not asked; on a reduce even `false` is an error. */
  readonly conflicts?: boolean;
  readonly attachments: boolean;
  readonly attEncodingInfo: boolean;
  readonly update: true | false | "lazy";
  readonly stable: boolean;
  readonly updateSeq: boolean;
  readonly sorted: boolean;
  readonly partition?: string;
  /** Our own: statistics with the answer. Anything but `true` is false, as for CouchDB, which ignores it. */
  readonly explain: boolean;
}

export type QueryDraft = { -readonly [Name in keyof ViewQuery]: ViewQuery[Name] };

/** A query without parameters. */
export function defaultQuery(): QueryDraft {
  return {
    inclusiveEnd: true,
    descending: false,
    limit: Infinity,
    skip: 0,
    includeDocs: false,
    attachments: false,
    attEncodingInfo: false,
    update: true,
    stable: false,
    updateSeq: false,
    sorted: true,
    explain: false,
  };
}

/** A parameter's value: text of a query string, or JSON text of a body. */
interface Value {
  readonly text: string;
  readonly json: boolean;
}

/** The value as a word: `true` and `"true"` of a body are what `true` is in a query string. */
function word(value: Value): string | undefined {
  if (!value.json) return value.text;
  if (value.text.startsWith('"')) return JSON.parse(value.text) as string;
  return value.text === "true" || value.text === "false" ? value.text : undefined;
}

function printed(value: Value): string {
  return value.json ? erlangTerm(value.text) : erlangString(value.text);
}

function boolean(value: Value): boolean {
  // As nearly all write it.
  if (value.text === "true") return true;
  if (value.text === "false") return false;
  const text = word(value);
  const lower = text?.toLowerCase();
  if (lower === "true") return true;
  if (lower === "false") return false;
  // A string of a body is turned into a list first, so it prints like one of a query string.
  const shown = text === undefined ? printed(value) : erlangString(text);
  throw parseError(`Invalid boolean parameter: ${shown}`);
}

/** A non-negative integer; beyond 2^53-1 all are as good as that. */
function natural(value: Value): number {
  if (!(value.json ? /^-?[0-9]+$/ : /^[+-]?[0-9]+$/).test(value.text)) {
    throw parseError(`Invalid value for integer: ${printed(value)}`);
  }
  const number = Number(value.text);
  if (number < 0) throw parseError(`Invalid value for positive integer: ${printed(value)}`);
  return number === 0 ? 0 : Math.min(number, Number.MAX_SAFE_INTEGER);
}

function plainText(value: Value): string {
  return value.json && value.text.startsWith('"') ? (JSON.parse(value.text) as string) : value.text;
}

function keyText(value: Value): string {
  if (!value.json) assertJson(value.text);
  return value.text;
}

function keyList(query: QueryDraft, value: Value): void {
  const text = keyText(value);
  if (jsonKind(text) !== "array") {
    query.keys = "invalid";
    return;
  }
  const keys = arrayElements(text);
  const [only] = keys;
  if (keys.length === 1 && only !== undefined) {
    query.startKey = only;
    query.endKey = only;
  } else {
    query.keys = keys;
  }
}

function illegalPartition(what: string): QueryError {
  return new QueryError(400, "illegal_partition", `Partition ${what}`);
}

/** With the u flag pairs are one character each, so this finds only single ones. */
const LONE_SURROGATE = /\p{Surrogate}/u;

function checkedPartition(value: Value): string {
  if (value.json && !value.text.startsWith('"')) throw illegalPartition("must be a string");
  const name = plainText(value);
  if (name === "") throw illegalPartition("must not be empty");
  if (name.startsWith("_")) throw illegalPartition("must not start with an underscore");
  if (LONE_SURROGATE.test(name)) throw illegalPartition("must be valid UTF-8");
  if (name.includes(":")) throw illegalPartition("must not contain a colon");
  return name;
}

type Setter = (query: QueryDraft, value: Value) => void;

const setStartKey: Setter = (query, value) => {
  query.startKey = keyText(value);
};
const setEndKey: Setter = (query, value) => {
  query.endKey = keyText(value);
};
const setStartKeyDocId: Setter = (query, value) => {
  query.startKeyDocId = plainText(value);
};
const setEndKeyDocId: Setter = (query, value) => {
  query.endKeyDocId = plainText(value);
};

const SETTERS: ReadonlyMap<string, Setter> = new Map<string, Setter>([
  [
    "key",
    (query, value) => {
      query.startKey = query.endKey = keyText(value);
    },
  ],
  ["keys", keyList],
  ["startkey", setStartKey],
  ["start_key", setStartKey],
  ["endkey", setEndKey],
  ["end_key", setEndKey],
  ["startkey_docid", setStartKeyDocId],
  ["start_key_doc_id", setStartKeyDocId],
  ["endkey_docid", setEndKeyDocId],
  ["end_key_doc_id", setEndKeyDocId],
  ["inclusive_end", (query, value) => void (query.inclusiveEnd = boolean(value))],
  ["descending", (query, value) => void (query.descending = boolean(value))],
  ["limit", (query, value) => void (query.limit = natural(value))],
  ["skip", (query, value) => void (query.skip = natural(value))],
  ["reduce", (query, value) => void (query.reduce = boolean(value))],
  ["group", (query, value) => void (query.group = boolean(value))],
  ["group_level", (query, value) => void (query.groupLevel = natural(value))],
  ["include_docs", (query, value) => void (query.includeDocs = boolean(value))],
  ["conflicts", (query, value) => void (query.conflicts = boolean(value))],
  // CouchDB collects these two: once true, a later false does not take them back.
  ["attachments", (query, value) => void (query.attachments = boolean(value) || query.attachments)],
  [
    "att_encoding_info",
    (query, value) => void (query.attEncodingInfo = boolean(value) || query.attEncodingInfo),
  ],
  ["update_seq", (query, value) => void (query.updateSeq = boolean(value))],
  ["sorted", (query, value) => void (query.sorted = boolean(value))],
  ["explain", (query, value) => void (query.explain = word(value)?.toLowerCase() === "true")],
  ["partition", (query, value) => void (query.partition = checkedPartition(value))],
  [
    "update",
    (query, value) => {
      const text = word(value);
      if (text !== "true" && text !== "false" && text !== "lazy") {
        throw parseError("Invalid value for `update`.");
      }
      query.update = text === "lazy" ? "lazy" : text === "true";
    },
  ],
  [
    "stable",
    (query, value) => {
      const text = word(value);
      if (text !== "true" && text !== "false") throw parseError("Invalid value for `stable`.");
      query.stable = text === "true";
    },
  ],
  [
    "stale",
    (query, value) => {
      const text = word(value);
      if (text !== "ok" && text !== "update_after") {
        throw parseError("Invalid value for `stale`.");
      }
      query.stable = true;
      query.update = text === "ok" ? false : "lazy";
    },
  ],
]);

/** Names of all parameters, aliases included. Others are ignored. */
export const PARAMETER_NAMES: readonly string[] = [...SETTERS.keys()];

/** Names of the parameters that are JSON in a query string too. */
export const JSON_PARAMETERS: ReadonlySet<string> = new Set([
  "key",
  "keys",
  "startkey",
  "start_key",
  "endkey",
  "end_key",
]);

export function applyBody(query: QueryDraft, body: ViewBody): void {
  for (const [name, text] of body.members) SETTERS.get(name)?.(query, { text, json: true });
}

export function applyParameters(
  query: QueryDraft,
  params: Iterable<readonly [string, string]>,
): void {
  for (const [name, text] of params) SETTERS.get(name)?.(query, { text, json: false });
}

/**
 * Reads the parameters of an embedding program: JSON values under CouchDB's names. Those that are `undefined` are left out.
 *
 * @throws QueryError for the first parameter that cannot be read (VIEWS §8).
 */
export function parseQueryObject(parameters: Readonly<Record<string, unknown>>): ViewQuery {
  const query = defaultQuery();
  const keys = parameters["keys"] === undefined ? undefined : jsonOf(parameters["keys"]);
  if (keys !== undefined && jsonKind(keys) !== "array")
    throw badRequest("`keys` member must be an array.");
  for (const name of Object.keys(parameters)) {
    const set = SETTERS.get(name);
    const text = set && jsonOf(parameters[name]);
    if (text !== undefined) set?.(query, { text, json: true });
  }
  return query;
}

/** Undefined for what is no JSON. */
function jsonOf(value: unknown): string | undefined {
  if (value === true) return "true";
  if (value === false) return "false";
  return JSON.stringify(value);
}

export interface ParseOptions {
  /** The partition of a `/_partition/{name}/` path. */
  readonly partition?: string | undefined;
}

/**
 * Reads the decoded query string, in order, over the body of a POST: the query string wins (VIEWS §18).
 *
 * @throws QueryError for the first parameter that cannot be read (VIEWS §8).
 */
export function parseViewQuery(
  params: Iterable<readonly [string, string]>,
  body?: ViewBody,
  options: ParseOptions = {},
): ViewQuery {
  const query = defaultQuery();
  if (body) {
    if (body.members.some(([name, text]) => name === "keys" && jsonKind(text) !== "array")) {
      throw badRequest("`keys` member must be an array.");
    }
    applyBody(query, body);
    applyParameters(query, params);
  } else {
    const list = [...params];
    // CouchDB decodes `keys` before it looks at anything else.
    const keys = list.find(([name]) => name === "keys");
    if (keys) assertJson(keys[1]);
    applyParameters(query, list);
  }
  applyPath(query, options);
  return query;
}

/**
 * Checks the partition of a path, and that a query string names no other: what CouchDB does before it looks for the view.
 * @throws QueryError 400.
 */
export function requirePartition(
  partition: string,
  params: Iterable<readonly [string, string]>,
): void {
  checkedPartition({ text: partition, json: false });
  for (const [name, text] of params) {
    if (name === "partition" && text !== partition) throw conflictingPartition();
  }
}

function conflictingPartition(): QueryError {
  return badRequest("Conflicting value for `partition` in query string");
}

export function applyPath(query: QueryDraft, options: ParseOptions): void {
  if (options.partition === undefined) return;
  const partition = checkedPartition({ text: options.partition, json: false });
  if (query.partition !== undefined && query.partition !== partition) throw conflictingPartition();
  query.partition = partition;
}
