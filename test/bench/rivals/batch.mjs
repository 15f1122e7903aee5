// The same work by viewmill's tree and by three other engines, with the same durability: load N rows in key order, then synced
// batches of random rows, point lookups, scans of 100 rows, a full scan, all warm.
//
//   npm run build && cd test/bench/rivals && npm install && node batch.mjs [rows] [engine…]     (default 1000000, all engines)
//
// One JSON line a result, in microseconds for each row or call: median of the runs and, for batches, the mean, which has the share of what an
// engine puts off (viewmill's log applied to the tree, sqlite's checkpoints, level's compactions). Keys are 32 bytes, values 13.
// viewmill: a log of at most 256 Ki operations and 32 MiB. sqlite: WITHOUT ROWID, WAL, synchronous=FULL. lmdb: one transaction a batch,
// fsync at its end. level: batch with sync. All with caches of 256 MiB.

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const rows = Number(process.argv[2] ?? 1_000_000);
const wanted = process.argv.slice(3);
const value = Buffer.alloc(13, 7);

let state = 1;
function random() {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 0x1_0000_0000;
}

function keyOf(i, suffix = "") {
  return Buffer.from(
    `${String(Math.floor(i / 20)).padStart(10, "0")}|document-${String(i).padStart(12, "0")}${suffix}`,
    "latin1",
  );
}

const engines = {
  async viewmill(folder) {
    const { assembleForests, NodeCache, Store, TreeBuilder } =
      await import("../../../dist/btree/index.js");
    const counter = { count: () => 1 };
    const store = await Store.create(join(folder, "t.vmx"), {
      state: Buffer.alloc(0),
      reducers: () => counter,
      cache: new NodeCache(256 * 1024 * 1024),
      log: { entriesMax: 256 * 1024, bytesMax: 32 * 1024 * 1024 },
    });
    const tree = () => store.snapshot().tree("t");
    return {
      async load(count) {
        const builder = new TreeBuilder(store.sink(), store.format, counter);
        for (let i = 0; i < count; i++) {
          const key = keyOf(i);
          builder.add(key, 0, key.length, value, 0, value.length);
        }
        const root = await assembleForests(store.sink(), store.format, counter, [
          await builder.finishPartition(),
        ]);
        store.adopt(new Map([["t", root]]), Buffer.alloc(1));
        await store.commit({ sync: true });
      },
      async batch(keys) {
        await store.apply(new Map([["t", keys.map((key) => ({ key, value }))]]), keys[0]);
        await store.commit({ sync: true });
      },
      get: (key) => tree().get(key),
      scan(key, count) {
        let seen = 0;
        for (const slice of tree().slices(key ? { gte: key } : {})) {
          for (let i = 0; i < slice.length; i++) {
            slice.value(i);
            if (++seen === count) return seen;
          }
        }
        return seen;
      },
      close: () => store.close(),
    };
  },

  async sqlite(folder) {
    const { default: Database } = await import("better-sqlite3");
    const db = new Database(join(folder, "t.sqlite"));
    db.pragma("journal_mode = WAL");
    db.pragma("synchronous = FULL");
    db.pragma("cache_size = -262144");
    db.exec("CREATE TABLE t (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID");
    const insert = db.prepare("INSERT OR REPLACE INTO t VALUES (?, ?)");
    const get = db.prepare("SELECT v FROM t WHERE k = ?");
    const scan = db.prepare("SELECT v FROM t WHERE k >= ? ORDER BY k LIMIT ?").raw();
    const put = db.transaction((keys) => {
      for (const key of keys) insert.run(key, value);
    });
    const load = db.transaction((count) => {
      for (let i = 0; i < count; i++) insert.run(keyOf(i), value);
    });
    return {
      async load(count) {
        load(count);
        db.pragma("wal_checkpoint(TRUNCATE)");
      },
      batch: async (keys) => put(keys),
      get: (key) => get.get(key).v,
      scan(key, count) {
        let seen = 0;
        for (const row of scan.iterate(key ?? Buffer.alloc(0), count)) if (row[0]) seen++;
        return seen;
      },
      close: async () => db.close(),
    };
  },

  async lmdb(folder) {
    const { open } = await import("lmdb");
    const db = open({
      path: join(folder, "t.lmdb"),
      keyEncoding: "binary",
      encoding: "binary",
      mapSize: 2 ** 33,
    });
    return {
      async load(count) {
        for (let first = 0; first < count; first += 100_000) {
          await db.transaction(() => {
            for (let i = first; i < Math.min(count, first + 100_000); i++) db.put(keyOf(i), value);
          });
        }
        await db.flushed;
      },
      async batch(keys) {
        await db.transaction(() => {
          for (const key of keys) db.put(key, value);
        });
        await db.flushed;
      },
      get: (key) => db.get(key),
      scan(key, count) {
        let seen = 0;
        for (const { value: found } of db.getRange({ start: key, limit: count })) if (found) seen++;
        return seen;
      },
      close: () => db.close(),
    };
  },

  async level(folder) {
    const { ClassicLevel } = await import("classic-level");
    const db = new ClassicLevel(join(folder, "t.level"), {
      keyEncoding: "buffer",
      valueEncoding: "buffer",
      cacheSize: 256 * 1024 * 1024,
    });
    await db.open();
    return {
      async load(count) {
        for (let first = 0; first < count; first += 10_000) {
          const ops = [];
          for (let i = first; i < Math.min(count, first + 10_000); i++)
            ops.push({ type: "put", key: keyOf(i), value });
          await db.batch(ops, { sync: first + 10_000 >= count });
        }
      },
      batch: (keys) =>
        db.batch(
          keys.map((key) => ({ type: "put", key, value })),
          { sync: true },
        ),
      get: (key) => db.get(key),
      async scan(key, count) {
        let seen = 0;
        const iterator = db.values({ ...(key ? { gte: key } : {}), limit: count });
        for (;;) {
          const values = await iterator.nextv(1000);
          if (values.length === 0) break;
          seen += values.length;
        }
        await iterator.close();
        return seen;
      },
      close: () => db.close(),
    };
  },
};

async function measure(engine, name, items, runs, body) {
  const times = [];
  for (let run = 0; run < runs; run++) {
    const start = performance.now();
    await body(run);
    times.push(((performance.now() - start) * 1000) / items);
  }
  tell(engine, name, times, false);
}

function tell(engine, name, times, mean) {
  const sum = times.reduce((total, time) => total + time, 0);
  times.sort((a, b) => a - b);
  const short = (number) => Number(number.toPrecision(3));
  console.log(
    JSON.stringify({
      engine,
      name,
      rows,
      microsecondsEach: short(times[times.length >> 1]),
      ...(mean
        ? { mean: short(sum / times.length), max: short(times.at(-1)), batches: times.length }
        : {}),
    }),
  );
}

function randomKeys(count, suffix = "") {
  const chosen = new Set();
  while (chosen.size < count) chosen.add(Math.floor(random() * rows));
  return [...chosen].map((i) => keyOf(i, suffix));
}

function folderBytes(folder) {
  let bytes = 0;
  for (const entry of readdirSync(folder, { recursive: true })) {
    const stat = statSync(join(folder, entry));
    if (stat.isFile()) bytes += stat.size;
  }
  return bytes;
}

for (const [name, create] of Object.entries(engines)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  state = 1;
  const folder = mkdtempSync(join(tmpdir(), "viewmill-rival-"));
  try {
    const engine = await create(folder);
    await measure(name, "load in key order", rows, 1, () => engine.load(rows));
    console.log(
      JSON.stringify({
        engine: name,
        name: "bytes a row",
        rows,
        bytes: Number((folderBytes(folder) / rows).toPrecision(3)),
      }),
    );
    const sought = randomKeys(Math.min(20_000, rows >> 1));
    await measure(name, "get", sought.length, 5, async () => {
      // Awaiting what is there already would be charged to the engines that answer at once.
      if (name === "level") for (const key of sought) await engine.get(key);
      else for (const key of sought) engine.get(key);
    });
    await measure(name, "scan of 100", 1000, 5, async () => {
      for (let i = 0; i < 1000; i++) await engine.scan(sought[i], 100);
    });
    await measure(name, "full scan", rows, 3, () => engine.scan(undefined, rows));
    // Enough of them that viewmill's log is applied to the tree, more than once for those of 10 000.
    for (const [size, runs] of [
      [100, 3000],
      [10_000, 60],
      [rows >= 10_000_000 ? 1_000_000 : 100_000, 2],
    ]) {
      if (size * 2 > rows) break;
      // Every engine gets its keys sorted, as viewmill's write buffer hands them over; made batch by batch, outside the clock.
      let keys = [];
      const times = [];
      for (let run = 0; run < runs; run++) {
        keys = randomKeys(size, `${size}-${run}`).sort(Buffer.compare);
        const start = performance.now();
        await engine.batch(keys);
        times.push(((performance.now() - start) * 1000) / size);
      }
      tell(name, `synced batch of ${size}`, times, true);
    }
    console.log(
      JSON.stringify({
        engine: name,
        name: "bytes a row, after batches",
        rows,
        bytes: Number((folderBytes(folder) / rows).toPrecision(3)),
      }),
    );
    await engine.close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
