// Sends answers on a raw response: whole ones in one write, long ones chunk by chunk. Back-pressure holds the query back, a client that
// takes nothing is dropped, and an error after the first bytes ends the connection, so that a truncated answer cannot pass for a whole
// one (VIEWS §20).

import type { IncomingMessage, ServerResponse } from "node:http";
import { createGzip, gzipSync, type Gzip } from "node:zlib";

import type { HttpContext } from "./context.js";
import { errorBody, toHttpError, type HttpError } from "./errors.js";

/** The text of an answer: the beginning, and what may come after it. */
export interface AnswerText {
  readonly text: string;
  readonly rest: AsyncGenerator<string, void, undefined> | undefined;
}

/** Longer beginnings are compressed off this thread. */
const GZIP_AT_ONCE_MAX = 16 * 1024;
const GZIP_CHARACTERS_MIN = 1024;
/** Cheap: views repeat themselves so much that better levels gain little. */
const GZIP = { level: 1 } as const;

/** The client went away, or took nothing for too long. */
class ClientGone extends Error {}

export function acceptsJson(request: IncomingMessage): boolean {
  const { accept } = request.headers;
  return (
    accept === undefined ||
    accept === "*/*" ||
    /application\/json|application\/\*|\*\/\*/i.test(accept)
  );
}

/** True unless gzip is absent or refused (`gzip;q=0`). */
export function acceptsGzip(request: IncomingMessage): boolean {
  const accepted = request.headers["accept-encoding"];
  if (accepted === undefined) return false;
  const gzip = /(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q=([0-9.]+))?\s*(?:,|$)/i.exec(accepted);
  return gzip !== null && (gzip[1] === undefined || Number(gzip[1]) > 0);
}

/** Does `If-None-Match` name this tag? Compared weakly, as it must be. */
export function matchesTag(request: IncomingMessage, etag: string): boolean {
  const header = request.headers["if-none-match"];
  if (header === undefined) return false;
  return header
    .split(",")
    .some((tag) => tag.trim() === "*" || tag.trim().replace(/^W\//, "") === etag);
}

/** @param etag - without what tells representations apart; undefined when the answer has none. */
export function tagOf(
  etag: string | undefined,
  json: boolean,
  zipped: boolean,
): string | undefined {
  return etag === undefined ? undefined : `"${etag}${json ? "" : "-text"}${zipped ? "-gzip" : ""}"`;
}

function headersOf(context: HttpContext, json: boolean, etag: string | undefined): string[] {
  const headers = [
    "Content-Type",
    json ? "application/json" : "text/plain; charset=utf-8",
    "Cache-Control",
    "must-revalidate",
    "Vary",
    "Accept, Accept-Encoding",
  ];
  if (etag !== undefined) headers.push("ETag", etag);
  if (context.closing()) headers.push("Connection", "close");
  if (context.worker !== undefined) headers.push("X-Viewmill-Worker", context.worker);
  return headers;
}

/** 304, when the client has this version already: nothing was read then. */
export function sendNotModified(
  context: HttpContext,
  request: IncomingMessage,
  response: ServerResponse,
  etag: string,
): boolean {
  const json = acceptsJson(request);
  const plain = tagOf(etag, json, false) as string;
  const zipped = tagOf(etag, json, true) as string;
  const known =
    acceptsGzip(request) && matchesTag(request, zipped)
      ? zipped
      : matchesTag(request, plain)
        ? plain
        : undefined;
  if (known === undefined) return false;
  // Without a type: there is no body.
  response.writeHead(304, headersOf(context, json, known).slice(2)).end();
  return true;
}

/** Sends an answer that is there already, unless it must be compressed: false then, and nothing was sent. */
export function sendWhole(
  context: HttpContext,
  request: IncomingMessage,
  response: ServerResponse,
  text: string,
  etag: string | undefined,
): boolean {
  if (text.length >= GZIP_CHARACTERS_MIN && acceptsGzip(request)) return false;
  const json = acceptsJson(request);
  const headers = headersOf(context, json, tagOf(etag, json, false));
  const bytes = Buffer.byteLength(text);
  headers.push("Content-Length", String(bytes));
  context.metrics.bytes += text.length;
  response.writeHead(200, headers);
  if (request.method === "HEAD") response.end();
  else endWith(response, text, bytes === text.length ? "latin1" : "utf8");
  dropWhenStalled(context, response);
  return true;
}

/**
 * Ends a response with all of its body. `end(text)` alone would hand the system a list of two pieces, the second of them empty, which costs
 * several microseconds more than one piece does.
 */
function endWith(response: ServerResponse, text: string, encoding: "latin1" | "utf8"): void {
  const { socket } = response;
  // Of requests that were sent ahead, only the first has the socket.
  if (socket === null) {
    response.end(text, encoding);
    return;
  }
  // So that the head goes with the body.
  socket.cork();
  response.write(text, encoding);
  socket.uncork();
  response.end();
}

/** @throws ClientGone never: a client that is gone is no error. Others only before anything was sent. */
export async function sendAnswer(
  context: HttpContext,
  request: IncomingMessage,
  response: ServerResponse,
  answer: AnswerText,
  etag: string | undefined,
): Promise<void> {
  const { text, rest } = answer;
  if (rest === undefined && sendWhole(context, request, response, text, etag)) return;
  const json = acceptsJson(request);
  const zipped = (rest !== undefined || text.length >= GZIP_CHARACTERS_MIN) && acceptsGzip(request);
  const headers = headersOf(context, json, tagOf(etag, json, zipped));
  if (zipped) headers.push("Content-Encoding", "gzip");
  context.metrics.bytes += text.length;
  if (request.method === "HEAD") {
    response.writeHead(200, headers).end();
    await rest?.return();
    return;
  }
  if (rest === undefined && text.length <= GZIP_AT_ONCE_MAX) {
    const body = gzipSync(text, GZIP);
    headers.push("Content-Length", String(Buffer.byteLength(body)));
    response.writeHead(200, headers).end(body);
    dropWhenStalled(context, response);
    return;
  }
  response.writeHead(200, headers);
  const outlet = zipped
    ? new ZippedOutlet(response, context.stallMs)
    : new Outlet(response, context.stallMs);
  try {
    await outlet.write(text);
    for await (const chunk of rest ?? []) {
      context.metrics.bytes += chunk.length;
      await outlet.write(chunk);
    }
    await outlet.end();
    dropWhenStalled(context, response);
  } catch (error) {
    outlet.destroy();
    if (!(error instanceof ClientGone))
      context.onWarning(`an answer was cut short: ${toHttpError(error).reason}`);
  }
}

/** What was handed over and not taken yet must move. */
function dropWhenStalled({ stallMs }: HttpContext, response: ServerResponse): void {
  if (response.writableFinished || response.writableLength === 0) return;
  const timer = setTimeout(() => {
    response.destroy();
  }, stallMs);
  timer.unref();
  response.once("close", () => {
    clearTimeout(timer);
  });
}

/** Writes that wait for the client. */
class Outlet {
  readonly #response: ServerResponse;
  readonly #stallMs: number;

  constructor(response: ServerResponse, stallMs: number) {
    this.#response = response;
    this.#stallMs = stallMs;
  }

  /** @throws ClientGone */
  write(chunk: string | Uint8Array): Promise<void> | undefined {
    const response = this.#response;
    if (response.destroyed || response.socket === null) throw new ClientGone();
    return response.write(chunk) ? undefined : this.#drained();
  }

  /** @throws ClientGone */
  end(): Promise<void> | undefined {
    this.#response.end();
    return undefined;
  }

  /** Ends the connection in a way that no client takes for the end of the answer. */
  destroy(): void {
    this.#response.destroy();
  }

  #drained(): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const response = this.#response;
      const done = (gone: boolean): void => {
        clearTimeout(timer);
        response.off("drain", onDrain);
        response.off("close", onClose);
        if (gone) reject(new ClientGone());
        else resolve();
      };
      const onDrain = (): void => {
        done(false);
      };
      const onClose = (): void => {
        done(true);
      };
      const timer = setTimeout(onClose, this.#stallMs);
      response.once("drain", onDrain);
      response.once("close", onClose);
    });
  }
}

class ZippedOutlet extends Outlet {
  readonly #gzip: Gzip = createGzip(GZIP);
  #made: Uint8Array[] = [];

  constructor(response: ServerResponse, stallMs: number) {
    super(response, stallMs);
    this.#gzip.on("data", (part: Uint8Array) => {
      this.#made.push(part);
    });
    this.#gzip.on("error", () => {
      this.destroy();
    });
  }

  override async write(chunk: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#gzip.write(chunk, (error) => {
        if (error) reject(error);
        else resolve();
      });
    });
    await this.#flush();
  }

  override async end(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#gzip.once("end", resolve);
      this.#gzip.end();
    });
    await this.#flush();
    await super.end();
  }

  override destroy(): void {
    this.#gzip.destroy();
    super.destroy();
  }

  async #flush(): Promise<void> {
    const made = this.#made;
    this.#made = [];
    for (const part of made) await super.write(part);
  }
}

export function sendError(
  request: IncomingMessage,
  response: ServerResponse,
  told: HttpError,
  headers: readonly string[] = [],
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const body = errorBody(told);
  response
    .writeHead(told.status, [
      "Content-Type",
      "application/json",
      "Cache-Control",
      "must-revalidate",
      "Content-Length",
      String(Buffer.byteLength(body)),
      ...(told.allow === undefined ? [] : ["Allow", told.allow]),
      ...headers,
    ])
    .end(request.method === "HEAD" ? undefined : body);
}
