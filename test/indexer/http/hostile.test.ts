// Hostile input over real sockets: whatever comes, the answer is a specified one, nothing crashes, and the next request is served.

import { connect, type Socket } from "node:net";

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { PARAMETER_NAMES } from "../../../indexer/query/index.js";
import { Serving, design } from "./serving.js";

const runs = (count: number): number => count * Number(process.env["TEST_RUNS"] ?? 1);
const serving = new Serving();

beforeAll(async () => {
  serving.feed.put(
    design(),
    ...Array.from({ length: 50 }, (_, i) => ({ _id: `d${i}`, k: [i % 7, `x${i}`], v: i })),
  );
  await serving.start("--body-max", "100000", "--user", "a:b");
});

afterAll(() => serving.remove());

const authorization = `Basic ${Buffer.from("a:b").toString("base64")}`;
const AUTH = `Authorization: ${authorization}\r\n`;
const VIEW = "/db/_design/d/_view/v";
let pid = 0;

beforeEach(() => {
  pid ||= serving.pid;
});

/** The server is as it was. */
async function expectServed(): Promise<void> {
  const { status, json } = await serving.ask(`${VIEW}?limit=1`, { headers: { authorization } });
  expect([status, json["total_rows"]]).toEqual([200, 50]);
}

/** Errors that a client can be to blame for, and CouchDB's own for what it has no clause for. */
const STATUSES = new Set([200, 304, 400, 401, 404, 405, 408, 413, 414, 415, 431]);

function expectSpecified(answer: { status: number; text: string }, context: unknown): void {
  const { status, text } = answer;
  if (!STATUSES.has(status)) throw new Error(`${status} ${text} for ${JSON.stringify(context)}`);
  if (status === 200)
    expect(JSON.parse(text)).toHaveProperty(text.startsWith('{"results"') ? "results" : "rows");
  else
    expect(JSON.parse(text)).toEqual({
      error: expect.any(String) as unknown,
      reason: expect.any(String) as unknown,
    });
}

const name = fc.oneof(
  fc.constantFrom(...PARAMETER_NAMES, "queries", "list", "__proto__", ""),
  fc.string(),
);
const value = fc.oneof(
  fc.constantFrom(
    "true",
    "false",
    "null",
    "1",
    "-1",
    "0",
    "1e999",
    "18446744073709551616",
    "[]",
    "{}",
    '"\\ud800"',
    "%",
    "lazy",
    "ok",
    '["a"',
    "\u0000",
  ),
  fc.json(),
  fc.string({ unit: "binary" }),
  fc.integer().map(String),
);

describe("parameters", () => {
  test("any names and values get an answer", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(name, value), { maxLength: 6 }),
        fc.constantFrom("v", "sum"),
        async (pairs, view) => {
          const query = pairs
            .map(
              ([n, v]) =>
                `${encodeURIComponent(wellFormed(n))}=${encodeURIComponent(wellFormed(v))}`,
            )
            .join("&");
          expectSpecified(
            await serving.ask(`/db/_design/d/_view/${view}?${query}`, {
              headers: { authorization },
            }),
            query,
          );
        },
      ),
      { numRuns: runs(150) },
    );
    await expectServed();
  });

  test("any bytes in the query string get an answer", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom(...Array.from("%&=+#?/\\\"'<>{}[]|^~;:,.aA0")) }),
        async (query) => {
          const text = await serving.raw([
            `GET ${VIEW}?${query} HTTP/1.1\r\nHost: x\r\n${AUTH}Connection: close\r\n\r\n`,
          ]);
          expectSpecified(parsed(text), query);
        },
      ),
      { numRuns: runs(50) },
    );
    await expectServed();
  });

  test("any path gets an answer", async () => {
    const segment = fc.oneof(
      fc.constantFrom(
        "db",
        "_design",
        "d",
        "_view",
        "v",
        "queries",
        "_info",
        "_partition",
        "_compact",
        "..",
        ".",
        "",
        "%2f",
        "%",
        "%ff",
      ),
      fc.string(),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(segment, { maxLength: 7 }),
        fc.constantFrom("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"),
        async (path, method) => {
          const url = `/${path.map((one) => one.replace(/[^\x21-\x7e]|[?#]/g, "~")).join("/")}`;
          const answer = parsed(
            await serving.raw([
              `${method} ${url} HTTP/1.1\r\nHost: x\r\n${AUTH}Connection: close\r\n\r\n`,
            ]),
          );
          if (!STATUSES.has(answer.status) && answer.status !== 202 && answer.status !== 410)
            throw new Error(`${answer.status} for ${method} ${url}`);
        },
      ),
      { numRuns: runs(150) },
    );
    await expectServed();
  });
});

describe("bodies", () => {
  const member = fc.tuple(
    name,
    fc.oneof(fc.jsonValue(), fc.constantFrom<unknown>(true, -1, "true", [], {}, [1, 2])),
  );
  const body = fc.array(member, { maxLength: 6 }).map((members) => Object.fromEntries(members));

  test("any object gets an answer", async () => {
    await fc.assert(
      fc.asyncProperty(body, fc.constantFrom("v", "sum"), async (given, view) => {
        expectSpecified(
          await serving.ask(`/db/_design/d/_view/${view}`, {
            body: given,
            headers: { authorization },
          }),
          given,
        );
      }),
      { numRuns: runs(150) },
    );
    await expectServed();
  });

  test("any list of queries gets an answer", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(body, fc.jsonValue()), { maxLength: 4 }),
        async (queries) => {
          const answer = await serving.ask(`${VIEW}/queries`, {
            body: { queries },
            headers: { authorization },
          });
          // CouchDB has no clause for an entry that is no object.
          if (answer.status === 500) expect(answer.json["reason"]).toBe("function_clause");
          else expectSpecified(answer, queries);
        },
      ),
      { numRuns: runs(100) },
    );
    await expectServed();
  });

  test("any bytes get an answer", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 200 }),
        fc.constantFrom("", "gzip", "br", "identity"),
        async (bytes, encoding) => {
          const headers = {
            authorization,
            ...(encoding === "" ? {} : { "content-encoding": encoding }),
          };
          expectSpecified(await serving.ask(VIEW, { method: "POST", body: bytes, headers }), [
            ...bytes,
          ]);
        },
      ),
      { numRuns: runs(60) },
    );
    await expectServed();
  });

  test("lists as long as a body may be get an answer, and others are served meanwhile", async () => {
    const keys = Array.from({ length: 9000 }, (_, i) => [i % 7, `x${i % 50}`]);
    const long = [
      serving.ask(VIEW, { body: { keys }, headers: { authorization } }),
      serving.ask("/db/_design/d/_view/sum?group=true", {
        body: { keys },
        headers: { authorization },
      }),
      serving.ask("/db/_all_docs", {
        body: { keys: keys.map((_, i) => `d${i}`) },
        headers: { authorization },
      }),
      serving.ask("/db/_all_docs/queries", {
        body: { queries: Array.from({ length: 1000 }, () => ({ limit: 1 })) },
        headers: { authorization },
      }),
      serving.ask(`${VIEW}/queries`, {
        body: { queries: Array.from({ length: 5000 }, () => ({ limit: 0 })) },
        headers: { authorization },
      }),
    ];
    await expectServed();
    for (const [at, answer] of (await Promise.all(long)).entries()) {
      expect(answer.status).toBe(200);
      expectSpecified(answer, at);
    }
  });

  test.each([
    ["a range of bytes", { range: "bytes=0-10" }],
    ["an odd Accept", { accept: `${"a/b,".repeat(3000)}*/*` }],
    [
      "thousands of tags",
      { "if-none-match": Array.from({ length: 5000 }, (_, i) => `"${i}"`).join() },
    ],
  ])("%s is answered with the whole", async (_what, headers) => {
    const answer = await serving.ask(`${VIEW}?limit=2`, { headers: { authorization, ...headers } });
    expect(answer.status).toBe(200);
    expect(answer.json["rows"]).toHaveLength(2);
  });

  test("deep nesting gets an answer", async () => {
    for (const depth of [100, 10_000, 40_000]) {
      const key = `${"[".repeat(depth)}${"]".repeat(depth)}`;
      expectSpecified(
        await serving.ask(VIEW, { body: `{"key":${key}}`, headers: { authorization } }),
        depth,
      );
    }
    await expectServed();
  });
});

describe("connections", () => {
  test.each([
    ["no HTTP", "hello\r\n\r\n", 400],
    ["another protocol", "\u0016\u0003\u0001\u0002\u0000", 400],
    [
      "headers that are too large",
      `GET /_up HTTP/1.1\r\nHost: x\r\nX: ${"a".repeat(200_000)}\r\n\r\n`,
      431,
    ],
    [
      "very many headers",
      `GET /_up HTTP/1.1\r\nHost: x\r\n${"X: aaaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(6000)}\r\n`,
      431,
    ],
    ["no host", "GET /_up HTTP/1.1\r\n\r\n", 400],
    [
      "two lengths",
      `POST ${VIEW} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}`,
      400,
    ],
    [
      "a length and chunks",
      `POST ${VIEW} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
    ],
    [
      "a length that is none",
      `POST ${VIEW} HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n`,
      400,
    ],
    [
      "a bad chunk",
      `POST ${VIEW} HTTP/1.1\r\nHost: x\r\n${AUTH}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      400,
    ],
  ])("%s: the specified error", async (_what, bytes, status) => {
    const text = await serving.raw([bytes]);
    // A client that is still writing may lose the answer with the connection.
    if (text !== "") expect(parsed(text).status).toBe(status);
    else expect(bytes.length).toBeGreaterThan(100_000);
    await expectServed();
  });

  test("pipelined requests are answered in order, an error among them too", async () => {
    const one = (query: string): string =>
      `GET ${VIEW}?${query} HTTP/1.1\r\nHost: x\r\n${AUTH}\r\n`;
    const queries = Array.from({ length: 60 }, (_, i) =>
      i % 10 === 5 ? "limit=x" : `limit=1&skip=${i % 50}`,
    );
    const text = await serving.raw(
      [queries.map(one).join("")],
      (got) => got.split("HTTP/1.1 ").length > queries.length && got.endsWith("\n"),
    );
    const answers = text.split("HTTP/1.1 ").slice(1);
    expect(answers.length).toBe(queries.length);
    for (const [i, answer] of answers.entries()) {
      if (i % 10 === 5) expect(answer).toContain("query_parse_error");
      else expect(answer).toContain(`"offset":${i % 50},`);
    }
  });

  test("clients that leave at any moment harm nobody", async () => {
    const request = `POST ${VIEW} HTTP/1.1\r\nHost: x\r\n${AUTH}Content-Type: application/json\r\nContent-Length: 14\r\n\r\n{"limit":1000}`;
    const { port } = new URL(serving.url);
    for (let cut = 0; cut <= request.length; cut += 7)
      await new Promise<void>((resolve) => {
        const socket = connect(Number(port), "127.0.0.1", () => {
          socket.write(request.slice(0, cut), () => {
            socket.destroy();
          });
        });
        socket.on("error", () => undefined);
        socket.on("close", () => {
          resolve();
        });
      });
    await expectServed();
  });

  test("thousands of idle connections leave room for those that ask", async () => {
    const { port } = new URL(serving.url);
    const count = 2000 * Math.min(4, Number(process.env["TEST_RUNS"] ?? 1));
    const sockets: Socket[] = [];
    try {
      for (let i = 0; i < count; i += 100)
        await Promise.all(
          Array.from({ length: 100 }, async () => {
            const socket = connect(Number(port), "127.0.0.1");
            sockets.push(socket);
            socket.on("error", () => undefined);
            await new Promise<void>((resolve, reject) => {
              socket.once("connect", resolve);
              socket.once("close", reject);
            });
          }),
        );
      for (let i = 0; i < 20; i++) await expectServed();
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    await expectServed();
  });

  test("after all of this it is still the same process", () => {
    expect(serving.pid).toBe(pid);
    expect(serving.errors).not.toMatch(/died|viewmill bug|TypeError|ERR_/);
  });
});

function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "?");
}

/** The first answer of a connection. */
function parsed(text: string): { status: number; text: string } {
  const end = text.indexOf("\r\n\r\n");
  const head = text.slice(0, end);
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
  const body = text.slice(end + 4);
  return { status, text: /\r\ntransfer-encoding: chunked/i.test(head) ? dechunked(body) : body };
}

function dechunked(body: string): string {
  let rest = body;
  let text = "";
  for (;;) {
    const end = rest.indexOf("\r\n");
    const size = Number.parseInt(rest.slice(0, end), 16);
    if (!(size > 0)) return text;
    text += rest.slice(end + 2, end + 2 + size);
    rest = rest.slice(end + 2 + size + 2);
  }
}
