// Views kept by partition: every key begins with the partition's bytes, a query sees its own partition only (VIEWS §19).

import { describe, expect, test } from "@jest/globals";
import type { Entry } from "../../../btree/types.js";
import { createViewReducer } from "../../../indexer/reducers/index.js";
import { ask, rowsOf } from "../../helpers/ask-view.js";
import { MemoryTree } from "../../helpers/memory-tree.js";
import { entriesOf, type ModelView } from "../../helpers/view-model.js";

const prefixOf = (partition: string): Uint8Array => new TextEncoder().encode(`${partition}\u0000`);

/** Three partitions of ten rows with keys 0…9, queried as one of them. */
async function partitioned(partition: string): Promise<ModelView> {
  const start = prefixOf("a").length;
  const reducer = createViewReducer({ specs: ["_sum"], collation: "root", keyStart: () => start });
  const entries: Entry[] = ["a", "b", "c"].flatMap((name) => {
    const list = Array.from({ length: 10 }, (_, i) => ({
      id: `${name}:${i}`,
      key: String(i),
      value: "1",
    }));
    return entriesOf(list, "root").map(({ key, value }) => ({
      key: new Uint8Array(Buffer.concat([prefixOf(name), key])),
      value,
    }));
  });
  return {
    hasReduce: true,
    collation: "root",
    partitioned: true,
    context: {
      tree: await MemoryTree.create(entries, reducer),
      collation: "root",
      reducer,
      reduceIndex: 0,
      keyPrefix: prefixOf(partition),
    },
  } as ModelView;
}

describe("a query of one partition", () => {
  test("sees its rows and their keys, total and offset are the whole tree's", async () => {
    const { body } = await ask(await partitioned("b"), "partition=b&reduce=false");
    expect(body).toMatchObject({ total_rows: 30, offset: 10 });
    expect(
      (body["rows"] as { id: string; key: number }[]).map(({ id, key }) => `${key} ${id}`),
    ).toEqual(Array.from({ length: 10 }, (_, i) => `${i} b:${i}`));
  });

  test("takes ranges, keys, skip and direction", async () => {
    const b = await partitioned("b");
    const some = async (query: string) =>
      (await rowsOf(b, `partition=b&reduce=false&${query}`)).join(" ");
    expect(await some("startkey=8")).toBe("8<b:8>=1 9<b:9>=1");
    expect(await some("endkey=1&inclusive_end=false")).toBe("0<b:0>=1");
    expect(await some("descending=true&limit=2")).toBe("9<b:9>=1 8<b:8>=1");
    expect(await some("startkey=1&descending=true")).toBe("1<b:1>=1 0<b:0>=1");
    expect(await some("keys=[3,11,1]")).toBe("3<b:3>=1 1<b:1>=1");
    expect(await some("skip=9")).toBe("9<b:9>=1");
    expect(await some("skip=11")).toBe("");
    expect((await ask(b, "partition=b&reduce=false&descending=true")).body["offset"]).toBe(10);
  });

  test("reduces and groups its rows", async () => {
    const c = await partitioned("c");
    expect(await rowsOf(c, "partition=c")).toEqual(["null=10"]);
    expect(await rowsOf(c, "partition=c&group=true&startkey=8")).toEqual(["8=1", "9=1"]);
    expect(await rowsOf(c, "partition=c&group=true&keys=[9,0]")).toEqual(["9=1", "0=1"]);
    expect(await rowsOf(await partitioned("z"), "partition=z")).toEqual([]);
  });
});
