// A bulk load of rows on one thread, from unsorted entries to a synced file: chunks sorted and spilled to runs, one merge, nodes written once.
// Prints JSON lines: rows/s, MB/s, bytes of runs and of the file against the data, passes, peak resident memory.
//
//   node dist/test/bench/bulk-load.js [rows, default 1000000] [rows a chunk, default 65536]

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  appendSegment,
  assembleForests,
  EntryBatch,
  Merger,
  RunFile,
  Store,
  TreeBuilder,
  type SegmentRef,
} from "../../btree/index.js";
import { Random } from "./generator.js";
import { check } from "./subject.js";

const rows = Number(process.argv[2] ?? 1_000_000);
const chunkRows = Number(process.argv[3] ?? 65_536);
const STEP = 8192;
const VALUE = Buffer.from("12.5");
const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));

interface Phase {
  readonly wallMs: number;
  readonly cpuMs: number;
}

async function phase(call: () => Promise<void> | void): Promise<Phase> {
  const cpu = process.cpuUsage();
  const began = performance.now();
  await call();
  const { user, system } = process.cpuUsage(cpu);
  return { wallMs: performance.now() - began, cpuMs: (user + system) / 1000 };
}

try {
  const random = new Random(1);
  const batch = new EntryBatch();
  const refs: SegmentRef[] = [];
  let dataBytes = 0;
  let runBytes = 0;
  const spilled = await phase(() => {
    const run = RunFile.create(join(folder, "rows.run"));
    for (let done = 0; done < rows; done += chunkRows) {
      batch.clear();
      for (let i = done; i < Math.min(rows, done + chunkRows); i++) {
        batch.ensure(64);
        const start = batch.used;
        // A key as a view of users has it, and an id of 32 digits.
        const length = batch.bytes.length;
        const end = Buffer.from(batch.bytes.buffer, batch.bytes.byteOffset, length).write(
          `user${random.below(50_000)}\0${random.hex(3)}${String(i).padStart(8, "0")}`,
          start,
          "latin1",
        );
        const valueStart = start + end;
        batch.bytes.set(VALUE, valueStart);
        batch.used = valueStart + VALUE.length;
        batch.push(start, valueStart, valueStart, batch.used, i);
        dataBytes += batch.used - start;
      }
      batch.sort();
      refs.push(appendSegment(run, batch));
    }
    run.close();
    runBytes = run.length;
  });
  const path = join(folder, "rows.vmx");
  const reducer = { count: () => 1 };
  const store = await Store.create(path, { state: new Uint8Array(0), reducers: () => reducer });
  let merged = 0;
  const loaded = await phase(async () => {
    const builder = new TreeBuilder(store.sink(), store.format, reducer);
    const merger = new Merger(refs, {}, (kb, ks, ke, vb, vs, ve) => {
      builder.add(kb, ks, ke, vb, vs, ve);
      merged++;
    });
    while (merger.step(STEP));
    merger.close();
    const root = await assembleForests(store.sink(), store.format, reducer, [
      await builder.finishPartition(),
    ]);
    store.adopt(new Map([["t", root]]), new Uint8Array(1));
    await store.commit({ sync: true });
  });
  let read = 0;
  let last: Uint8Array | undefined;
  for (const slice of store.snapshot().tree("t").slices({})) {
    const first = slice.key(0);
    check(last === undefined || Buffer.compare(last, first) < 0, "keys out of order");
    last = slice.key(slice.length - 1);
    read += slice.length;
  }
  check(merged === rows && read === rows, `${merged} rows merged, ${read} read, of ${rows}`);
  await store.close();
  const fileBytes = statSync(path).size;
  const wallMs = spilled.wallMs + loaded.wallMs;
  const each = (ms: number): number => Number(((ms * 1000) / rows).toPrecision(3));
  console.log(
    JSON.stringify({
      rows,
      segments: refs.length,
      rowsASecond: Math.round((rows * 1000) / wallMs),
      dataMBASecond: Number((dataBytes / 1000 / wallMs).toPrecision(3)),
      usARowMakeSortSpill: each(spilled.wallMs),
      cpuUs: each(spilled.cpuMs),
      usARowMergeBuild: each(loaded.wallMs),
      mergeCpuUs: each(loaded.cpuMs),
      "run bytes / data": Number((runBytes / dataBytes).toPrecision(3)),
      "file bytes / data": Number((fileBytes / dataBytes).toPrecision(3)),
      "written / (runs + 1.02 × file)": Number(
        ((runBytes + fileBytes) / (runBytes + 1.02 * fileBytes)).toPrecision(3),
      ),
      peakRssMB: Math.round(process.resourceUsage().maxRSS / 1024),
    }),
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
