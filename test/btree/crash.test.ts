// What was acknowledged as committed is there after any crash; what was not is absent or whole. A workload runs once over a
// storage that remembers its writes; then every moment of it is crashed, in several ways, and the file opened and read.
// TEST_SEED repeats a run, TEST_CRASHES (default 10000) sets how many crashes are made.

import { describe, expect, test } from "@jest/globals";
import {
  assembleForests,
  MemoryStorage,
  NodeCache,
  Store,
  TreeBuilder,
  type TreeOp,
} from "../../btree/index.js";
import { compareBytes } from "../../btree/bytes.js";
import { CrashStorage, seededRandom } from "./crash-storage.js";
import {
  bytesOf,
  entriesRead,
  hex,
  summingReducer,
  sumIn,
  sumOfParts,
  textOf,
  TreeModel,
} from "./tree-model.js";
import { checkTree } from "./tree-check.js";

const seed = Number(process.env["TEST_SEED"] ?? 20_240_601);
const crashes = Number(process.env["TEST_CRASHES"] ?? 10_000);

const reducers = () => summingReducer;
const cache = new NodeCache(1_000_000);

type Models = ReadonlyMap<string, TreeModel>;
const TREES = ["ids", "view:0"];

/** Everything a run of the workload promised: what each state holds, and which were acknowledged before which change. */
interface History {
  readonly states: Models[];
  readonly acknowledged: {
    readonly state: number;
    readonly change: number;
    readonly synced: boolean;
  }[];
}

function randomOps(random: () => number, count: number): TreeOp[] {
  const ops = new Map<string, TreeOp>();
  for (let i = 0; i < count; i++) {
    const key = bytesOf(`${Math.floor(random() * 40)}\0${Math.floor(random() * 9)}`);
    const length = random() < 0.05 ? 70 : Math.floor(random() * 8);
    const value =
      random() < 0.4 ? undefined : new Uint8Array(length).fill(Math.floor(random() * 256));
    ops.set(hex(key), { key, value });
  }
  return [...ops.values()].sort((a, b) => compareBytes(a.key, b.key));
}

/** Opens what a crash left, works on it, and notes what is promised. The state's text is its number in `states`. */
async function work(
  storage: CrashStorage,
  history: History,
  bootId: string,
  random: () => number,
): Promise<void> {
  const last = history.acknowledged.length === 0;
  // Half of the lives let small batches wait.
  const log = random() < 0.5 ? { entriesMax: 50, bytesMax: 2000 } : undefined;
  const store = last
    ? await Store.create(storage, {
        state: bytesOf("0"),
        reducers,
        cache,
        bootId,
        log,
        leafBytes: 256,
        innerBytes: 128,
      })
    : await Store.open(storage, { mode: "write", reducers, cache, bootId, log });
  if (last) history.acknowledged.push({ state: 0, change: storage.changes.length, synced: true });
  let models: Models = history.states[Number(textOf(store.state))] as Models;
  const steps = 3 + Math.floor(random() * 6);
  for (let step = 0; step < steps; step++) {
    const changed = new Map([...models].map(([name, model]) => [name, model.copy()]));
    const state = bytesOf(String(history.states.length));
    history.states.push(changed);
    if (random() < 0.2) {
      const ops = randomOps(random, 60).filter((op) => op.value !== undefined);
      const builder = new TreeBuilder(store.sink(), store.format, summingReducer);
      for (const { key, value } of ops)
        builder.add(key, 0, key.length, value as Uint8Array, 0, value?.length ?? 0);
      const forest = await builder.finishPartition();
      const root = await assembleForests(store.sink(), store.format, summingReducer, [forest]);
      const model = new TreeModel();
      model.apply(ops);
      changed.set("view:0", model);
      store.adopt(new Map([["view:0", root]]), state);
    } else {
      const batches = new Map(
        TREES.map((name) => [name, randomOps(random, Math.floor(random() * 25))]),
      );
      for (const [name, ops] of batches) changed.get(name)?.apply(ops);
      await store.apply(batches, state);
      if (random() < 0.5) store.sink().flush();
      if (random() < 0.1) await store.settle();
    }
    models = changed;
    const fate = random();
    if (fate < 0.75) {
      const synced = fate < 0.5;
      await store.commit({ sync: synced });
      history.acknowledged.push({
        state: history.states.length - 1,
        change: storage.changes.length,
        synced,
      });
    }
  }
  await store.close();
}

/** Opens the image and compares all of it with the state it claims to be. */
async function expectWhole(
  image: Uint8Array,
  history: History,
  change: number,
  power: boolean,
  bootId: string,
): Promise<void> {
  const acknowledged = history.acknowledged.filter(
    (ack) => ack.change <= change && (ack.synced || !power),
  );
  const storage = new MemoryStorage(image);
  let store: Store;
  try {
    store = await Store.open(storage, { mode: "write", reducers, cache, bootId });
  } catch (error) {
    // Before its first commit was acknowledged a store need not be there.
    if (acknowledged.length === 0) return;
    throw error;
  }
  const state = Number(textOf(store.state));
  expect(state).toBeGreaterThanOrEqual(Math.max(0, ...acknowledged.map((ack) => ack.state)));
  for (const [name, model] of history.states[state] as Models) {
    const reader = store.snapshot().tree(name);
    const entries = model.entries();
    const found = entriesRead(reader);
    expect(found.map(({ key, value }) => hex(key) + "=" + hex(value))).toEqual(
      entries.map(({ key, value }) => hex(key) + "=" + hex(value)),
    );
    expect(sumOfParts(reader.parts({}))).toBe(sumIn(entries));
    if (change % 16 !== 0) continue;
    await store.settle();
    checkTree(store, name, summingReducer);
  }
  // A recovered store goes on: one more commit, and it opens at it.
  const op = { key: bytesOf("after\0"), value: bytesOf("crash") };
  await store.apply(new Map([["ids", [op]]]), bytesOf("recovered"));
  await store.commit({ sync: true });
  await store.close();
  const again = await Store.open(storage, { mode: "read", reducers, cache, bootId: "another" });
  expect(textOf(again.state)).toBe("recovered");
  expect(textOf(again.snapshot().tree("ids").get(op.key))).toBe("crash");
  await again.close();
}

describe.each([
  ["power is lost", true],
  ["the process is killed", false],
])("when %s", (_name, power) => {
  test("the last acknowledged commit, or a whole later one, is there", async () => {
    let made = 0;
    for (let run = 0; made < crashes / 2; run++) {
      const random = seededRandom(seed + run);
      const history: History = {
        states: [new Map(TREES.map((name) => [name, new TreeModel()]))],
        acknowledged: [],
      };
      let image = new Uint8Array(0);
      // Three lives: each goes on from what a crash of the one before has left.
      for (let life = 0; life < 3; life++) {
        const bootId = power ? `boot ${life}` : "boot";
        const storage = new CrashStorage(image);
        const acknowledgedBefore = history.acknowledged.length;
        await work(storage, history, bootId, random);
        const next = power ? `boot ${life + 1}` : "boot";
        for (let n = life === 0 ? 0 : 1; n <= storage.changes.length; n++) {
          const left = power ? storage.afterPowerLoss(n, random) : storage.afterKill(n, random);
          await expectWhole(left, history, n, power, next);
          made++;
        }
        // The next life starts in the middle of this one; promises made after that moment were never made.
        const crashAt = Math.floor(random() * storage.changes.length);
        const first = history.acknowledged.find((ack) => ack.synced);
        const kept = history.acknowledged
          .slice(acknowledgedBefore)
          .filter((ack) => ack.change <= crashAt && (ack.synced || !power))
          .concat(history.acknowledged.slice(0, acknowledgedBefore))
          .map((ack) => ({ ...ack, change: 0 }));
        if (first === undefined || kept.length === 0) break;
        history.acknowledged.length = 0;
        history.acknowledged.push(...kept.sort((a, b) => a.state - b.state).slice(-1));
        image = (
          power ? storage.afterPowerLoss(crashAt, random) : storage.afterKill(crashAt, random)
        ).slice();
      }
    }
    expect(made).toBeGreaterThanOrEqual(crashes / 2);
  }, 300_000);
});

/** A store whose second commit was written whole by a process that was killed before its sync ended. */
async function killedBeforeSync(): Promise<CrashStorage> {
  const storage = new CrashStorage();
  const store = await Store.create(storage, {
    state: bytesOf("0"),
    reducers,
    cache,
    bootId: "first",
    leafBytes: 256,
    innerBytes: 128,
  });
  for (const state of ["1", "2"]) {
    await store.apply(new Map([["ids", manyOps(state)]]), bytesOf(state));
    await store.commit({ sync: true });
  }
  expect(storage.changes.pop()).toEqual({ kind: "sync" });
  return storage;
}

function manyOps(value: string): TreeOp[] {
  return Array.from({ length: 300 }, (_, i) => ({
    key: bytesOf(String(1000 + i)),
    value: bytesOf(value),
  }));
}

/** The states that are found after losses of power, each of which must be there to its last entry. */
async function statesAfterLosses(storage: CrashStorage): Promise<Set<string>> {
  const states = new Set<string>();
  for (let i = 0; i < 500; i++) {
    const image = storage.afterPowerLoss(storage.changes.length, seededRandom(seed + i));
    const options = { mode: "read", reducers, cache, bootId: "second" } as const;
    const store = await Store.open(new MemoryStorage(image), options);
    const state = textOf(store.state) ?? "";
    const entries = entriesRead(store.snapshot().tree("ids"), {});
    expect(entries).toHaveLength(300);
    expect(new Set(entries.map(({ value }) => textOf(value)))).toEqual(new Set([state]));
    states.add(state);
    await store.close();
  }
  return states;
}

describe("a commit whose writer did not live to see it synced", () => {
  test("is not called durable by the next one, who only opens and closes", async () => {
    const storage = await killedBeforeSync();
    await (await Store.open(storage, { mode: "write", reducers, cache, bootId: "first" })).close();

    expect(await statesAfterLosses(storage)).toEqual(new Set(["1", "2"]));
  });

  test("is durable once the next one has committed with a sync, also when nothing changed", async () => {
    const storage = await killedBeforeSync();
    const next = await Store.open(storage, { mode: "write", reducers, cache, bootId: "first" });
    await next.commit({ sync: true });
    await next.close();

    expect(await statesAfterLosses(storage)).toEqual(new Set(["2"]));
  });
});
