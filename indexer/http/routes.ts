// What routes have in common: how JSON is sent, and which methods a path answers to. A request with another method gets CouchDB's 405,
// whatever that method is called.

import type { FastifyInstance, FastifyReply } from "fastify";

import type { HttpContext } from "./context.js";
import { methodNotAllowed, type RequestError } from "./errors.js";

/** What a room of routes is put into. */
export interface Routes {
  readonly app: FastifyInstance;
  readonly context: HttpContext;
  readonly methods: Methods;
}

/** @param value - JSON text, or what becomes JSON. */
export function sendJson(reply: FastifyReply, value: unknown): FastifyReply {
  return reply
    .type("application/json")
    .header("cache-control", "must-revalidate")
    .send(`${typeof value === "string" ? value : JSON.stringify(value)}\n`);
}

/** The methods of each path, tried in the order in which they were told. */
export class Methods {
  readonly #rules: { readonly path: RegExp; readonly allowed: string }[] = [];

  /**
   * @param url - as the route was registered, e.g. `/:db/_all_docs`.
   * @param allowed - as CouchDB lists them, e.g. `GET,HEAD,POST`.
   */
  only(url: string, allowed: string): void {
    const pattern = url.replace(/:[^/]+/g, "[^/]+").replace(/\/$/, "");
    this.#rules.push({ path: new RegExp(`^${pattern}/?$`), allowed });
  }

  /** The error for a request that no route has taken; undefined where there is no such path at all. */
  refusal({
    method,
    url,
  }: {
    readonly method: string;
    readonly url: string;
  }): RequestError | undefined {
    const mark = url.indexOf("?");
    const path = mark < 0 ? url : url.slice(0, mark);
    const allowed = this.#rules.find((rule) => rule.path.test(path))?.allowed;
    if (allowed === undefined || allowed.split(",").includes(method)) return undefined;
    return methodNotAllowed(allowed);
  }
}
