// What an answer is made of: its bytes (VIEWS §20), its pages, and what happens when nobody reads on.

import { describe, expect, test } from "@jest/globals";
import {
  parseViewQuery,
  queriesText,
  QueryError,
  QueryStats,
  resolveViewQueries,
  resolveViewQuery,
  runViewQuery,
  type ViewAnswer,
} from "../../../indexer/query/index.js";
import { answerOf, textOf } from "../../helpers/ask-view.js";
import { MemoryTree } from "../../helpers/memory-tree.js";
import { modelView, type EmittedRow, type ModelView } from "../../helpers/view-model.js";

const three: EmittedRow[] = [
  { id: 'a"\\\n', key: '"é"', value: '{"b":1,"1":2}' },
  { id: "ü", key: '[1,"x"]', value: "1.50" },
  { id: "c", key: "null", value: '"<&>\u2028"' },
];

const many = Array.from({ length: 1000 }, (_, i) => ({
  id: `d${String(i).padStart(4, "0")}`,
  key: JSON.stringify(["k", i % 50]),
  value: String(i),
}));

function entriesRead(view: ModelView): number {
  const { tree } = view.context;
  if (!(tree instanceof MemoryTree)) throw new Error("this view has another tree");
  return tree.entriesRead;
}

async function collect(texts: AsyncIterable<string>): Promise<string> {
  let all = "";
  for await (const text of texts) all += text;
  return all;
}

describe("bytes of an answer", () => {
  test("are CouchDB's, with ids, keys and values as they were emitted", async () => {
    const view = await modelView(three);
    expect(await textOf(answerOf(view, ""))).toBe(
      '{"total_rows":3,"offset":0,"rows":[\r\n' +
        '{"id":"c","key":null,"value":"<&>\u2028"},\r\n' +
        '{"id":"a\\"\\\\\\n","key":"é","value":{"b":1,"1":2}},\r\n' +
        '{"id":"ü","key":[1,"x"],"value":1.50}\r\n]}\n',
    );
  });

  test("of no rows keep both line ends", async () => {
    const view = await modelView(three, { reduce: "_count" });
    expect(await textOf(answerOf(view, "reduce=false&limit=0&update_seq=true"))).toBe(
      '{"total_rows":3,"offset":0,"update_seq":"7-abc","rows":[\r\n\r\n]}\n',
    );
    expect(await textOf(answerOf(view, 'key="z"&update_seq=true'))).toBe(
      '{"update_seq":"7-abc","rows":[\r\n\r\n]}\n',
    );
  });

  test("of a reduce have neither total nor offset", async () => {
    const view = await modelView(three, { reduce: "_count" });
    expect(await textOf(answerOf(view, "group=true"))).toBe(
      '{"rows":[\r\n{"key":null,"value":1},\r\n{"key":"é","value":1},\r\n{"key":[1,"x"],"value":1}\r\n]}\n',
    );
    const answer = answerOf(view, "");
    expect([answer.kind, answer.totalRows, answer.offset]).toEqual([
      "reduce",
      undefined,
      undefined,
    ]);
  });

  test("of several queries stand in a list of results", async () => {
    const view = await modelView(three, { reduce: "_count" });
    const body = '{"queries":[{"reduce":false,"limit":1},{}]}';
    const queries = resolveViewQueries([["skip", "0"]], body, view);
    const answers = queries.map((query) => runViewQuery(query, view.context));
    expect(await collect(queriesText(answers))).toBe(
      '{"results":[\r\n{"total_rows":3,"offset":0,"rows":[\r\n{"id":"c","key":null,"value":"<&>\u2028"}\r\n]},\r\n' +
        '{"rows":[\r\n{"key":null,"value":3}\r\n]}\r\n]}\n',
    );
    expect(JSON.parse(await collect(queriesText([])))).toEqual({ results: [] });
  });

  test("come in chunks of bounded size", async () => {
    const view = await modelView(many);
    const chunks: string[] = [];
    for await (const chunk of answerOf(view, "").text()) chunks.push(chunk);
    expect(chunks.length).toBeGreaterThan(2);
    expect(Math.max(...chunks.map((chunk) => chunk.length))).toBeLessThan(32 * 1024);
    expect((JSON.parse(chunks.join("")) as { rows: unknown[] }).rows).toHaveLength(1000);
  });
});

describe("several queries", () => {
  test("take the query string for defaults, without its keys and groups", async () => {
    const view = await modelView(many, { reduce: "_count" });
    const params: [string, string][] = [
      ["limit", "3"],
      ["group", "true"],
      ["keys", '["a","b"]'],
      ["descending", "true"],
    ];
    const [first, second] = resolveViewQueries(
      params,
      '{"queries":[{},{"limit":2,"group_level":1}]}',
      view,
    );
    expect(first).toMatchObject({ limit: 3, grouping: "none", keys: undefined, descending: true });
    expect(second).toMatchObject({ limit: 2, grouping: 1 });
  });

  test("are all checked before one is run", async () => {
    const view = await modelView(many);
    expect(() =>
      resolveViewQueries([], '{"queries":[{},{"startkey":2,"endkey":1}]}', view),
    ).toThrow(QueryError);
    expect(() => resolveViewQueries([], '{"queries":[{},{"limit":"x"}]}', view)).toThrow(
      "Invalid value for integer",
    );
    expect(() => resolveViewQueries([], '{"queries":[5]}', view)).toThrow(
      expect.objectContaining({ status: 500 }),
    );
    expect(resolveViewQueries([], '{"queries":[]}', view)).toEqual([]);
  });
});

describe("reading an answer", () => {
  test("as pages, rows, text or an object gives the same rows", async () => {
    const view = await modelView(many);
    const query = 'startkey=["k",10]&skip=40&limit=60&update_seq=true';
    const fromText = JSON.parse(await textOf(answerOf(view, query))) as { rows: unknown[] };
    expect(await answerOf(view, query).object()).toEqual(fromText);
    expect(answerOf(view, query).objectSync()).toEqual(fromText);
    const rows: unknown[] = [];
    for await (const row of answerOf(view, query).rows()) rows.push(row);
    expect(rows).toEqual(fromText.rows);
    expect(rows).toHaveLength(60);
  });

  test("at once is not possible when something must be waited for", async () => {
    const view = await modelView(many, {
      documents: () => Promise.reject(new Error("unreachable")),
    });
    expect(answerOf(view, "include_docs=true").objectSync()).toBeUndefined();
  });

  test("reads no further than its reader", async () => {
    const view = await modelView(many);
    for await (const page of answerOf(view, "").pages()) {
      expect(page.length).toBeGreaterThan(0);
      break;
    }
    expect(entriesRead(view)).toBeLessThan(20);
  });

  test("skips by rank, not by walking", async () => {
    const view = await modelView(many);
    expect((await answerOf(view, "skip=900&limit=1").object()).offset).toBe(900);
    expect((await answerOf(view, "skip=900&limit=1&descending=true").object()).rows).toHaveLength(
      1,
    );
    expect(entriesRead(view)).toBeLessThan(20);
  });

  test("happens once", async () => {
    const view = await modelView(many);
    const answer = answerOf(view, "");
    await answer.object();
    await expect(answer.object()).rejects.toThrow("can be read once");
  });

  test("ends when its signal fires", async () => {
    const view = await modelView(many);
    const controller = new AbortController();
    const query = resolveViewQuery(parseViewQuery([]), view);
    const answer: ViewAnswer = runViewQuery(query, view.context, { signal: controller.signal });
    const read = async (): Promise<void> => {
      for await (const page of answer.pages()) {
        expect(page.length).toBeGreaterThan(0);
        controller.abort(new Error("enough"));
      }
    };
    await expect(read()).rejects.toMatchObject({ code: "INDEXER_ABORTED" });
    const aborted = runViewQuery(query, view.context, { signal: AbortSignal.abort() });
    await expect(aborted.object()).rejects.toMatchObject({ code: "INDEXER_ABORTED" });
  });

  test("looks for the first of many keys without keeping the event loop", async () => {
    const view = await modelView(many);
    const keys = JSON.stringify(Array.from({ length: 600 }, (_, i) => `absent ${i}`).concat("k"));
    const answer = await answerOf(view, `keys=${keys}`).object();
    expect([answer.offset, answer.rows.length]).toEqual([0, 0]);
    expect(answerOf(view, `keys=${keys}&descending=true`).offset).toBe(1000);
  });

  test("gives the event loop a turn now and then", async () => {
    const view = await modelView(many);
    let turns = 0;
    let done = false;
    const count = (): void => {
      turns++;
      if (!done) setImmediate(count);
    };
    setImmediate(count);
    const started = performance.now();
    while (performance.now() - started < 60) {
      for await (const page of answerOf(view, "").pages()) expect(page.length).toBeGreaterThan(0);
    }
    done = true;
    expect(turns).toBeGreaterThan(0);
  });
});

describe("the beginning of an answer", () => {
  test("is the whole of a short one, at once", async () => {
    const view = await modelView(three);
    const { text, rest } = answerOf(view, "").head(1000);
    expect(rest).toBeUndefined();
    expect(text).toBe(await textOf(answerOf(view, "")));
  });

  test("goes on in the rest, wherever it was cut", async () => {
    const view = await modelView(many, {
      documents: (requests) => Promise.resolve(requests.map(() => "{}")),
    });
    for (const query of ["", "limit=0", "skip=40&limit=700", "include_docs=true&limit=150"]) {
      const whole = await textOf(answerOf(view, query));
      for (const characters of [0, 10, 3000, 1e6]) {
        const { text, rest } = answerOf(view, query).head(characters);
        expect(text + (rest ? await collect(rest) : "")).toBe(whole);
      }
    }
  });
});

describe("the end of reading", () => {
  test("is told once, however the answer is read or given up", async () => {
    const view = await modelView(many, { reduce: "_sum" });
    const ways: ((answer: ViewAnswer) => unknown)[] = [
      (answer) => answer.object(),
      (answer) => answer.objectSync(),
      (answer) => textOf(answer),
      (answer) => answer.head(1e6),
      async (answer) => {
        const { rest } = answer.head(0);
        await rest?.next();
        await rest?.return();
      },
      async (answer) => {
        for await (const row of answer.rows()) {
          expect(row).toBeDefined();
          break;
        }
      },
    ];
    for (const query of ["reduce=false", "group=true", "reduce=false&limit=0"]) {
      for (const way of ways) {
        let ended = 0;
        const resolved = resolveViewQuery(parseViewQuery(new URLSearchParams(query)), view);
        const answer = runViewQuery(resolved, view.context, { onEnd: () => ended++ });
        await way(answer);
        expect([answer.offset, ended]).toEqual([query === "group=true" ? undefined : 0, 1]);
      }
    }
  });
});

describe("explain", () => {
  test("adds what the query cost, and changes nothing else", async () => {
    const view = await modelView(many, {
      reduce: "_sum",
      leafEntries: 3,
      documents: (requests) => Promise.resolve(requests.map(() => "{}")),
    });
    for (const query of [
      "reduce=false&limit=20&skip=3",
      "group_level=2",
      "reduce=false&include_docs=true&limit=5",
    ]) {
      const stats = new QueryStats(() => ({
        hits: 5,
        misses: 1,
        evictions: 0,
        bytes: 0,
        bytesMax: 0,
      }));
      const plain = await answerOf(view, query).object();
      const explained = await textOf(
        answerOf({ ...view, context: { ...view.context, stats } }, `${query}&explain=true`),
      );
      const { explain, ...rest } = JSON.parse(explained) as Record<string, unknown>;
      expect(rest).toEqual(plain);
      expect(explain).toMatchObject({
        nodes_read: 0,
        cache_hits: 0,
        milliseconds: { scan: expect.any(Number) },
      });
      expect((explain as { rows_scanned: number }).rows_scanned).toBeGreaterThan(0);
    }
  });

  test("charges nodes to the phases that read them", () => {
    let misses = 0;
    const stats = new QueryStats(() => ({
      hits: 2 * misses,
      misses,
      evictions: 0,
      bytes: 0,
      bytesMax: 0,
    }));
    stats.enter("scan");
    misses += 3;
    stats.enter("documents");
    misses += 100;
    stats.enter("scan");
    misses += 4;
    stats.enter(undefined);
    misses += 1000;
    stats.add("update", 12.3456);
    expect(stats.toJSON()).toMatchObject({
      nodes_read: 7,
      cache_hits: 14,
      milliseconds: { update: 12.346 },
    });
  });
});
