// HTTP to one CouchDB database: requests with authentication, deadlines and errors that say what to do. The password goes
// into one header and nowhere else: not into labels, not into errors.

import { request as requestHttp, Agent as HttpAgent, type IncomingMessage } from "node:http";
import { request as requestHttps, Agent as HttpsAgent } from "node:https";
import { IndexerError } from "../errors.js";
import { errorCode } from "./line-file.js";
import { abortedError } from "./source.js";

export interface CouchClientOptions {
  /** Name and password when the URL has none. Default: VIEWMILL_COUCHDB_USER and VIEWMILL_COUCHDB_PASSWORD. */
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /** Milliseconds without a byte after which a request is given up. Default 60 000. */
  readonly idleMs?: number | undefined;
}

export interface CouchRequest {
  readonly method?: "GET" | "POST";
  /** Below the database, encoded: `_changes`, `` for the database itself; `/` for the server. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly idleMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const IDLE_MS_DEFAULT = 60_000;
const ERROR_BODY_BYTES_MAX = 64 * 1024;
const RETRYABLE = new Set([408, 425, 429, 500, 502, 503, 504]);

export class CouchClient {
  /** The database's URL without name and password. */
  readonly label: string;
  readonly #database: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #agent: HttpAgent | HttpsAgent;
  readonly #idleMs: number;

  /** @throws IndexerError SOURCE_USAGE when the URL names no database. */
  constructor(url: string, options: CouchClientOptions = {}) {
    const parsed = parseUrl(url);
    const user = decode(parsed.username) || (options.user ?? process.env["VIEWMILL_COUCHDB_USER"]);
    const password =
      decode(parsed.password) ||
      (options.password ?? process.env["VIEWMILL_COUCHDB_PASSWORD"] ?? "");
    parsed.username = "";
    parsed.password = "";
    parsed.pathname = parsed.pathname.replace(/\/+$/, "");
    this.#database = parsed;
    this.label = parsed.href;
    this.#idleMs = options.idleMs ?? IDLE_MS_DEFAULT;
    const token = Buffer.from(`${user ?? ""}:${password}`).toString("base64");
    this.#headers = {
      accept: "application/json",
      ...(user === undefined || user === "" ? {} : { authorization: `Basic ${token}` }),
    };
    const agentOptions = { keepAlive: true, maxSockets: 16 };
    this.#agent =
      parsed.protocol === "https:" ? new HttpsAgent(agentOptions) : new HttpAgent(agentOptions);
  }

  /** The whole answer as text. @throws IndexerError SOURCE_UNREACHABLE, SOURCE_UNAUTHORIZED, SOURCE_NOT_FOUND, SOURCE_HTTP. */
  async text(request: CouchRequest): Promise<string> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.stream(request)) pieces.push(piece);
    return Buffer.concat(pieces).toString("utf8");
  }

  /** The whole answer, parsed. */
  async json(request: CouchRequest): Promise<unknown> {
    const text = await this.text(request);
    try {
      return JSON.parse(text);
    } catch (error) {
      const message = `${this.label} answered with something that is no JSON. Is this URL a CouchDB database?`;
      throw new IndexerError("SOURCE_HTTP", message, {}, { cause: error });
    }
  }

  /** The answer's body, piece by piece; a consumer that stops ends the request. Each piece is the consumer's to change. */
  async *stream(request: CouchRequest): AsyncGenerator<Uint8Array, void, undefined> {
    const response = await this.#send(request);
    let complete = false;
    try {
      for await (const piece of response) yield piece as Uint8Array;
      complete = response.complete;
      if (!complete) throw this.#unreachable(new Error("the connection was lost"));
    } catch (error) {
      throw this.#translated(error, request.signal);
    } finally {
      if (!complete) response.destroy();
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #send(request: CouchRequest): Promise<IncomingMessage> {
    if (request.signal?.aborted) throw abortedError(request.signal);
    const response = await this.#open(request);
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return response;
    const body = await bodyOf(response);
    throw this.#refused(status, body, request);
  }

  async #open(request: CouchRequest): Promise<IncomingMessage> {
    const url = this.#url(request);
    const body = request.body === undefined ? undefined : Buffer.from(JSON.stringify(request.body));
    const idleMs = request.idleMs ?? this.#idleMs;
    const headers = {
      ...this.#headers,
      ...(body ? { "content-type": "application/json", "content-length": body.length } : {}),
    };
    const options = {
      method: request.method ?? (body ? "POST" : "GET"),
      headers,
      agent: this.#agent,
      timeout: idleMs,
      ...(request.signal ? { signal: request.signal } : {}),
    };
    return new Promise<IncomingMessage>((resolve, reject) => {
      const open = url.protocol === "https:" ? requestHttps : requestHttp;
      let incoming: IncomingMessage | undefined;
      const outgoing = open(url, options, (response) => {
        incoming = response;
        resolve(response);
      });
      outgoing.on("timeout", () => {
        (incoming ?? outgoing).destroy(new Error(`no byte came for ${idleMs} ms`));
      });
      outgoing.on("error", (error) => {
        reject(this.#translated(error, request.signal));
      });
      outgoing.end(body);
    });
  }

  #url(request: CouchRequest): URL {
    const url = new URL(this.#database.href);
    if (request.path === "/") url.pathname = "/";
    else if (request.path !== "") url.pathname += `/${request.path}`;
    for (const [name, value] of Object.entries(request.query ?? {})) {
      url.searchParams.set(name, value);
    }
    return url;
  }

  #translated(error: unknown, signal: AbortSignal | undefined): IndexerError {
    if (signal?.aborted) return abortedError(signal);
    return error instanceof IndexerError ? error : this.#unreachable(error);
  }

  #unreachable(error: unknown): IndexerError {
    const code = errorCode(error);
    const why = code ?? (error instanceof Error ? error.message : String(error));
    const message = `${this.label} cannot be reached (${why}). Is the server running, and the address right?`;
    return new IndexerError("SOURCE_UNREACHABLE", message, {}, { cause: error });
  }

  #refused(status: number, body: string, request: CouchRequest): IndexerError {
    const { error, reason } = parseRefusal(body);
    const details = {
      status,
      ...(error === undefined ? {} : { error }),
      ...(reason === undefined ? {} : { reason }),
    };
    if (status === 401 || status === 403) {
      const advice =
        "Put name and password into the URL or into VIEWMILL_COUCHDB_USER and VIEWMILL_COUCHDB_PASSWORD.";
      const said = reason === undefined ? "" : ` ("${reason}")`;
      return new IndexerError(
        "SOURCE_UNAUTHORIZED",
        `${this.label} refuses access: status ${status}${said}. ${advice}`,
        details,
      );
    }
    if (status === 404 && (request.path === "" || request.path.startsWith("_"))) {
      return new IndexerError("SOURCE_NOT_FOUND", `There is no database ${this.label}.`, details);
    }
    const said = [error, reason].filter((part) => part !== undefined).join(": ");
    const message = `${this.label} answered with status ${status}${said === "" ? "" : ` (${said})`}.`;
    return new IndexerError("SOURCE_HTTP", message, details);
  }
}

/** Can the same request work a little later? */
export function isPassing(error: unknown): boolean {
  if (typeof error !== "object" || error === null || !("code" in error)) return false;
  if (error.code === "SOURCE_UNREACHABLE") return true;
  return (
    error instanceof IndexerError &&
    error.code === "SOURCE_HTTP" &&
    RETRYABLE.has(error.details.status ?? 0)
  );
}

function parseUrl(url: string): URL {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    // The text may hold a password: it is not repeated.
    throw new IndexerError("SOURCE_USAGE", "The database's URL is not a URL.");
  }
  if (parsed.pathname.replaceAll("/", "") === "") {
    throw new IndexerError(
      "SOURCE_USAGE",
      `${parsed.host} is a server: add the database, as in http://host:5984/name.`,
    );
  }
  if (parsed.search !== "" || parsed.hash !== "") {
    throw new IndexerError(
      "SOURCE_USAGE",
      "The database's URL must end with the database: no `?` and no `#`.",
    );
  }
  return parsed;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of response) {
      pieces.push(piece as Uint8Array);
      bytes += (piece as Uint8Array).length;
      if (bytes > ERROR_BODY_BYTES_MAX) break;
    }
  } catch {
    // What came of it is enough.
  }
  return Buffer.concat(pieces).toString("utf8");
}

function parseRefusal(body: string): { error?: string; reason?: string } {
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value !== "object" || value === null) return {};
    return {
      ...("error" in value && typeof value.error === "string" ? { error: value.error } : {}),
      ...("reason" in value && typeof value.reason === "string" ? { reason: value.reason } : {}),
    };
  } catch {
    return {};
  }
}
