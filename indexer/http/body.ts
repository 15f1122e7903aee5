// Reads request bodies: bounded, in time (the server's request timeout cuts a half-sent one), gzipped ones too.

import type { IncomingMessage } from "node:http";
import { gunzipSync } from "node:zlib";

import { RequestError } from "./errors.js";

/** A body that is somewhat too large is still read, so that the client comes to read the answer. */
const DISCARDED_TIMES = 4;

const TOO_LARGE = "the request entity is too large";

/**
 * The JSON body as text.
 * @throws RequestError 400, 413, 415.
 */
export async function readJsonBody(request: IncomingMessage, bytesMax: number): Promise<string> {
  const type = request.headers["content-type"] ?? "";
  if (!/^application\/json\b/i.test(type)) {
    request.resume();
    throw new RequestError(415, "bad_content_type", "Content-Type must be application/json");
  }
  let bytes = await readBytes(request, bytesMax);
  const encoding = request.headers["content-encoding"]?.toLowerCase() ?? "identity";
  if (encoding === "gzip") bytes = unzipped(bytes, bytesMax);
  else if (encoding !== "identity")
    throw new RequestError(415, "bad_ctype", "Only gzip encoding is supported");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new RequestError(400, "bad_request", "invalid UTF-8 JSON");
  }
}

function unzipped(bytes: Buffer, bytesMax: number): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax });
  } catch (error) {
    if ((error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE")
      throw new RequestError(413, "too_large", TOO_LARGE);
    throw new RequestError(400, "bad_request", "the body is not gzipped as its headers say");
  }
}

function readBytes(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  return new Promise<Buffer>((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const tooLarge = (): void => {
      reject(new RequestError(413, "too_large", TOO_LARGE));
    };
    if (Number(request.headers["content-length"] ?? 0) > DISCARDED_TIMES * bytesMax) {
      tooLarge();
      return;
    }
    request.on("data", (part: Buffer) => {
      size += part.length;
      if (size <= bytesMax) parts.push(part);
      else if (size <= DISCARDED_TIMES * bytesMax) parts.length = 0;
      else {
        request.pause();
        tooLarge();
      }
    });
    request.once("end", () => {
      if (size > bytesMax) tooLarge();
      else resolve(Buffer.concat(parts));
    });
    const gone = (): void => {
      reject(new RequestError(400, "bad_request", "the request ended before its body did"));
    };
    request.once("error", gone);
    request.once("close", gone);
  });
}
