// A small HTTP server that answers as CouchDB does, as far as a source asks; and misbehaves on demand.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";

export interface FixtureDoc {
  readonly _id: string;
  readonly _rev: string;
  readonly _deleted?: boolean;
  readonly [member: string]: unknown;
}

interface Change {
  readonly seq: number;
  readonly doc: FixtureDoc;
}

/** How the next answers go wrong. */
export interface Trouble {
  /** So many requests of the feed break off after so many rows. */
  breakFeed?: { times: number; rows: number };
  /** So many requests of any kind are answered with this status. */
  fail?: { times: number; status: number };
  /** The feed starts so many rows before `since`. */
  rewind?: number;
  /** Rows with line breaks in them, as pretty-printing proxies make. */
  pretty?: boolean;
}

/** One database named `db`. */
export class CouchFixture {
  readonly requests: string[] = [];
  trouble: Trouble = {};
  auth: { user: string; password: string } | undefined;
  instanceStart = "1700000000";
  version = "3.5.0";
  purgeSeq: string | number = "0-abc";
  props: Readonly<Record<string, unknown>> | undefined;
  exists = true;
  readonly #revisions = new Map<string, FixtureDoc[]>();
  #changes: Change[] = [];
  #seq = 0;
  #server: Server | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #live = new Set<{ since: number; response: ServerResponse; query: URLSearchParams }>();

  /** Starts on a free port of loopback, or on the one it had. */
  async start(port = 0): Promise<void> {
    const server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        response.destroy(error as Error);
      });
    });
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    this.#server = server;
  }

  get port(): number {
    return (this.#server?.address() as AddressInfo).port;
  }

  url(credentials = ""): string {
    return `http://${credentials}127.0.0.1:${this.port}/db`;
  }

  /** Cuts all connections and stops listening. */
  async stop(): Promise<void> {
    const closed = this.#server ? once(this.#server, "close") : Promise.resolve([]);
    this.#server?.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    this.#live.clear();
  }

  put(doc: FixtureDoc): void {
    const change = { seq: ++this.#seq, doc };
    this.#changes = this.#changes.filter((one) => one.doc._id !== doc._id);
    this.#changes.push(change);
    this.#revisions.set(doc._id, [...(this.#revisions.get(doc._id) ?? []), doc]);
    for (const { response, query } of this.#live) response.write(`${rowOf(change, query)}\n`);
  }

  /** Ends the continuous feeds, as CouchDB does after its timeout. */
  endFeeds(): void {
    for (const { response } of this.#live) {
      response.end(`{"last_seq":"${this.#seq}-x","pending":0}\n`);
    }
    this.#live.clear();
  }

  /** Open continuous feeds. */
  get followers(): number {
    return this.#live.size;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests.push(`${request.method ?? ""} ${request.url ?? ""}`);
    const url = new URL(request.url ?? "/", "http://host");
    const body = await read(request);
    const send = (status: number, value: unknown): void => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(`${JSON.stringify(value)}\n`);
    };
    if (this.trouble.fail && this.trouble.fail.times > 0) {
      this.trouble.fail.times--;
      send(this.trouble.fail.status, { error: "trouble", reason: "as you wished" });
      return;
    }
    if (this.auth) {
      const token = Buffer.from(`${this.auth.user}:${this.auth.password}`).toString("base64");
      if (request.headers.authorization !== `Basic ${token}`) {
        send(401, { error: "unauthorized", reason: "Name or password is incorrect." });
        return;
      }
    }
    if (url.pathname === "/") {
      send(200, { couchdb: "Welcome", version: this.version, uuid: "server-1" });
    } else if (!this.exists) {
      send(404, { error: "not_found", reason: "Database does not exist." });
    } else if (url.pathname === "/db") {
      send(200, {
        db_name: "db",
        instance_start_time: this.instanceStart,
        update_seq: `${this.#seq}-x`,
        purge_seq: this.purgeSeq,
        ...(this.props ? { props: this.props } : {}),
        doc_count: this.#changes.length,
        doc_del_count: 0,
      });
    } else if (url.pathname === "/db/_changes") this.#feed(url.searchParams, response);
    else if (url.pathname === "/db/_all_docs") send(200, this.#allDocs(url.searchParams, body));
    else {
      const id = decodeURIComponent(url.pathname.slice("/db/".length));
      const doc = this.#open(id, url.searchParams);
      if (doc) send(200, doc);
      else send(404, { error: "not_found", reason: "missing" });
    }
  }

  #feed(query: URLSearchParams, response: ServerResponse): void {
    const since = Number.parseInt(query.get("since") ?? "0", 10) - (this.trouble.rewind ?? 0);
    const limit = Number(query.get("limit") ?? Number.MAX_SAFE_INTEGER);
    const changes = this.#changes.filter((one) => one.seq > since);
    response.writeHead(200, { "content-type": "application/json" });
    if (query.get("feed") === "continuous") {
      response.write("\n");
      for (const change of changes) response.write(`${rowOf(change, query)}\n`);
      this.#live.add({ since, response, query });
      return;
    }
    const rows = changes.slice(0, limit);
    const stop = this.trouble.breakFeed;
    if (stop && stop.times > 0 && rows.length > stop.rows) {
      stop.times--;
      const some = rows.slice(0, stop.rows).map((change) => `${rowOf(change, query)},\n`);
      const torn = rowOf(rows[stop.rows] as Change, query).slice(0, 20);
      response.write(`{"results":[\n${some.join("")}${torn}`, () => response.destroy());
      return;
    }
    const space = this.trouble.pretty === true ? 2 : undefined;
    const texts = rows.map((change) => rowOf(change, query, space));
    const last = rows.at(-1)?.seq ?? Math.max(since, this.#seq);
    const pending = changes.length - rows.length;
    response.end(
      `{"results":[\n${texts.join(",\n")}\n],\n"last_seq":"${last}-x","pending":${pending}}\n`,
    );
  }

  #allDocs(query: URLSearchParams, body: string): unknown {
    const keys = body === "" ? undefined : (JSON.parse(body) as { keys: string[] }).keys;
    const ids = keys ?? [...this.#revisions.keys()].sort();
    const start = JSON.parse(query.get("startkey") ?? '""') as string;
    const end = JSON.parse(query.get("endkey") ?? '"\\uffff"') as string;
    const rows = ids
      .filter((id) => keys !== undefined || (id >= start && id <= end))
      .map((id) => {
        const doc = this.#revisions.get(id)?.at(-1);
        if (!doc) return { key: id, error: "not_found" };
        const value = { rev: doc._rev, ...(doc._deleted === true ? { deleted: true } : {}) };
        const shown = doc._deleted === true ? null : this.#open(id, query);
        return { id, key: id, value, doc: shown };
      })
      .filter((row) => keys !== undefined || row.doc !== null);
    return { total_rows: this.#revisions.size, offset: 0, rows };
  }

  #open(id: string, query: URLSearchParams): object | undefined {
    const revisions = this.#revisions.get(id) ?? [];
    const rev = query.get("rev");
    const doc = rev === null ? revisions.at(-1) : revisions.find((one) => one._rev === rev);
    if (!doc || (rev === null && doc._deleted === true)) return undefined;
    return shownDoc(doc, query);
  }
}

function shownDoc(doc: FixtureDoc, query: URLSearchParams): object {
  const { _conflicts, _deleted_conflicts, ...plain } = doc;
  return {
    ...plain,
    ...(query.get("conflicts") === "true" && _conflicts ? { _conflicts } : {}),
    ...(query.get("deleted_conflicts") === "true" && _deleted_conflicts
      ? { _deleted_conflicts }
      : {}),
    ...(query.get("local_seq") === "true" ? { _local_seq: 7 } : {}),
  };
}

function rowOf({ seq, doc }: Change, query: URLSearchParams, space?: number): string {
  const row = {
    seq: `${seq}-x`,
    id: doc._id,
    changes: [{ rev: doc._rev }],
    ...(doc._deleted === true ? { deleted: true } : {}),
    ...(query.get("include_docs") === "true" ? { doc: shownDoc(doc, query) } : {}),
  };
  return JSON.stringify(row, null, space);
}

async function read(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString("utf8");
}
