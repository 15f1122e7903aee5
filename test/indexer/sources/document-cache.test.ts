import { expect, test } from "@jest/globals";

import {
  DocumentCache,
  MemorySource,
  type DocumentRequest,
  type Source,
} from "../../../indexer/sources/index.js";

/** A source that counts what is asked of it, with or without a stamp. */
function counting(source: MemorySource, stamp?: () => string): { source: Source; asked: string[] } {
  const asked: string[] = [];
  const wrapped = new Proxy(source, {
    get(target, name) {
      if (name === "documents")
        return (requests: readonly DocumentRequest[]) => {
          asked.push(...requests.map(({ id }) => id));
          return target.documents(requests);
        };
      if (name === "stamp") return stamp;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { source: wrapped, asked };
}

function memory(): MemorySource {
  const source = new MemorySource();
  source.put({ _id: "a", n: 1 });
  source.put({ _id: "b", n: 2 });
  return source;
}

test("asks the source once while its stamp stands still", async () => {
  let stamp = "1";
  const { source, asked } = counting(memory(), () => stamp);
  const cache = new DocumentCache(2 ** 20);

  const first = await cache.documents(source, [{ id: "a" }, { id: "b" }, { id: "none" }]);
  const second = await cache.documents(source, [{ id: "b" }, { id: "a" }]);

  expect(second).toEqual([first[1], first[0]]);
  expect(asked).toEqual(["a", "b", "none"]);
  expect(cache.stats()).toMatchObject({ hits: 2, misses: 3 });

  stamp = "2";
  await cache.documents(source, [{ id: "a" }]);
  expect(asked).toEqual(["a", "b", "none", "a"]);
});

test("keeps nothing that could change unseen", async () => {
  const { source, asked } = counting(memory());
  const cache = new DocumentCache(2 ** 20);

  await cache.documents(source, [{ id: "a" }]);
  await cache.documents(source, [{ id: "a" }]);

  expect(asked).toEqual(["a", "a"]);
});

test("tells requests apart by what they ask for", async () => {
  const { source, asked } = counting(memory(), () => "1");
  const cache = new DocumentCache(2 ** 20);

  await cache.documents(source, [{ id: "a" }, { id: "a", conflicts: true }]);

  expect(asked).toEqual(["a", "a"]);
});

test("takes no id for what tells another request apart", async () => {
  const source = memory();
  const rev = JSON.parse((await source.documents([{ id: "a" }]))[0] ?? "") as { _rev: string };
  const asCached = JSON.stringify(["a", rev._rev, false, false, false, false]);
  source.put({ _id: asCached, n: 3 });
  const cache = new DocumentCache(2 ** 20);
  const requests = [{ id: asCached }, { id: "a", rev: rev._rev }, { id: "a" }];

  const first = await cache.documents(source, requests);
  const second = await cache.documents(source, requests);

  expect(first.map((text) => (JSON.parse(text ?? "") as { n: number }).n)).toEqual([3, 1, 1]);
  expect(second).toEqual(first);
  expect(cache.stats()).toMatchObject({ hits: 3, misses: 3 });
});

test("stays within its bytes", async () => {
  const source = new MemorySource();
  for (let i = 0; i < 100; i++) source.put({ _id: `d${i}`, text: "x".repeat(1000) });
  const { source: counted } = counting(source, () => "1");
  const cache = new DocumentCache(20_000);

  for (let i = 0; i < 100; i++) await cache.documents(counted, [{ id: `d${i}` }]);

  expect(cache.stats().bytes).toBeLessThanOrEqual(20_000);
  expect(cache.stats().evictions).toBeGreaterThan(80);
});
