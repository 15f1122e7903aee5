// Whatever was written, deleted, written again, repeated and interrupted before: an index that was kept up step by step holds what one
// built from nothing holds — the same id entries, rows, reductions and error records.

import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import {
  MappingRuntime,
  MemorySource,
  ViewIndex,
  type ViewIndexOptions,
} from "../../../indexer/index.js";
import { answerText, indexFile, names, treeContent } from "../../helpers/index-content.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const RUNS = Number(process.env["TEST_RUNS"] ?? 8);

const LIMITS = {
  server: undefined,
  threads: 2,
  timeoutMs: 20_000,
  heapMb: 256,
  memoryMb: 1024,
} as const;
const runtimes = {
  threads: new MappingRuntime({ ...LIMITS, mapIn: "threads" }),
  processes: new MappingRuntime({ ...LIMITS, mapIn: "processes" }),
};
afterAll(async () => {
  await runtimes.threads.close();
  await runtimes.processes.close();
});

const DESIGN = {
  _id: "_design/d",
  views: {
    by_group: {
      map: "function (doc) { if (doc.bad === 1) throw new Error('bad one'); emit([doc.group, doc.n], doc.n); }",
      reduce: "_sum",
    },
    tags: {
      map: "function (doc) { for (const tag of doc.tags) emit(tag, doc.n); if (doc.bad === 2) throw new TypeError('bad two'); }",
      reduce:
        "function (keys, values, rereduce) { return rereduce ? sum(values) : values.length; }",
    },
    numbers: { map: "function (doc) { emit(doc.n % 3, doc.n); }", reduce: "_stats" },
    ids: { map: "function (doc) { emit(doc._id, {group: doc.group}); }" },
  },
};

interface Doc {
  readonly _id: string;
  readonly group: string;
  readonly n: number;
  readonly tags: readonly string[];
  readonly bad?: number;
}

type Write =
  | { readonly kind: "put"; readonly doc: Doc }
  | { readonly kind: "delete"; readonly id: string }
  | { readonly kind: "repeat"; readonly back: number };

/** How an update ends: as it should, by a signal after so many reports of progress, or killed there. */
type End = { readonly kind: "whole" } | { readonly kind: "abort" | "kill"; readonly after: number };

interface Step {
  readonly writes: readonly Write[];
  readonly end: End;
  readonly reopen: boolean;
  readonly minDocuments: number;
}

const id = fc.constantFrom("a", "b", "ä", "c", "d", "dd", "\u{1F600}", "_x1", "e", "f", "g", "h");
const doc: fc.Arbitrary<Doc> = fc.record(
  {
    _id: id.map((name) => name.replace("_x1", "x1")),
    group: fc.constantFrom("one", "two", "ü"),
    n: fc.integer({ min: -5, max: 20 }),
    tags: fc.array(fc.constantFrom("r", "g", "B", "b"), { maxLength: 4 }),
    bad: fc.constantFrom(1, 2),
  },
  { requiredKeys: ["_id", "group", "n", "tags"] },
);
const write: fc.Arbitrary<Write> = fc.oneof(
  { weight: 6, arbitrary: doc.map((d) => ({ kind: "put" as const, doc: d })) },
  { weight: 2, arbitrary: id.map((name) => ({ kind: "delete" as const, id: name })) },
  {
    weight: 1,
    arbitrary: fc.integer({ min: 1, max: 10 }).map((back) => ({ kind: "repeat" as const, back })),
  },
);
const end: fc.Arbitrary<End> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ kind: "whole" as const }) },
  { weight: 2, arbitrary: fc.nat(6).map((after) => ({ kind: "abort" as const, after })) },
  { weight: 2, arbitrary: fc.nat(6).map((after) => ({ kind: "kill" as const, after })) },
);
const step: fc.Arbitrary<Step> = fc.record({
  writes: fc.array(write, { maxLength: 25 }),
  end,
  reopen: fc.boolean(),
  minDocuments: fc.constantFrom(1, 2, 7, 5000),
});

/** A feed that is written to, and opened by name or as itself. */
interface Feed {
  apply(writes: readonly Write[]): void;
  readonly source: ViewIndexOptions["source"];
  readonly append?: boolean;
}

class MemoryFeed implements Feed {
  readonly source = new MemorySource("proof");

  apply(writes: readonly Write[]): void {
    for (const one of writes) {
      if (one.kind === "put") this.source.put({ ...one.doc });
      else if (one.kind === "delete") this.source.delete(one.id);
    }
  }
}

/** Lines of a file that only grows; a repeat says the last so many lines again, as a feed that rewinds does. */
class GrowingFeed implements Feed {
  readonly source: string;
  readonly append: boolean;
  readonly #path: string;
  readonly #lines: string[] = [];
  readonly #changes: boolean;

  constructor(dir: string, kind: "changes" | "log") {
    this.#changes = kind === "changes";
    this.#path = join(dir, "feed.ndjson");
    this.source = this.#changes ? `changes:${this.#path}` : this.#path;
    this.append = !this.#changes;
    this.apply([{ kind: "put", doc: { _id: "first", group: "one", n: 1, tags: [] } }]);
  }

  apply(writes: readonly Write[]): void {
    for (const one of writes) {
      if (one.kind === "repeat") this.#lines.push(...this.#lines.slice(-one.back));
      else {
        const name = one.kind === "put" ? one.doc._id : one.id;
        const json = JSON.stringify(one.kind === "put" ? one.doc : { _id: name, _deleted: true });
        const seq = this.#lines.length + 1;
        const deleted = one.kind === "delete" ? ',"deleted":true' : "";
        this.#lines.push(
          this.#changes
            ? `{"seq":"${seq}-x","id":${JSON.stringify(name)},"changes":[{"rev":"${seq}-r"}]${deleted},"doc":${json}}`
            : json,
        );
      }
    }
    writeFileSync(this.#path, this.#lines.map((line) => `${line}\n`).join(""));
  }
}

/** A file that is written anew each time, in whatever order, with earlier states of some documents before the last. */
class SnapshotFeed implements Feed {
  readonly source: string;
  readonly #docs = new Map<string, string>();
  #turn = 0;

  constructor(dir: string) {
    this.source = join(dir, "documents.ndjson");
    this.apply([]);
  }

  apply(writes: readonly Write[]): void {
    const early: string[] = [];
    for (const one of writes) {
      if (one.kind === "put") {
        const before = this.#docs.get(one.doc._id);
        if (before !== undefined && one.doc.n % 2 === 0) early.push(before);
        this.#docs.set(one.doc._id, JSON.stringify(one.doc));
      } else if (one.kind === "delete") this.#docs.delete(one.id);
    }
    const lines = [...this.#docs.values()];
    if (this.#turn++ % 2 === 1) lines.reverse();
    const known = early.filter((line) => this.#docs.has((JSON.parse(line) as Doc)._id));
    writeFileSync(this.source, [...known, ...lines].map((line) => `${line}\n`).join(""));
  }
}

type FeedKind = "memory" | "changes" | "log" | "snapshot";

function makeFeed(kind: FeedKind, dir: string): Feed {
  if (kind === "memory") return new MemoryFeed();
  return kind === "snapshot" ? new SnapshotFeed(dir) : new GrowingFeed(dir, kind);
}

interface World {
  readonly kind: FeedKind;
  readonly mapIn: "threads" | "processes";
  readonly chunkBytes: number;
  readonly bulk: boolean;
  readonly steps: readonly Step[];
}

function world(kind: FeedKind, mapIn: "threads" | "processes"): fc.Arbitrary<World> {
  return fc.record({
    kind: fc.constant(kind),
    mapIn: fc.constant(mapIn),
    chunkBytes: fc.constantFrom(1, 200, 2000),
    bulk: fc.boolean(),
    steps: fc.array(step, { minLength: 1, maxLength: 5 }),
  });
}

function open(
  dir: string,
  feed: Feed,
  { mapIn, chunkBytes, bulk }: World,
  minDocuments: number,
): Promise<ViewIndex> {
  return ViewIndex.open({
    dir,
    source: feed.source as string,
    append: feed.append ?? false,
    designDocuments: [DESIGN],
    mapIn,
    runtime: runtimes[mapIn],
    chunkBytes,
    minDocuments,
    ...(bulk ? { bulkBytes: 0, bulkChanges: 0 } : {}),
  });
}

async function answers(index: ViewIndex): Promise<string[]> {
  return [
    await answerText(index, "d", "by_group"),
    await answerText(index, "d", "by_group", { group_level: 1 }),
    await answerText(index, "d", "by_group", { reduce: false }),
    await answerText(index, "d", "tags", { group: true }),
    await answerText(index, "d", "tags", { startkey: "b" }),
    await answerText(index, "d", "tags", { reduce: false }),
    await answerText(index, "d", "numbers", { group: true }),
    await answerText(index, "d", "ids"),
  ];
}

async function errorsOf(index: ViewIndex): Promise<unknown[]> {
  const all: unknown[] = [];
  // Only the first few exceptions of a view server are traced to their lines.
  for await (const { stack: _stack, ...record } of index.errors()) all.push(record);
  return all;
}

/** Goes through the steps, and compares in the end. */
async function live(what: World): Promise<void> {
  const root = tempDir();
  const feed = makeFeed(what.kind, root);
  let dir = join(root, "index-0");
  let index: ViewIndex | undefined;
  for (const [number, { writes, end: how, reopen, minDocuments }] of what.steps.entries()) {
    feed.apply(writes);
    index ??= await open(dir, feed, what, minDocuments);
    const abort = new AbortController();
    const copy = join(root, `index-${number + 1}`);
    let reports = 0;
    let killed = false as boolean;
    const onProgress = (): void => {
      if (how.kind === "whole" || reports++ !== how.after) return;
      if (how.kind === "abort") abort.abort();
      else {
        // What a process killed at this moment leaves is what the directory holds.
        cpSync(dir, copy, { recursive: true });
        killed = true;
      }
    };
    const updating = index.update({ signal: abort.signal, onProgress });
    if (abort.signal.aborted || how.kind === "abort") await updating.catch(expectAborted);
    else await updating;
    if (killed) dir = copy;
    if (killed || reopen) {
      await index.close();
      index = undefined;
    }
  }
  index ??= await open(dir, feed, what, 5000);
  await index.update();
  const fresh = await open(join(root, "fresh"), feed, { ...what, bulk: !what.bulk }, 5000);
  await fresh.update();
  expect(await answers(index)).toEqual(await answers(fresh));
  expect(await errorsOf(index)).toEqual(await errorsOf(fresh));
  expect((await index.verify()).flatMap(({ faults }) => faults)).toEqual([]);
  await index.close();
  await fresh.close();
  const { errors: _some, ...trees } = await treeContent(indexFile(dir));
  const { errors: _same, ...expected } = await treeContent(indexFile(join(root, "fresh")));
  expect(trees).toEqual(expected);
  expect(names(dir)).toEqual(["viewmill.json", expect.stringMatching(/\.vmx$/)].sort(byName));
}

function byName(a: unknown, b: unknown): number {
  return String(a) < String(b) ? -1 : 1;
}

function expectAborted(error: unknown): void {
  expect(error).toMatchObject({ code: "INDEXER_ABORTED" });
}

describe("an index kept up step by step", () => {
  for (const kind of ["memory", "changes", "log", "snapshot"] as const)
    for (const mapIn of ["threads", "processes"] as const)
      test(`equals one built from nothing: ${kind}, mapped in ${mapIn}`, async () => {
        await fc.assert(fc.asyncProperty(world(kind, mapIn), live), {
          numRuns: RUNS,
          plugins: [fc.interruptAfterTimeLimit(45_000)],
        });
      });
});
