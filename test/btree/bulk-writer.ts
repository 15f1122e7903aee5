// A thread of the bulk tests: builds one partition of a tree in the file of its target and answers with the forest.

import { parentPort, workerData } from "node:worker_threads";
import { type BulkTarget, openBulkSink, TreeBuilder } from "../../btree/index.js";

const { target, from, to } = workerData as { target: BulkTarget; from: number; to: number };
const sink = openBulkSink(target, { extentBytes: 8192 });
const builder = new TreeBuilder(sink, target, { count: () => 1 });
const encoder = new TextEncoder();
for (let i = from; i < to; i++) {
  const key = encoder.encode(String(1_000_000 + i));
  const value = encoder.encode(`value ${i}`);
  builder.add(key, 0, key.length, value, 0, value.length);
}
const forest = await builder.finishPartition();
sink.flush();
sink.close();
parentPort?.postMessage(forest);
