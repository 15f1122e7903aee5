// The HTTP face: a CouchDB-compatible server for views (VIEWS §7–§21). Routes are in routes-*.ts; here is what holds for all of them:
// limits, errors, authorisation, shutdown.

import { timingSafeEqual } from "node:crypto";
import type { AddressInfo } from "node:net";

import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";

import type { ViewIndex } from "../view-index.js";
import { errorBody, RequestError, toHttpError } from "./errors.js";
import { Metrics } from "./metrics.js";
import { databaseRoutes } from "./routes-database.js";
import { maintenanceRoutes } from "./routes-maintenance.js";
import { viewRoutes } from "./routes-view.js";

export interface ServeOptions {
  readonly index: ViewIndex;
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
  /** Requests answered at once; more get 503. Default 1000. */
  readonly requestsMax?: number;
  /** A client that takes nothing for so long is dropped, in milliseconds. Default 60 000. */
  readonly stallMs?: number;
  readonly onWarning?: (message: string) => void;
}

/** What the routes share. */
export interface HttpContext {
  readonly index: ViewIndex;
  readonly db: string;
  readonly metrics: Metrics;
  readonly stallMs: number;
}

export interface RunningServer {
  /** For example `http://127.0.0.1:5984`. */
  readonly url: string;
  /** Stops accepting, waits for answers under way (10 s at most), closes. The index stays open. */
  close(): Promise<void>;
}

const LOOPBACK = new Set(["127.0.0.1", "::1", "localhost"]);
const URL_CHARACTERS_MAX = 64 * 1024;
const GRACE_MS = 10_000;

/**
 * @throws TypeError when it would bind beyond loopback without a user.
 */
export async function startServer(options: ServeOptions): Promise<RunningServer> {
  const { host = "127.0.0.1", port = 5984, user } = options;
  if (!LOOPBACK.has(host) && !host.startsWith("127.") && user === undefined)
    throw new TypeError(`--host ${host} is reachable from other machines: give --user name:password, or bind to 127.0.0.1`);
  const metrics = new Metrics();
  const app = Fastify({
    bodyLimit: options.bodyBytesMax ?? 8 * 2 ** 20,
    routerOptions: { maxParamLength: 4096, caseSensitive: true, ignoreTrailingSlash: true },
    keepAliveTimeout: 60_000,
    requestTimeout: 120_000,
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    http: { maxHeaderSize: URL_CHARACTERS_MAX },
    return503OnClosing: true,
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "string" }, (_request, body, done) => {
    done(null, body);
  });
  // Other types are refused by the routes that read a body, with CouchDB's words.
  app.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => {
    done(null, body);
  });
  guard(app, options, metrics);
  const context: HttpContext = {
    index: options.index,
    db: options.db ?? "db",
    metrics,
    stallMs: options.stallMs ?? 60_000,
  };
  maintenanceRoutes(app, context);
  viewRoutes(app, context);
  databaseRoutes(app, context);
  app.setNotFoundHandler((request) => {
    throw new RequestError(404, "not_found", request.url.startsWith(`/${context.db}`) ? "missing" : "Database does not exist.");
  });
  app.setErrorHandler((error, _request, reply) => {
    const told = toHttpError(error);
    if (told.status >= 500) options.onWarning?.(`${told.error}: ${told.reason}`);
    void reply.code(told.status).type("application/json").header("cache-control", "must-revalidate").send(errorBody(told));
  });
  await app.listen({ host, port });
  const address = app.server.address() as AddressInfo;
  const name = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return {
    url: `http://${name}:${address.port}`,
    close: () => closeGracefully(app),
  };
}

/** Authorisation and the bound on requests at once. */
function guard(app: FastifyInstance, options: ServeOptions, metrics: Metrics): void {
  const { user, requestsMax = 1000 } = options;
  const expected = user === undefined ? undefined : Buffer.from(`Basic ${Buffer.from(user).toString("base64")}`);
  app.addHook("onRequest", async (request: FastifyRequest, reply: FastifyReply) => {
    await Promise.resolve();
    metrics.begin();
    reply.raw.once("close", () => {
      metrics.end(reply.raw.statusCode);
    });
    if (metrics.active > requestsMax) {
      void reply.header("retry-after", "1");
      throw new RequestError(503, "service_unavailable", "too many requests at once; try again");
    }
    if (expected && request.url !== "/_up") {
      const given = Buffer.from(request.headers.authorization ?? "");
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
        void reply.header("www-authenticate", 'Basic realm="viewmill"');
        throw new RequestError(401, "unauthorized", "Name or password is incorrect.");
      }
    }
  });
}

async function closeGracefully(app: FastifyInstance): Promise<void> {
  const timer = setTimeout(() => {
    app.server.closeAllConnections();
  }, GRACE_MS);
  app.server.closeIdleConnections();
  await app.close();
  clearTimeout(timer);
}
