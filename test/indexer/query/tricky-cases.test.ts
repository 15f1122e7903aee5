// The cases of VIEWS §23 that a query decides, over documents a, b, c…

import { describe, expect, test } from "@jest/globals";
import { ask, reasonOf, rowsOf } from "../../helpers/ask-view.js";
import { storeTree } from "../../helpers/store-tree.js";
import {
  modelView,
  type EmittedRow,
  type ModelOptions,
  type ModelView,
} from "../../helpers/view-model.js";

/** `[key, id, value]` in JavaScript values. */
function rows(...list: [key: unknown, id: string, value?: unknown][]): EmittedRow[] {
  return list.map(([key, id, value = null]) => ({
    id,
    key: JSON.stringify(key),
    value: JSON.stringify(value),
  }));
}

type Make = (list: EmittedRow[], options?: ModelOptions) => Promise<ModelView>;
const trees: [string, Make][] = [
  ["a plain tree", (list, options) => modelView(list, options)],
  [
    "a tree of the storage engine",
    (list, options) => modelView(list, { ...options, tree: storeTree }),
  ],
];

const numbers = rows(
  ...Array.from({ length: 10 }, (_, i): [number, string, number] => [i * 2, `d${i}`, i]),
);

describe.each(trees)("rows of a map query over %s", (_, view) => {
  test("equal keys of a document come in value order, also descending", async () => {
    const v = await view(rows([1, "a", "b"], [1, "a", "a"], [1, "b", 5]));
    expect(await rowsOf(v, "")).toEqual(['1<a>="a"', '1<a>="b"', "1<b>=5"]);
    expect(await rowsOf(v, "descending=true")).toEqual(["1<b>=5", '1<a>="a"', '1<a>="b"']);
  });

  test("values of one key come in Erlang term order", async () => {
    const v = await view(
      rows([1, "a"], [1, "a", 3], [1, "a", {}], [1, "a", []], [1, "a", "x"], [1, "a", true]),
    );
    expect(await rowsOf(v, "")).toEqual([
      "1<a>=3",
      "1<a>=null",
      "1<a>=true",
      "1<a>={}",
      "1<a>=[]",
      '1<a>="x"',
    ]);
  });

  test("identical values count each", async () => {
    const v = await view(rows([1, "a", 5], [1, "a", 5]));
    expect((await ask(v, "")).body).toMatchObject({ total_rows: 2, rows: [{}, {}] });
  });

  test("inclusive_end=false leaves out the rows of endkey in both directions", async () => {
    const v = await view(rows(["a", "1"], ["A", "2"], ["aa", "3"], ["b", "4"], ["B", "5"]));
    expect(await rowsOf(v, 'endkey="b"&inclusive_end=false')).toEqual([
      '"a"<1>=null',
      '"A"<2>=null',
      '"aa"<3>=null',
    ]);
    expect(await rowsOf(v, 'endkey="b"&inclusive_end=false&descending=true')).toEqual([
      '"B"<5>=null',
    ]);
  });

  test("objects compare member by member in the order written", async () => {
    const v = await view(rows([{ b: 2, a: 1 }, "x"], [{ b: 2, c: 2 }, "y"], [{ b: 2 }, "z"]));
    expect(await rowsOf(v, "")).toEqual([
      '{"b":2}<z>=null',
      '{"b":2,"a":1}<x>=null',
      '{"b":2,"c":2}<y>=null',
    ]);
  });

  test("the members of a query key are taken in the order written, integer-like names included", async () => {
    const v = await view([{ id: "x", key: '{"1":2,"b":1}', value: "null" }]);
    expect(await rowsOf(v, 'key={"1":2, "b":1}')).toHaveLength(1);
    expect(await rowsOf(v, 'key={"b":1,"1":2}')).toHaveLength(0);
    expect(await rowsOf(v, "", '{"key":{"b":1,"1":2}}')).toHaveLength(0);
    expect(await rowsOf(v, "", '{"key": {"1":2,"b":1}}')).toHaveLength(1);
  });

  test("raw collation has its own order of types and bytes", async () => {
    const keys = [1, false, null, true, { a: 1 }, ["a"], "A", "a"];
    const list = rows(...keys.map((key, i): [unknown, string] => [key, `d${i}`]));
    const v = await view(list, { collation: "raw" });
    expect(await rowsOf(v, "")).toEqual(keys.map((key, i) => `${JSON.stringify(key)}<d${i}>=null`));
    expect(await rowsOf(v, 'startkey={"a":1}&endkey="A"')).toHaveLength(3);
    expect(await reasonOf(v, 'startkey="a"&endkey=["a"]')).toContain("descending=true");
  });

  test("a range that cannot match is refused, unless its keys are the same", async () => {
    const v = await view(rows([1, "a"], [1, "z"], [2, "b"]));
    const text =
      "400 query_parse_error: No rows can match your key range, reverse your start_key and end_key or set";
    expect(await reasonOf(v, "startkey=2&endkey=1")).toBe(`${text} descending=true`);
    expect(await reasonOf(v, "startkey=1&endkey=2&descending=true")).toBe(
      `${text} descending=false`,
    );
    expect(await ask(v, "startkey=1&startkey_docid=z&endkey=1&endkey_docid=a")).toEqual({
      status: 200,
      body: { total_rows: 3, offset: 1, rows: [] },
    });
    expect(await reasonOf(v, 'startkey="é"&endkey="e\u0301"')).toBe("200");
    expect(await reasonOf(v, 'startkey="é"&endkey="e\u0301"&descending=true')).toBe("200");
    expect(
      await reasonOf(v, 'startkey="é"&startkey_docid=b&endkey="e\u0301"&endkey_docid=a'),
    ).toContain(text);
    expect(await reasonOf(v, "startkey=[1, 2]&endkey=[1,2]&startkey_docid=b&endkey_docid=a")).toBe(
      "200",
    );
  });

  test("document ids bound the rows of the end keys only", async () => {
    const v = await view(rows([1, "a"], [1, "b"], [1, "c"]));
    expect(await rowsOf(v, "endkey=1&endkey_docid=b&inclusive_end=false")).toEqual(["1<a>=null"]);
    expect(await rowsOf(v, "endkey=1&endkey_docid=b")).toEqual(["1<a>=null", "1<b>=null"]);
    expect(await rowsOf(v, "startkey=1&startkey_docid=b&descending=true")).toEqual([
      "1<b>=null",
      "1<a>=null",
    ]);
    expect(await rowsOf(v, "endkey=1&endkey_docid=b&descending=true")).toEqual([
      "1<c>=null",
      "1<b>=null",
    ]);
    expect(await rowsOf(v, "endkey=1&endkey_docid=b&descending=true&inclusive_end=false")).toEqual([
      "1<c>=null",
    ]);
    expect(await rowsOf(v, "startkey_docid=b")).toHaveLength(3);
    expect(await rowsOf(v, "endkey_docid=a")).toHaveLength(3);
  });

  test("key with inclusive_end=false finds nothing, where the key would be", async () => {
    const v = await view(rows([0, "a"], [1, "b"]));
    expect((await ask(v, "key=1&inclusive_end=false")).body).toEqual({
      total_rows: 2,
      offset: 1,
      rows: [],
    });
  });

  test("a number too small for a normal double is 0", async () => {
    const v = await view(rows([0, "a"], [[0, "e-324"], "b"], [1, "c"]));
    expect(await rowsOf(v, "key=5e-324")).toEqual(["0<a>=null"]);
    expect(await rowsOf(v, 'keys=[[-1e-320 , "e-324"],4.9E-324]')).toEqual([
      '[0,"e-324"]<b>=null',
      "0<a>=null",
    ]);
    expect(await rowsOf(v, "startkey=1e-300&endkey=2")).toEqual(["1<c>=null"]);
  });

  test("null is a key", async () => {
    const v = await view(rows([null, "a"], [0, "b"]));
    expect(await rowsOf(v, "endkey=null")).toEqual(["null<a>=null"]);
    expect(await rowsOf(v, "startkey=0")).toEqual(["0<b>=null"]);
  });

  test("offset tells where the scan stopped", async () => {
    const v = await view(numbers);
    const offset = async (query: string) => (await ask(v, query)).body["offset"];
    expect(await offset("startkey=99")).toBe(10);
    expect(await offset("startkey=15&endkey=15.5")).toBe(8);
    expect(await ask(v, "limit=0")).toEqual({
      status: 200,
      body: { total_rows: 10, offset: 0, rows: [] },
    });
    expect(await offset("limit=0&skip=3")).toBe(3);
    expect(await offset("descending=true&startkey=16")).toBe(1);
    expect(await offset("skip=99")).toBe(10);
    expect(await offset("startkey=4&endkey=6&skip=5")).toBe(7);
    expect(await offset("startkey=4&endkey=6&descending=true&startkey=6&endkey=4")).toBe(6);
  });

  test("a long skip may end inside the values of one document", async () => {
    const list: [unknown, string, number][] = [];
    for (let i = 0; i < 40; i++) {
      for (let n = 0; n < 3; n++) list.push([i, `d${i}`, n]);
    }
    const v = await view(rows(...list));
    const up = await rowsOf(v, "");
    const down = await rowsOf(v, "descending=true");
    expect([up[0], down[0]]).toEqual(["0<d0>=0", "39<d39>=0"]);
    for (const skip of [33, 34, 35, 36, 100, 119]) {
      expect(await rowsOf(v, `skip=${skip}&limit=4`)).toEqual(up.slice(skip, skip + 4));
      expect(await rowsOf(v, `skip=${skip}&limit=4&descending=true`)).toEqual(
        down.slice(skip, skip + 4),
      );
      expect(await rowsOf(v, `skip=${skip}&startkey=1`)).toEqual(up.slice(skip + 3));
    }
    expect(await rowsOf(v, "keys=[1,2,3,4,5,6,7,8,9,10,11,12,13]&skip=35&limit=2")).toEqual([
      "12<d12>=2",
      "13<d13>=0",
    ]);
    expect(await rowsOf(v, "skip=120")).toEqual([]);
  });

  test("keys are answered in list order, backwards when descending", async () => {
    const v = await view(rows(["a", "1"], ["a", "2"], ["b", "3"]));
    expect(await rowsOf(v, 'keys=["b","zz","a"]')).toEqual([
      '"b"<3>=null',
      '"a"<1>=null',
      '"a"<2>=null',
    ]);
    expect(await rowsOf(v, 'keys=["a","b"]&descending=true')).toEqual([
      '"b"<3>=null',
      '"a"<2>=null',
      '"a"<1>=null',
    ]);
    expect(await rowsOf(v, 'keys=["b","a"]&skip=1&limit=1')).toEqual(['"a"<1>=null']);
    expect(await rowsOf(v, 'keys=["a","b"]&startkey_docid=2')).toEqual([
      '"a"<2>=null',
      '"b"<3>=null',
    ]);
    expect(await rowsOf(v, 'keys=["a","a"]&limit=3')).toHaveLength(3);
    expect(await rowsOf(v, 'keys=["a","b"]&inclusive_end=false')).toEqual([]);
    expect((await ask(v, 'keys=["zz","b"]')).body["offset"]).toBe(2);
    expect((await ask(v, 'keys=["b","zz"]&inclusive_end=false')).body["offset"]).toBe(3);
  });

  test("an empty list of keys has no rows", async () => {
    const v = await view(numbers);
    expect((await ask(v, "keys=[]")).body).toEqual({ total_rows: 10, offset: 0, rows: [] });
    expect((await ask(v, "keys=[]&skip=4")).body).toEqual({ total_rows: 10, offset: 4, rows: [] });
  });

  test("sorted=false keeps the rows that skip would leave out", async () => {
    const v = await view(numbers);
    expect((await ask(v, "sorted=false&skip=8&limit=3")).body).toMatchObject({
      offset: 8,
      rows: [{ id: "d0" }, { id: "d1" }, { id: "d2" }],
    });
  });

  test("update_seq stands between offset and rows", async () => {
    const v = await view(rows([1, "a"]));
    expect(Object.keys((await ask(v, "update_seq=true")).body)).toEqual([
      "total_rows",
      "offset",
      "update_seq",
      "rows",
    ]);
  });
});

describe.each(trees)("reduce queries over %s", (_, view) => {
  const letters = rows(["a", "1", 1], ["b", "2", 2], ["b", "3", 3], ["c", "4", 4]);

  test("grouping is refused on map rows", async () => {
    const map = await view(letters);
    const reduced = await view(letters, { reduce: "_sum" });
    const text = "400 query_parse_error: Invalid use of grouping on a map view.";
    expect(await reasonOf(map, "group=true")).toBe(text);
    expect(await reasonOf(map, "group_level=1")).toBe(text);
    expect(await reasonOf(map, "group=false")).toBe("200");
    expect(await reasonOf(map, "group_level=0")).toBe("200");
    expect(await reasonOf(map, "reduce=true")).toBe(
      "400 query_parse_error: Reduce is invalid for map-only views.",
    );
    expect(await reasonOf(reduced, "reduce=false&group=true")).toBe(text);
  });

  test("keys need group=true, unless there is one", async () => {
    const v = await view(letters, { reduce: "_sum" });
    expect((await ask(v, 'keys=["b"]')).body).toEqual({ rows: [{ key: null, value: 5 }] });
    const text = "400 query_parse_error: Multi-key fetches for reduce views must use `group=true`";
    expect(await reasonOf(v, 'keys=["a","b"]')).toBe(text);
    expect(await reasonOf(v, 'keys=["a","b"]&group_level=1')).toBe(text);
    expect(await reasonOf(v, "keys=[]")).toBe(text);
    expect((await ask(v, "keys=[]&group=true")).body).toEqual({ rows: [] });
    expect(await reasonOf(v, 'keys="a"')).toBe(
      "400 query_parse_error: `keys` must be an array of strings.",
    );
    expect(await reasonOf(v, 'keys=["a","b"]&key="a"&group=true')).toBe(
      "400 query_parse_error: `keys` is incompatible with `key`, `start_key` and `end_key`",
    );
  });

  test("keys with group=true come in list order whatever the direction", async () => {
    const v = await view(letters, { reduce: "_sum" });
    expect(await rowsOf(v, 'keys=["c","zz","b"]&group=true&descending=true')).toEqual([
      '"c"=4',
      '"b"=5',
    ]);
    expect(await rowsOf(v, 'keys=["c","b","a"]&group=true&skip=1&limit=1')).toEqual(['"b"=5']);
  });

  test("no rows reduce to no row", async () => {
    const v = await view(letters, { reduce: "_count" });
    expect(await rowsOf(v, 'startkey="x"')).toEqual([]);
    expect(await rowsOf(v, "skip=1")).toEqual([]);
    expect(await rowsOf(v, "limit=0")).toEqual([]);
    expect(await rowsOf(v, "")).toEqual(["null=4"]);
  });

  test("group_level wins over group, but not over group=false", async () => {
    const v = await view(letters, { reduce: "_count" });
    expect(await rowsOf(v, "group=true&group_level=0")).toEqual(["null=4"]);
    expect(await reasonOf(v, "group=false&group_level=1")).toBe(
      "400 query_parse_error: Can't specify group=false and group_level>0 at the same time",
    );
    expect(await rowsOf(v, "group=false&group_level=0")).toEqual(["null=4"]);
  });

  test("levels cut arrays and leave other keys whole", async () => {
    const v = await view(
      rows([["a", 1], "1"], [["a", 2], "2"], ["a", "3"], [[], "4"], [["a"], "5"]),
      {
        reduce: "_count",
      },
    );
    expect(await rowsOf(v, "group_level=1")).toEqual(['"a"=1', "[]=1", '["a"]=3']);
    expect(await rowsOf(v, "group_level=2")).toEqual([
      '"a"=1',
      "[]=1",
      '["a"]=1',
      '["a",1]=1',
      '["a",2]=1',
    ]);
    expect(await rowsOf(v, "group_level=1&descending=true")).toEqual(['["a"]=3', "[]=1", '"a"=1']);
    expect(await rowsOf(v, 'group_level=1&startkey=["a",1]&endkey=["a",1,{}]')).toEqual([
      '["a"]=1',
    ]);
    expect(await rowsOf(v, "group_level=1&skip=1&limit=1")).toEqual(["[]=1"]);
  });

  test("keys that collate equally are one group, shown as the first met", async () => {
    const list: [unknown, string, number][] = [["é", "a", 1]];
    for (let i = 0; i < 30; i++) list.push(["é", `b${i}`, 1]);
    list.push(["e\u0301", "c", 1], ["f", "d", 1]);
    const v = await view(rows(...list), { reduce: "_sum" });
    expect(await rowsOf(v, "group=true")).toEqual(['"é"=32', '"f"=1']);
    expect(await rowsOf(v, "group=true&descending=true")).toEqual(['"f"=1', '"e\u0301"=32']);
    expect(await rowsOf(v, 'key="e\u0301"')).toEqual(["null=32"]);
    expect(await rowsOf(v, 'keys=["f","e\u0301"]&group=true')).toEqual(['"f"=1', '"é"=32']);
    expect(await rowsOf(v, 'keys=["f","é"]&group=true&descending=true')).toEqual([
      '"f"=1',
      '"e\u0301"=32',
    ]);
    expect(await rowsOf(v, 'key="é"&startkey_docid=b9&descending=true&group=true')).toEqual([
      '"é"=31',
    ]);
    expect(await rowsOf(v, 'reduce=false&startkey="é"&startkey_docid=c&endkey="é"')).toEqual([
      '"e\u0301"<c>=1',
    ]);
  });

  test("a custom reduce always gets a last rereduce", async () => {
    const five = rows(...Array.from({ length: 5 }, (_, i): [number, string] => [i, `d${i}`]));
    const v = await view(five, { reduce: "function(k,v){return v.length}" });
    expect(await rowsOf(v, "")).toEqual(["null=1"]);
    const r = await view(five, { reduce: "function(k,v,r){return r}" });
    expect(await rowsOf(r, "group=true")).toEqual([
      "0=true",
      "1=true",
      "2=true",
      "3=true",
      "4=true",
    ]);
  });

  test("_sum puts its error into the row", async () => {
    const v = await view(rows([1, "a"]), { reduce: "_sum" });
    expect(await ask(v, "")).toMatchObject({
      status: 200,
      body: { rows: [{ key: null, value: { error: "builtin_reduce_error", caused_by: null } }] },
    });
  });

  test("a bad _stats value fails the queries whose range holds it, and no other", async () => {
    const v = await view(rows([1, "a", 1], [2, "b", null], [3, "c", 3]), { reduce: "_stats" });
    expect(await rowsOf(v, "endkey=1.5")).toHaveLength(1);
    await expect(rowsOf(v, "")).rejects.toMatchObject({ code: "INDEXER_REDUCE_FAILED" });
    await expect(rowsOf(v, "group=true&startkey=2")).rejects.toMatchObject({
      details: { status: 500 },
    });
  });

  test("documents and conflicts are refused", async () => {
    const v = await view(letters, { reduce: "_sum" });
    expect(await reasonOf(v, "include_docs=true")).toBe(
      "400 query_parse_error: `include_docs` is invalid for reduce",
    );
    expect(await reasonOf(v, "conflicts=false")).toBe(
      "400 query_parse_error: `conflicts` is invalid for reduce views.",
    );
    expect(await reasonOf(v, "include_docs=false")).toBe("200");
    expect(await reasonOf(v, "reduce=false&include_docs=true&conflicts=true")).toBe("200");
  });

  test("an overflow is an error row without its key", async () => {
    const v = await view(letters, {
      reduce: "function(k,v){return 1}",
      js: {
        reduce: (sources) =>
          sources.map(() => ({ overflow: "Reduce output must shrink more rapidly" })),
        rereduce: () => ({ overflow: "Reduce output must shrink more rapidly" }),
      },
    });
    expect((await ask(v, "group=true&limit=1")).body).toEqual({
      rows: [
        { key: null, error: "reduce_overflow_error", reason: expect.stringContaining("shrink") },
      ],
    });
  });

  test("custom reduces that answer later are asked for a page at once", async () => {
    let waiting = 0;
    let most = 0;
    const later = async (texts: readonly string[]): Promise<readonly string[]> => {
      most = Math.max(most, ++waiting);
      await new Promise((resolve) => setImmediate(resolve));
      waiting--;
      return texts;
    };
    const many = rows(
      ...Array.from({ length: 20 }, (_, i): [number, string, number] => [i, `d${i}`, 1]),
    );
    const v = await view(many, {
      reduce: "function(k,v){return sum(v)}",
      js: {
        reduce: (sources) => later(sources.map(() => "1")),
        rereduce: async () => (await later(["1"]))[0] as string,
      },
    });
    most = 0;
    expect(await rowsOf(v, "group=true")).toHaveLength(20);
    expect(most).toBeGreaterThan(1);
  });
});

describe("checks that depend on the view", () => {
  const view = (list: EmittedRow[]): Promise<ModelView> => modelView(list);

  test("partitions must be named where rows are kept by partition, and only there", async () => {
    const v = await view(numbers);
    expect(await reasonOf(v, "partition=p")).toBe(
      "400 query_parse_error: `partition` parameter is not supported in this design doc",
    );
    expect(await reasonOf({ ...v, partitioned: true } as ModelView, "")).toBe(
      "400 query_parse_error: `partition` parameter is mandatory for queries to this view.",
    );
  });

  test("a maximum of rows is refused when exceeded and holds when nothing is said", async () => {
    const v = { ...(await view(numbers)), limitMax: 4 } as ModelView;
    expect(await reasonOf(v, "limit=5")).toBe(
      "400 query_parse_error: Limit is too large, must not exceed 4",
    );
    expect(await rowsOf(v, "")).toHaveLength(4);
  });

  test("the first failing check is the one reported", async () => {
    const v = await view(numbers);
    expect(await reasonOf(v, "reduce=true&group=false&group_level=1")).toContain("Can't specify");
    expect(await reasonOf(v, "reduce=true&keys=1")).toContain("Reduce is invalid");
    expect(await reasonOf(v, "keys=1&group=true")).toContain("array of strings");
    expect(await reasonOf(v, "group=true&startkey=2&endkey=1")).toContain("grouping");
  });
});
