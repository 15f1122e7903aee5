// What every request passes first: the bound on requests at once, on the URL, and basic authorisation.

import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

import { RequestError } from "./errors.js";
import type { Metrics } from "./metrics.js";
import { sendError } from "./send.js";

/** Longer URLs get 414. */
export const URL_CHARACTERS_MAX = 64 * 1024;
/** Headers and URL together; more gets 431. */
export const HEADER_BYTES_MAX = 96 * 1024;

const REALM = ["WWW-Authenticate", 'Basic realm="viewmill"'];

export class Gate {
  readonly #metrics: Metrics;
  readonly #requestsMax: number;
  readonly #expected: Buffer | undefined;
  /** Requests of each connection that were let in and not seen out yet. */
  readonly #open = new WeakMap<Socket, Set<ServerResponse>>();

  /** @param user - `name:password`; undefined lets everybody in. */
  constructor(metrics: Metrics, requestsMax: number, user: string | undefined) {
    this.#metrics = metrics;
    this.#requestsMax = requestsMax;
    this.#expected =
      user === undefined ? undefined : Buffer.from(`Basic ${Buffer.from(user).toString("base64")}`);
  }

  /** The request was answered; what its client has not taken yet counts until it has. */
  left(response: ServerResponse): void {
    if (response.destroyed || response.writableLength === 0) this.#end(response);
    else
      response.once("close", () => {
        this.#end(response);
      });
  }

  /** False when it was answered here; else the request must be seen out with `left`. */
  passes(request: IncomingMessage, response: ServerResponse): boolean {
    const metrics = this.#metrics;
    metrics.begin();
    this.#begin(request.socket, response);
    if (metrics.active > this.#requestsMax) {
      const told = new RequestError(
        503,
        "service_unavailable",
        "too many requests at once; try again",
      );
      return this.#refuse(request, response, told, ["Retry-After", "1"]);
    }
    const url = request.url ?? "";
    if (url.length > URL_CHARACTERS_MAX)
      return this.#refuse(
        request,
        response,
        new RequestError(414, "uri_too_long", "the URL is too long; use POST"),
      );
    if (this.#expected && url !== "/_up" && !this.#authorised(request))
      return this.#refuse(
        request,
        response,
        new RequestError(401, "unauthorized", "Name or password is incorrect."),
        REALM,
      );
    return true;
  }

  #begin(socket: Socket, response: ServerResponse): void {
    let open = this.#open.get(socket);
    if (!open) {
      const all = (open = new Set<ServerResponse>());
      this.#open.set(socket, all);
      socket.once("close", () => {
        // Node tells only the response whose turn it was that its client is gone, not those that a pipeline has behind it.
        for (const waiting of all) {
          if (waiting.socket === null && !waiting.destroyed) {
            waiting.destroyed = true;
            waiting.emit("close");
          }
          this.#end(waiting);
        }
      });
    }
    open.add(response);
  }

  #end(response: ServerResponse): void {
    if (this.#open.get(response.req.socket)?.delete(response) === true)
      this.#metrics.end(response.statusCode);
  }

  #authorised(request: IncomingMessage): boolean {
    const given = Buffer.from(request.headers.authorization ?? "");
    const expected = this.#expected as Buffer;
    return given.length === expected.length && timingSafeEqual(given, expected);
  }

  #refuse(
    request: IncomingMessage,
    response: ServerResponse,
    told: RequestError,
    headers?: readonly string[],
  ): false {
    // A body that is under way is not read: the connection ends instead, once the answer is out.
    if (
      request.headers["content-length"] !== undefined ||
      request.headers["transfer-encoding"] !== undefined
    )
      request.resume();
    sendError(request, response, told, headers);
    this.left(response);
    return false;
  }
}
