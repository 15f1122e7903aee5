// External sort: µs an entry to sort and encode chunks, and to merge their segments into a sink that does nothing.
//
//   node dist/test/bench/external-sort.js [entries] [entries a chunk] [keys: random | few] [rounds]
//
// Prints one JSON line a round. `cpu` counts this process' processor time, which other work on the machine disturbs less than the
// wall clock.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  EntryBatch,
  encodeSegment,
  mergeSegments,
  RunFile,
  type SegmentRef,
} from "../../btree/index.js";
import { seededRandom } from "../helpers/run-model.js";

const entries = Number(process.argv[2] ?? 1_000_000);
const chunk = Number(process.argv[3] ?? 16_384);
const distinct = process.argv[4] === "few" ? 1000 : 1e12;
const rounds = Number(process.argv[5] ?? 3);

const ID_BYTES = 32;
const KEY_DIGITS = 12;

interface Cost {
  wall: number;
  cpu: number;
}

function measured<T>(cost: Cost, work: () => T): T {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const result = work();
  cost.wall += performance.now() - start;
  const used = process.cpuUsage(cpu);
  cost.cpu += (used.user + used.system) / 1000;
  return result;
}

/** A key of 12 digits, an id of 32 hex digits, a value of 2 bytes. */
function pushEntry(batch: EntryBatch, random: () => number, ordinal: number): void {
  batch.ensure(64);
  const { bytes, used: start } = batch;
  let p = start;
  let number = (random() * 2048 + random()) % distinct;
  for (let i = 0; i < KEY_DIGITS; i++) {
    bytes[p++] = 48 + (number % 10);
    number = Math.floor(number / 10);
  }
  let word = 0;
  for (let i = 0; i < ID_BYTES; i++) {
    if (i % 4 === 0) word = random();
    const digit = (word >>> ((i % 4) * 4)) & 15;
    bytes[p++] = digit < 10 ? 48 + digit : 87 + digit;
  }
  const valueStart = p;
  bytes[p++] = 49;
  bytes[p++] = 50;
  batch.used = p;
  batch.push(start, valueStart, valueStart, p, ordinal);
}

const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));
const path = join(folder, "sort.run");
try {
  for (let round = 0; round < rounds; round++) {
    const random = seededRandom(1);
    const sort: Cost = { wall: 0, cpu: 0 };
    const encode: Cost = { wall: 0, cpu: 0 };
    const merge: Cost = { wall: 0, cpu: 0 };
    const file = RunFile.create(path);
    const batch = new EntryBatch();
    const refs: SegmentRef[] = [];
    let rawBytes = 0;
    for (let done = 0; done < entries; done += chunk) {
      batch.clear();
      for (let i = done; i < Math.min(done + chunk, entries); i++) pushEntry(batch, random, i);
      rawBytes += batch.used;
      measured(sort, () => {
        batch.sort();
      });
      refs.push(file.append(measured(encode, () => encodeSegment(batch))));
    }
    file.close();
    let kept = 0;
    measured(merge, () => {
      mergeSegments(refs, {}, () => {
        kept++;
      });
    });
    const per = ({ wall, cpu }: Cost): object => ({
      wall: Number(((wall * 1000) / entries).toFixed(3)),
      cpu: Number(((cpu * 1000) / entries).toFixed(3)),
    });
    console.log(
      JSON.stringify({
        bench: "external-sort",
        node: process.version,
        entries: kept,
        segments: refs.length,
        bytesPerRaw: Number((file.length / rawBytes).toFixed(3)),
        microsecondsAnEntry: { sort: per(sort), encode: per(encode), merge: per(merge) },
        rssBytes: process.memoryUsage().rss,
      }),
    );
  }
} finally {
  rmSync(folder, { recursive: true });
}
