// Sends an answer chunk by chunk: back-pressure holds the query back, a client that takes nothing is dropped, and an error after the
// first bytes ends the connection, so that a truncated answer cannot pass for a whole one (VIEWS §20).

import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { createGzip } from "node:zlib";

import type { FastifyReply, FastifyRequest } from "fastify";

import type { HttpContext } from "./server.js";

/** Answers up to this size get a strong ETag and a Content-Length; larger ones stream without. */
const WHOLE_CHARACTERS_MAX = 64 * 1024;
const GZIP_CHARACTERS_MIN = 1024;

export async function sendChunks(
  request: FastifyRequest,
  reply: FastifyReply,
  context: HttpContext,
  chunks: AsyncGenerator<string, void, undefined>,
): Promise<FastifyReply> {
  // Errors of the first chunk are ordinary error answers.
  const head: string[] = [];
  let size = 0;
  let ended = false;
  while (size <= WHOLE_CHARACTERS_MAX) {
    const step = await chunks.next();
    if (step.done) {
      ended = true;
      break;
    }
    head.push(step.value);
    size += step.value.length;
  }
  const json = acceptsJson(request);
  void reply
    .code(200)
    .header("content-type", json ? "application/json" : "text/plain; charset=utf-8")
    .header("cache-control", "must-revalidate")
    .header("vary", "Accept, Accept-Encoding");
  const zipped = size >= GZIP_CHARACTERS_MIN && /\bgzip\b/.test(request.headers["accept-encoding"] ?? "");
  if (ended) {
    const body = head.join("");
    const etag = `"${createHash("md5").update(body).digest("base64url")}${zipped ? "-gzip" : ""}"`;
    void reply.header("etag", etag);
    if (matches(request.headers["if-none-match"], etag)) {
      void reply.removeHeader("content-type");
      return reply.code(304).send();
    }
    if (!zipped) return reply.send(request.method === "HEAD" ? headOnly(reply, body) : body);
  }
  const source = Readable.from(joined(head, ended ? undefined : chunks), { objectMode: false, highWaterMark: 64 * 1024 });
  if (request.method === "HEAD") {
    source.destroy();
    return reply.send("");
  }
  dropStalled(reply, context.stallMs);
  if (!zipped) return reply.send(source);
  void reply.header("content-encoding", "gzip");
  const gzip = createGzip({ level: 1 });
  source.on("error", (error) => gzip.destroy(error));
  gzip.on("close", () => source.destroy());
  return reply.send(source.pipe(gzip));
}

function headOnly(reply: FastifyReply, body: string): string {
  void reply.header("content-length", String(Buffer.byteLength(body)));
  return "";
}

async function* joined(
  head: readonly string[],
  rest: AsyncGenerator<string, void, undefined> | undefined,
): AsyncGenerator<string, void, undefined> {
  yield* head;
  if (rest) yield* rest;
}

function acceptsJson(request: FastifyRequest): boolean {
  const { accept } = request.headers;
  return accept === undefined || /application\/json|application\/\*|\*\/\*/i.test(accept);
}

function matches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.split(",").some((tag) => tag.trim() === "*" || tag.trim().replace(/^W\//, "") === etag);
}

/** A connection over which nothing moves for `stallMs` while an answer is due is cut. */
function dropStalled(reply: FastifyReply, stallMs: number): void {
  const { socket } = reply.raw;
  if (!socket) return;
  socket.setTimeout(stallMs, () => socket.destroy());
  reply.raw.once("close", () => socket.setTimeout(0));
}
