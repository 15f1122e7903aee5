// Every view case whose expectation is told in words.

import { afterAll, test } from "@jest/globals";

import { MappingRuntime } from "../../indexer/index.js";
import { CaseIndex } from "../helpers/case-index.js";
import { casesOf } from "../helpers/golden-cases.js";
import { removeTempDirs } from "../helpers/temp-dir.js";
import { viewProperties, type Use } from "./view-properties.js";

removeTempDirs();

const runtime = new MappingRuntime({
  mapIn: "threads",
  server: undefined,
  threads: 1,
  timeoutMs: 5000,
  heapMb: 512,
  memoryMb: 1024,
});

afterAll(() => runtime.close());

test.each(casesOf("property").map((one) => [one.id, one] as const))("%s", async (id, one) => {
  const property = viewProperties[id];
  if (!property) throw new Error(`nobody has told in code what must hold: ${id}`);
  const use: Use = async (options, work) => {
    const shared = options.strict === true || options.mapIn === "processes" ? {} : { runtime };
    const index = await CaseIndex.open(one, { ...shared, ...options });
    try {
      await work(index);
    } finally {
      await index.close();
    }
  };
  await property(use, one);
});
