// Views: GET, HEAD and POST on a view, several queries at once, and the same inside a partition (VIEWS §7–§20). These requests are most
// of what a server gets, so they do without a framework: one pass from the URL to one write.

import { createHash } from "node:crypto";
import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { crc32 } from "node:zlib";

import {
  JSON_PARAMETERS,
  parseViewBody,
  parseViewQuery,
  queriesText,
  requirePartition,
  resolveViewQueries,
  resolveViewQuery,
  type ResolvedQuery,
  type ViewAnswer,
} from "../query/index.js";
import type { PreparedQuery } from "../view-index.js";
import { readJsonBody } from "./body.js";
import type { HttpContext } from "./context.js";
import { methodNotAllowed, RequestError, toHttpError } from "./errors.js";
import { sendAnswer, sendError, sendNotModified, sendWhole } from "./send.js";
import type { OpenedView } from "./service.js";

/** What a view's URL names. */
export interface ViewPath {
  readonly db: string;
  /** As in the URL, escapes and all. */
  readonly partition: string | undefined;
  readonly ddoc: string;
  readonly view: string;
  /** `…/_view/NAME/queries`. */
  readonly queries: boolean;
}

const VIEW_PATH =
  /^\/([^/]+)(?:\/_partition\/([^/]*))?\/_design\/([^/]+)\/_view\/([^/]+)(\/queries)?\/?$/;

/** Answers up to this size are sent in one write. */
const WHOLE_CHARACTERS = 64 * 1024;

/**
 * @param path - without query string.
 * @throws RequestError 400 for escapes that are none.
 */
export function viewPathOf(path: string): ViewPath | undefined {
  const known = knownPaths.get(path);
  if (known) return known;
  const match = VIEW_PATH.exec(path);
  if (!match) return undefined;
  const [, db = "", partition, ddoc = "", view = "", queries] = match;
  const found = {
    db: decoded(db),
    partition,
    ddoc: decoded(ddoc),
    view: decoded(view),
    queries: queries !== undefined,
  };
  if (path.length > KNOWN_CHARACTERS_MAX) return found;
  if (knownPaths.size === KNOWN_PATHS_MAX) knownPaths.clear();
  knownPaths.set(path, found);
  return found;
}

/** Paths that were taken apart: a program asks few views, over and over. */
const knownPaths = new Map<string, ViewPath>();
const KNOWN_PATHS_MAX = 1000;
const KNOWN_CHARACTERS_MAX = 500;

/** @throws RequestError 400 */
export function decoded(segment: string): string {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new RequestError(400, "bad_request", `the URL's ${segment} is not percent-encoded UTF-8`);
  }
}

/** @throws RequestError 400 */
function decodedPartition(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new RequestError(400, "illegal_partition", "Partition must be valid UTF-8");
  }
}

/**
 * The query string's pairs in order; repeated names are kept, the last wins.
 * @throws RequestError 400 for a key whose bytes are no UTF-8.
 */
export function queryPairs(url: string): [string, string][] {
  const mark = url.indexOf("?");
  if (mark < 0) return [];
  const pairs: [string, string][] = [];
  for (const part of url.slice(mark + 1).split("&")) {
    if (part === "") continue;
    const end = part.indexOf("=");
    if (end < 0) pairs.push([unescaped(part), ""]);
    else {
      const name = unescaped(part.slice(0, end));
      pairs.push([name, unescaped(part.slice(end + 1), JSON_PARAMETERS.has(name))]);
    }
  }
  return pairs;
}

/** @param json - whether bytes that are no UTF-8 are refused instead of replaced. */
function unescaped(part: string, json = false): string {
  const text = part.includes("+") ? part.replaceAll("+", " ") : part;
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return leniently(text, json);
  }
}

/** As browsers read it: escapes that are none stand for themselves. */
function leniently(text: string, json: boolean): string {
  const bytes = Buffer.from(
    Buffer.from(text)
      .toString("latin1")
      .replace(/%[0-9a-f]{2}/gi, (escape) => String.fromCharCode(Number(`0x${escape.slice(1)}`))),
    "latin1",
  );
  if (json && !isUtf8(bytes)) throw new RequestError(400, "bad_request", "invalid UTF-8 JSON");
  return bytes.toString();
}

/** @throws RequestError 404 for another database. */
export function requireDatabase(context: HttpContext, name: string): void {
  if (name !== context.db) throw new RequestError(404, "not_found", "Database does not exist.");
}

export class ViewHandler {
  readonly #context: HttpContext;

  constructor(context: HttpContext) {
    this.#context = context;
  }

  /** Answers; never throws. */
  async handle(request: IncomingMessage, response: ServerResponse, path: ViewPath): Promise<void> {
    const began = performance.now();
    try {
      requireDatabase(this.#context, path.db);
      const partition = this.#partitionOf(path, request.url ?? "");
      const { method } = request;
      if (path.queries) {
        if (method !== "POST") throw methodNotAllowed("POST");
        await this.#several(request, response, path, partition);
      } else if (method === "GET" || method === "HEAD")
        await this.#one(request, response, path, partition, undefined);
      else if (method === "POST")
        await this.#one(request, response, path, partition, await this.#body(request));
      else throw methodNotAllowed("GET,POST,HEAD");
    } catch (error) {
      const told = toHttpError(error);
      if (told.status >= 500 && !response.destroyed)
        this.#context.onWarning(`${request.url ?? ""}: ${told.error}: ${told.reason}`);
      sendError(request, response, told, told.status === 413 ? ["Connection", "close"] : []);
    }
    this.#context.metrics.time(performance.now() - began);
  }

  /**
   * The partition that the path names. CouchDB looks at it before anything else of the request.
   * @throws RequestError, QueryError 400.
   */
  #partitionOf({ partition }: ViewPath, url: string): string | undefined {
    if (partition === undefined) return undefined;
    if (!this.#context.service.partitioned)
      throw new RequestError(400, "bad_request", "database is not partitioned");
    const name = decodedPartition(partition);
    requirePartition(name, queryPairs(url));
    return name;
  }

  #body(request: IncomingMessage): Promise<string> {
    return readJsonBody(request, this.#context.bodyBytesMax);
  }

  async #one(
    request: IncomingMessage,
    response: ServerResponse,
    path: ViewPath,
    partition: string | undefined,
    body: string | undefined,
  ): Promise<void> {
    const url = request.url ?? "";
    const opened = await this.#context.service.view(
      path.ddoc,
      path.view,
      (shape) => {
        const parsed = parseViewQuery(
          queryPairs(url),
          body === undefined ? undefined : parseViewBody(body),
          { partition },
        );
        return resolveViewQuery(parsed, shape);
      },
      (query) => query.update,
    );
    const query = opened.resolved;
    const prepared = await opened.prepare(query, { label: labelOf(path) });
    try {
      if (response.destroyed) return;
      const etag = body === undefined ? versionOf(prepared, query, url) : undefined;
      if (
        etag !== undefined &&
        request.headers["if-none-match"] !== undefined &&
        sendNotModified(this.#context, request, response, etag)
      )
        return;
      const { answer } = prepared;
      if (query.keys === undefined) {
        const head = answer.head(WHOLE_CHARACTERS);
        // Most answers are there at once: only others can be aborted.
        if (head.rest === undefined && sendWhole(this.#context, request, response, head.text, etag))
          return;
        answer.abortBy(abortedWithClient(response));
        await sendAnswer(this.#context, request, response, await settled(head), etag);
        return;
      }
      // A list may begin with many keys that have no rows, which takes turns.
      answer.abortBy(abortedWithClient(response));
      const text = await beginning(answer.text());
      await sendAnswer(this.#context, request, response, text, etag);
    } finally {
      prepared.release();
    }
  }

  async #several(
    request: IncomingMessage,
    response: ServerResponse,
    path: ViewPath,
    partition: string | undefined,
  ): Promise<void> {
    const body = await this.#body(request);
    const pairs = queryPairs(request.url ?? "");
    const opened = await this.#context.service.view(
      path.ddoc,
      path.view,
      (shape) => resolveViewQueries(pairs, body, shape, { partition }),
      (queries) => queries[0]?.update ?? false,
    );
    const prepared: PreparedQuery[] = [];
    try {
      const text = queriesText(answersOf(opened, path, abortedWithClient(response), prepared));
      await sendAnswer(this.#context, request, response, await beginning(text), undefined);
    } finally {
      for (const { release } of prepared) release();
    }
  }
}

/** Each query is run in turn, as CouchDB does (VIEWS §18). */
async function* answersOf(
  opened: OpenedView<readonly ResolvedQuery[]>,
  path: ViewPath,
  signal: AbortSignal,
  prepared: PreparedQuery[],
): AsyncGenerator<ViewAnswer, void, undefined> {
  for (const query of opened.resolved) {
    const one = await opened.prepare(query, { signal, label: labelOf(path) });
    prepared.push(one);
    yield one.answer;
    one.release();
  }
}

/** What messages of reduces call the view. */
function labelOf({ db, ddoc, view }: ViewPath): string {
  return `${db}/_design/${ddoc}/_view/${view}`;
}

/**
 * What a strong ETag is made of: known before anything is read. None where the bytes depend on more than the rows: documents are read
 * when they are sent, and costs differ from run to run.
 */
function versionOf(
  { version, updateSeq }: PreparedQuery,
  query: ResolvedQuery,
  url: string,
): string | undefined {
  if (query.includeDocs || query.explain) return undefined;
  const mark = url.indexOf("?");
  const asked = mark < 0 ? "" : `-${crc32(url.slice(mark)).toString(36)}`;
  const seq = query.updateSeq ? `-${createHash("sha1").update(updateSeq).digest("base64url")}` : "";
  return `${version}${asked}${seq}`;
}

/** A first step that must be waited for may fail: that is an ordinary error as long as nothing was sent. */
async function settled(
  head: ReturnType<ViewAnswer["head"]>,
): Promise<{ text: string; rest: AsyncGenerator<string, void, undefined> | undefined }> {
  if (!head.rest || head.text.length >= WHOLE_CHARACTERS) return head;
  const { text, rest } = await beginning(head.rest, head.text);
  return { text, rest };
}

/** Reads chunks up to about what is sent in one write. */
export async function beginning(
  chunks: AsyncGenerator<string, void, undefined>,
  before = "",
): Promise<{ text: string; rest: AsyncGenerator<string, void, undefined> | undefined }> {
  let text = before;
  while (text.length < WHOLE_CHARACTERS) {
    const step = await chunks.next();
    if (step.done === true) return { text, rest: undefined };
    text += step.value;
  }
  return { text, rest: chunks };
}

/** Fires when the client goes away before the answer has ended. */
function abortedWithClient(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}
