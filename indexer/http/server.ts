// The HTTP face: a CouchDB-compatible server for views (VIEWS §7–§21). Views go straight to view-handler.ts; everything else through
// fastify to routes-*.ts. Here is what holds for all of them: limits, errors, shutdown.

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";

import Fastify, { type FastifyInstance } from "fastify";

import type { ViewIndex } from "../view-index.js";
import type { HttpContext } from "./context.js";
import { errorBody, RequestError, toHttpError } from "./errors.js";
import { Gate, HEADER_BYTES_MAX } from "./gate.js";
import { Metrics } from "./metrics.js";
import { databaseRoutes } from "./routes-database.js";
import { maintenanceRoutes } from "./routes-maintenance.js";
import { partitionRoutes } from "./routes-partition.js";
import { Methods } from "./routes.js";
import { sendError } from "./send.js";
import { LocalService, type ViewService } from "./service.js";
import { ViewHandler, viewPathOf, type ViewPath } from "./view-handler.js";

/** Options that hold for every process that answers. */
export interface HttpOptions {
  /** The database's name in URLs. Default `db`. */
  readonly db?: string;
  /** Default 127.0.0.1. Beyond loopback only with `user`. */
  readonly host?: string;
  /** 0 picks one. Default 5984. */
  readonly port?: number;
  /** `name:password` of basic authorisation. Default: none. */
  readonly user?: string;
  /** Largest request body, in bytes. Default 8 MiB. */
  readonly bodyBytesMax?: number;
  /** Requests answered at once, by each process; more get 503. Default 1000. */
  readonly requestsMax?: number;
  /** A client that takes nothing for so long is dropped, in milliseconds. Default 60 000. */
  readonly stallMs?: number;
  /** A request must be there whole within this time, in milliseconds; else 408. Default 30 000. */
  readonly requestMs?: number;
  /** A connection may be idle for so long, in milliseconds. Default 60 000. */
  readonly idleMs?: number;
}

export interface ServeOptions extends HttpOptions {
  readonly index: ViewIndex;
  readonly onWarning?: (message: string) => void;
}

export interface RunningServer {
  /** For example `http://127.0.0.1:5984`. */
  readonly url: string;
  /** Stops accepting, waits for answers under way (10 s at most), closes. The index stays open. */
  close(): Promise<void>;
}

const LOOPBACK = new Set(["127.0.0.1", "::1", "localhost"]);
const GRACE_MS = 10_000;
/** How often connections are looked at for requests that do not arrive. */
const CHECK_MS = 1000;

/** @throws TypeError when it would bind beyond loopback without a user. */
export function checkHost({ host = "127.0.0.1", user }: HttpOptions): void {
  if (user !== undefined && !/^[^:]+:./.test(user))
    throw new TypeError("--user takes name:password");
  if (LOOPBACK.has(host) || /^127(\.\d{1,3}){3}$/.test(host) || user !== undefined) return;
  throw new TypeError(
    `--host ${host} is reachable from other machines: give --user name:password, or bind to 127.0.0.1`,
  );
}

/**
 * Answers from an index of this process.
 * @throws TypeError when it would bind beyond loopback without a user.
 */
export function startServer(options: ServeOptions): Promise<RunningServer> {
  const metrics = new Metrics();
  const onWarning = options.onWarning ?? (() => undefined);
  return listen({
    ...options,
    service: new LocalService(options.index, metrics, onWarning),
    metrics,
    worker: undefined,
    onWarning,
  });
}

export interface ListenOptions extends HttpOptions {
  readonly service: ViewService;
  readonly metrics: Metrics;
  readonly worker: string | undefined;
  readonly onWarning: (message: string) => void;
}

/** @throws TypeError when it would bind beyond loopback without a user. */
export async function listen(options: ListenOptions): Promise<RunningServer> {
  checkHost(options);
  const { host = "127.0.0.1", port = 5984, metrics, requestsMax = 1000, user } = options;
  let closing = false;
  const context: HttpContext = {
    service: options.service,
    db: options.db ?? "db",
    metrics,
    bodyBytesMax: options.bodyBytesMax ?? 8 * 2 ** 20,
    stallMs: options.stallMs ?? 60_000,
    worker: options.worker,
    closing: () => closing,
    onWarning: options.onWarning,
  };
  const gate = new Gate(metrics, requestsMax, user);
  const views = new ViewHandler(context);
  const dispatch = (
    request: IncomingMessage,
    response: ServerResponse,
    others: RequestListener,
  ): void => {
    if (closing) response.shouldKeepAlive = false;
    if (!gate.passes(request, response)) return;
    let url = request.url ?? "";
    if (url.includes("/_design%2"))
      url = request.url = url.replace(/^(\/[^/?]+(?:\/_partition\/[^/?]*)?\/_design)%2f/i, "$1/");
    const mark = url.indexOf("?");
    let path: ViewPath | undefined;
    try {
      path = viewPathOf(mark < 0 ? url : url.slice(0, mark));
    } catch (error) {
      sendError(request, response, toHttpError(error));
      gate.left(response);
      return;
    }
    if (path) {
      void views.handle(request, response, path).then(() => {
        gate.left(response);
      });
      return;
    }
    response.once("close", () => {
      gate.left(response);
    });
    others(request, response);
  };
  const methods = new Methods();
  const app = fastify(context, methods, (others) => {
    const server = createServer(
      {
        maxHeaderSize: HEADER_BYTES_MAX,
        keepAliveTimeout: options.idleMs ?? 60_000,
        requestTimeout: options.requestMs ?? 30_000,
        headersTimeout: options.requestMs ?? 30_000,
        connectionsCheckingInterval: CHECK_MS,
        noDelay: true,
      },
      (request, response) => {
        dispatch(request, response, others);
      },
    );
    // A connection that was opened and says nothing is as idle as one between two requests; `requestTimeout` begins with its first byte.
    return server;
  });
  const routes = { app, context, methods };
  maintenanceRoutes(routes);
  partitionRoutes(routes);
  databaseRoutes(routes);
  await app.listen({ host, port });
  const address = app.server.address() as AddressInfo;
  const name = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return {
    url: `http://${name}:${address.port}`,
    close: async () => {
      closing = true;
      await closeGracefully(app);
    },
  };
}

function fastify(
  context: HttpContext,
  methods: Methods,
  serverOf: (others: RequestListener) => Server,
): FastifyInstance {
  const app = Fastify({
    bodyLimit: context.bodyBytesMax,
    routerOptions: { maxParamLength: 4096, caseSensitive: true, ignoreTrailingSlash: true },
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    return503OnClosing: false,
    serverFactory: serverOf,
    clientErrorHandler: answerMalformed,
    frameworkErrors: (error, request, reply) => {
      sendError(request.raw, reply.hijack().raw, toHttpError(error));
    },
  });
  app.removeAllContentTypeParsers();
  // Routes that want JSON say so in CouchDB's words; none of them reads it.
  app.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => {
    done(null, body);
  });
  app.setNotFoundHandler((request) => {
    const refusal = methods.refusal(request);
    if (refusal) throw refusal;
    const inside = request.url === `/${context.db}` || request.url.startsWith(`/${context.db}/`);
    throw new RequestError(404, "not_found", inside ? "missing" : "Database does not exist.");
  });
  app.setErrorHandler((error, request, reply) => {
    const told = toHttpError(error);
    if (told.status >= 500) context.onWarning(`${request.url}: ${told.error}: ${told.reason}`);
    const body = errorBody(told);
    if (told.status === 413) void reply.header("connection", "close");
    if (told.allow !== undefined) void reply.header("allow", told.allow);
    void reply
      .code(told.status)
      .type("application/json")
      .header("cache-control", "must-revalidate")
      .send(body);
  });
  return app;
}

const MALFORMED: Readonly<Record<string, readonly [line: string, error: string, reason: string]>> =
  {
    HPE_HEADER_OVERFLOW: [
      "431 Request Header Fields Too Large",
      "headers_too_large",
      "the headers are too large",
    ],
    ERR_HTTP_REQUEST_TIMEOUT: [
      "408 Request Timeout",
      "timeout",
      "the request did not arrive in time",
    ],
  };

/** What is no HTTP, too large or too slow is told so, as far as the client still listens, and the connection ends. */
function answerMalformed(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const [line, name, reason] = MALFORMED[error.code ?? ""] ?? [
    "400 Bad Request",
    "bad_request",
    "the request is not valid HTTP",
  ];
  const body = errorBody({ status: 0, error: name, reason });
  socket.end(
    `HTTP/1.1 ${line}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

async function closeGracefully(app: FastifyInstance): Promise<void> {
  const timer = setTimeout(() => {
    app.server.closeAllConnections();
  }, GRACE_MS);
  app.server.closeIdleConnections();
  await app.close();
  clearTimeout(timer);
}
