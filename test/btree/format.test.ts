// FORMAT.md and the code say the same: the dump in the page is what the code writes, and reads.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "@jest/globals";
import { FORMAT_VERSION, MemoryStorage, type Reducer, Store } from "../../btree/index.js";
import { bytesOf, entriesRead, textOf } from "./tree-model.js";

const page = readFileSync(new URL("../../../btree/FORMAT.md", import.meta.url), "utf8");

const entryCounter: Reducer = {
  count: () => 1,
  reduce: (leaves) => leaves.map((leaf) => Uint8Array.of(leaf.length)),
  rereduce: (groups) =>
    groups.map((group) => Uint8Array.of(group.reduce((sum, part) => sum + (part[0] ?? 0), 0))),
};
const reducers = () => entryCounter;

/** The bytes of the page's dump. */
function dumped(): Uint8Array {
  const dump = /```hexdump\n([^`]*)```/.exec(page)?.[1] ?? "";
  const lines = dump.trimEnd().split("\n");
  const last = lines.at(-1) ?? "";
  const bytesOfLine = (line: string): number[] =>
    (line.slice(8, 56).match(/[0-9a-f]{2}/g) ?? []).map((pair) => Number.parseInt(pair, 16));
  const image = new Uint8Array(Number.parseInt(last.slice(0, 6), 16) + bytesOfLine(last).length);
  for (const line of lines) image.set(bytesOfLine(line), Number.parseInt(line.slice(0, 6), 16));
  return image;
}

async function written(): Promise<Uint8Array> {
  const storage = new MemoryStorage();
  const store = await Store.create(storage, {
    state: bytesOf("{}"),
    reducers,
    salt: bytesOf("sixteen bytes!!!"),
  });
  const ops = ["apple 1", "apricot 2", "bread 30"].map((line) => {
    const [key, value] = line.split(" ") as [string, string];
    return { key: bytesOf(key), value: bytesOf(value) };
  });
  await store.apply(new Map([["t", ops]]), bytesOf('{"seq":3}'));
  await store.commit({ sync: true });
  await store.close();
  return storage.read(0, storage.size());
}

describe("the smallest file of FORMAT.md", () => {
  test("is, byte for byte, what the code writes", async () => {
    expect(Buffer.from(dumped()).toString("hex")).toBe(
      Buffer.from(await written()).toString("hex"),
    );
  });

  test("is read as the page says", async () => {
    const store = await Store.open(new MemoryStorage(dumped()), { mode: "read", reducers });
    const reader = store.snapshot().tree("t");

    expect(textOf(store.state)).toBe('{"seq":3}');
    expect(store.stats()).toMatchObject({
      commit: 2,
      fileBytes: 0x4052,
      trees: [{ name: "t", count: 3, height: 0, bytes: 0x25 }],
    });
    expect(
      entriesRead(reader).map(({ key, value }) => `${textOf(key) ?? ""} ${textOf(value) ?? ""}`),
    ).toEqual(["apple 1", "apricot 2", "bread 30"]);
    expect(reader.root?.reduction).toEqual(Uint8Array.of(3));
    await store.close();
  });

  test("with its newer slot gone is the store as it was created", async () => {
    const image = dumped();
    image.fill(0, 0x1000, 0x2000);
    const store = await Store.open(new MemoryStorage(image), { mode: "read", reducers });
    expect(textOf(store.state)).toBe("{}");
    await store.close();
  });

  test("with both slots gone is no store", async () => {
    const image = dumped();
    image.fill(0, 0, 0x2000);
    await expect(
      Store.open(new MemoryStorage(image), { mode: "read", reducers }),
    ).rejects.toMatchObject({
      code: "BTREE_NO_HEADER",
    });
  });
});

test("the page describes the version the code writes", () => {
  expect(page).toContain(`format version ${FORMAT_VERSION}`);
  expect(page).toMatch(new RegExp(`^\\| ${FORMAT_VERSION} +\\| viewmill`, "m"));
});
