// Shows, lists, updates and rewrites (PROTOCOL §7–§9, §13), with the chunk buffer that start(), send() and getRow() share. A list talks
// to the host in the middle of a command, through the pair of functions given to connect(); user code cannot reach these.
// Evaluated inside the documents' realm.
import type { Describe, Logs, Mime, Render } from "./types.js";

interface Response {
  headers?: Record<string, unknown>;
  body?: unknown;
}

export function createRender(describe: Describe, logs: Logs, mime: Mime): Render {
  const apply = Reflect.apply as (f: unknown, self: unknown, args: unknown[]) => unknown;
  const parse = JSON.parse;
  let chunks: unknown[] = [];
  let startResponse: Response | undefined = {};
  let listing = false;
  let gotRow = false;
  let lastRow = false;
  let readLine: (() => string | undefined) | undefined;
  let write: ((text: string) => void) | undefined;

  const clear = (): void => {
    gotRow = false;
    lastRow = false;
    chunks = [];
    startResponse = {};
  };
  // The pair comes from the host. What it throws (near the end of the stack even a RangeError of the host) must not be seen.
  const exchange = (reply: unknown): unknown => {
    const text = logs.lines() + describe.strictJson(reply) + "\n";
    let line: string | undefined;
    let lost = readLine === undefined || write === undefined;
    try {
      write?.(text);
      line = readLine?.();
    } catch {
      lost = true;
    }
    if (lost || typeof line !== "string")
      describe.raise(["fatal", "list_error", "no row line came"]);
    try {
      return parse(line);
    } catch {
      describe.raise(["fatal", "list_error", "the row line is not JSON"]);
    }
  };
  const withContentType = (response: Response, type: string | undefined): Response => {
    response.headers ??= {};
    if (type) response.headers["Content-Type"] = response.headers["Content-Type"] || type;
    return response;
  };
  const wrap = (value: unknown): unknown => (typeof value === "string" ? { body: value } : value);

  const nextRow = (): unknown => {
    if (!listing) throw new Error("getRow() can only be called by a list function");
    if (lastRow) return null;
    let reply: unknown[];
    if (!gotRow) {
      gotRow = true;
      reply = ["start", chunks, withContentType(startResponse ?? {}, mime.contentType())];
    } else {
      reply = startResponse ? ["chunks", chunks, startResponse] : ["chunks", chunks];
    }
    chunks = [];
    startResponse = undefined;
    const row = exchange(reply);
    const name = Array.isArray(row) ? (row as unknown[])[0] : undefined;
    if (name === "list_end") {
      lastRow = true;
      return null;
    }
    if (name !== "list_row")
      describe.raise(["fatal", "list_error", `not a row '${describe.text(name)}'`]);
    return (row as unknown[])[1];
  };

  const refuse = (e: unknown, kind: string): never => {
    if (e === null || e === undefined) describe.raise(e);
    const v = e as Record<string | number, unknown>;
    if ((v["error"] && v["reason"]) || v[0] === "error" || v[0] === "fatal") describe.raise(e);
    const stack = describe.field(e, "stack");
    const text = `function raised error: ${describe.text(e)} \nstacktrace: ${describe.text(stack)}`;
    logs.log(-1, text);
    describe.raise(["error", kind, text]);
  };
  const isDocumentPath = (req: unknown): boolean => {
    const path = describe.field(req, "path");
    return Array.isArray(path) && path.length > 5;
  };

  const globals = {
    start(response: unknown): void {
      startResponse = response || {};
    },
    send(chunk: unknown): void {
      const text = (chunk as { toString(): unknown }).toString();
      chunks[chunks.length] = typeof text === "string" ? text : describe.text(text);
    },
    getRow: nextRow,
  };
  const handlers: Render["handlers"] = {
    shows(fn, ddoc, args) {
      try {
        clear();
        mime.reset();
        let response = wrap(apply(fn, ddoc, args) || {}) as Response;
        if (chunks.length > 0) {
          response.headers ??= {};
          for (const name in startResponse) {
            response.headers[name] = (startResponse as Record<string, unknown>)[name];
          }
          response.body = chunks.join("") + ((response.body as string) || "");
          clear();
        }
        if (mime.used()) {
          const provided = wrap(mime.run(args[1], ddoc) || {}) as Response;
          response.body = ((response.body as string) || "") + chunks.join("");
          (response.body as string) += (provided.body as string) || "";
          response = withContentType(response, mime.contentType());
          clear();
        }
        if (typeof response !== "object") {
          describe.raise(["error", "render_error", "undefined response from show function"]);
        }
        return describe.strictJson(["resp", response]);
      } catch (e) {
        if (args[0] === null && isDocumentPath(args[1])) {
          describe.raise(["error", "not_found", "document not found"]);
        }
        return refuse(e, "render_error");
      }
    },
    lists(fn, ddoc, args) {
      try {
        clear();
        mime.reset();
        listing = true;
        let tail = apply(fn, ddoc, args);
        if (mime.used()) tail = mime.run(args[1], ddoc);
        if (!gotRow) nextRow();
        if (tail !== undefined) chunks[chunks.length] = tail;
        const reply = startResponse ? ["end", chunks, startResponse] : ["end", chunks];
        return describe.strictJson(reply);
      } catch (e) {
        return refuse(e, "render_error");
      } finally {
        listing = false;
        clear();
      }
    },
    updates(fn, ddoc, args) {
      try {
        if ((args[1] as { method?: string }).method === "GET") {
          describe.raise(["error", "method_not_allowed", "Update functions do not allow GET"]);
        }
        const result = apply(fn, ddoc, args) as unknown[];
        const doc = result[0];
        const response = result[1];
        if (typeof response !== "object" && typeof response !== "string") {
          describe.raise(["error", "render_error", "undefined response from update function"]);
        }
        return describe.strictJson(["up", doc, wrap(response)]);
      } catch (e) {
        return refuse(e, "render_error");
      }
    },
    rewrites(fn, ddoc, args) {
      try {
        const result = apply(fn, ddoc, args);
        if (!result) return '["no_dispatch_rule"]';
        if (typeof result !== "string") return describe.strictJson(["ok", result]);
        return describe.strictJson([
          "ok",
          { path: result, method: describe.field(args[0], "method") },
        ]);
      } catch (e) {
        return refuse(e, "rewrite_error");
      }
    },
  };
  return {
    globals,
    handlers,
    connect: (r, w) => {
      readLine = r;
      write = w;
    },
  };
}
