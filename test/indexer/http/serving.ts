// Starts `viewmill serve` as a user does, over a growing file of changes, and talks to it.

import { spawn, type ChildProcess } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import {
  request as httpRequest,
  type Agent,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const CLI = fileURLToPath(new URL("../../../indexer/cli/main.js", import.meta.url));

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Parsed, where it is JSON. */
  readonly json: Record<string, unknown>;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  /** Sent as JSON unless it is text or bytes already. */
  readonly body?: unknown;
  readonly agent?: Agent;
}

/** A file of changes that grows row by row; sequences count from 1. */
export class Feed {
  readonly path: string;
  seq = 0;
  readonly #generations = new Map<string, number>();

  constructor(dir: string) {
    this.path = join(dir, "feed.ndjson");
    writeFileSync(this.path, "");
  }

  /** Returns the sequence of the last document. */
  put(...documents: readonly Readonly<Record<string, unknown>>[]): number {
    appendFileSync(this.path, documents.map((document) => this.row(document)).join(""));
    return this.seq;
  }

  /** Rows as they are. */
  append(rows: readonly unknown[]): void {
    appendFileSync(this.path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  }

  row(document: Readonly<Record<string, unknown>>): string {
    const id = document["_id"] as string;
    const generation = (this.#generations.get(id) ?? 0) + 1;
    this.#generations.set(id, generation);
    const rev = `${generation}-${"0".repeat(31)}${generation % 10}`;
    const deleted = document["_deleted"] === true ? { deleted: true } : {};
    const { _id, ...rest } = document;
    return `${JSON.stringify({ seq: ++this.seq, id, changes: [{ rev }], ...deleted, doc: { _id, _rev: rev, ...rest } })}\n`;
  }
}

export class Serving {
  readonly dir: string;
  readonly feed: Feed;
  readonly #index: string;
  #child: ChildProcess | undefined;
  #errors = "";
  #out = "";
  url = "";

  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), "viewmill-http-"));
    this.feed = new Feed(this.dir);
    this.#index = join(this.dir, "index");
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** What the program wrote to stderr. */
  get errors(): string {
    return this.#errors;
  }

  /** What it wrote to stdout, line by line. */
  get lines(): string[] {
    return this.#out.split("\n").filter((line) => line !== "");
  }

  get db(): string {
    return `${this.url}/db`;
  }

  async start(...flags: readonly string[]): Promise<this> {
    const source = ["--source", `changes:${this.feed.path}`, "--port", "0", "--json"];
    const child = spawn(process.execPath, [CLI, "serve", this.#index, ...source, ...flags], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    child.stderr.on("data", (data: Buffer) => {
      this.#errors += data.toString();
    });
    this.url = await new Promise<string>((resolve, reject) => {
      this.#out = "";
      child.stdout.on("data", (data: Buffer) => {
        this.#out += data.toString();
        const [line] = this.#out.split("\n", 1);
        if (line !== undefined && line.length < this.#out.length)
          resolve((JSON.parse(line) as { listening: string }).listening);
      });
      child.once("exit", (code) => {
        reject(new Error(`serve ended with ${String(code)}: ${this.#errors}`));
      });
    });
    return this;
  }

  ask(path: string, options: AskOptions = {}): Promise<Answer> {
    return ask(`${this.url}${path}`, options);
  }

  view(query = "", options: AskOptions = {}): Promise<Answer> {
    return this.ask(`/db/_design/d/_view/v${query}`, options);
  }

  /** Sends the bytes as they are, and reads until the server ends the connection or `enough` says so. */
  raw(
    parts: readonly (string | Uint8Array)[],
    enough: (text: string) => boolean = () => false,
    end = false,
  ): Promise<string> {
    return new Promise<string>((resolve, reject) => {
      const { port } = new URL(this.url);
      const socket = connect(Number(port), "127.0.0.1");
      let text = "";
      socket.setEncoding("latin1");
      socket.on("data", (data: string) => {
        text += data;
        if (!enough(text)) return;
        socket.destroy();
        resolve(text);
      });
      // The server may end the connection while it is still written to.
      socket.on("error", () => {
        resolve(text);
      });
      socket.on("close", () => {
        resolve(text);
      });
      socket.once("timeout", () => {
        reject(new Error("the server said nothing for a minute"));
        socket.destroy();
      });
      socket.setTimeout(60_000);
      for (const part of parts) socket.write(part);
      if (end) socket.end();
    });
  }

  /** Exit code, or signal. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<number | string | null> {
    const child = this.#child;
    this.#child = undefined;
    if (!child) return null;
    if (child.exitCode !== null || child.signalCode !== null)
      return child.exitCode ?? child.signalCode;
    const ended = new Promise<number | string | null>((resolve) => {
      child.once("exit", (code, by) => {
        resolve(code ?? by);
      });
    });
    child.kill(signal);
    return ended;
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export function ask(url: string, options: AskOptions = {}): Promise<Answer> {
  const { method = options.body === undefined ? "GET" : "POST", body, agent } = options;
  const asItIs = body === undefined || typeof body === "string" || ArrayBuffer.isView(body);
  const text = asItIs ? (body as string | Uint8Array | undefined) : JSON.stringify(body);
  const headers = {
    ...(text === undefined ? {} : { "content-type": "application/json" }),
    ...options.headers,
  };
  return new Promise<Answer>((resolve, reject) => {
    const request = httpRequest(
      url,
      { method, headers, ...(agent ? { agent } : {}) },
      (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("error", reject);
        response.on("end", () => {
          const whole = Buffer.concat(parts);
          const answer = whole.toString("utf8");
          let json: Record<string, unknown> = {};
          try {
            json = JSON.parse(answer) as Record<string, unknown>;
          } catch {
            // Compressed, cut or no JSON at all: who asks looks at the text.
          }
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: answer,
            json,
          });
        });
      },
    );
    request.on("error", reject);
    request.end(text);
  });
}

/** A design document with the map `emit(doc.k, doc.v)` in `v`, and `_sum` over it in `sum`. */
export function design(views: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const map = "function (doc) { emit(doc.k, doc.v); }";
  return { _id: "_design/d", views: { v: { map }, sum: { map, reduce: "_sum" }, ...views } };
}
