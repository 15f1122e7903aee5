// One document in a hundred changes in an index that is large: the view servers are asked to map those and no other, and the index then
// answers as a fresh build does, row for row. Of `TEST_DOCUMENTS` documents (20 000; `npm run test:long` takes a million).

import { once } from "node:events";
import { createWriteStream, writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "@jest/globals";

import { ViewIndex } from "../../../indexer/index.js";
import { ChangesFeed } from "../../bench/changes-feed.js";
import { generateFile } from "../../bench/generator.js";
import { readLines } from "../../bench/lines.js";
import { buildDone, viewmill } from "../../helpers/cli.js";
import { CountingServer } from "../../helpers/counting-server.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const DOCUMENTS = Number(process.env["TEST_DOCUMENTS"] ?? 20_000);
const CHANGED = Math.ceil(DOCUMENTS / 100);

const DESIGN = {
  _id: "_design/d",
  views: {
    by_user: { map: "function (doc) { emit(doc.user, 1) }", reduce: "_count" },
    by_amount: { map: "function (doc) { emit([doc.amount], doc.user) }", reduce: "_count" },
  },
};

/** A source before and after its change. */
interface Case {
  /** The argument of --source. */
  readonly source: string;
  /** Changes `CHANGED` documents; answers their ids. */
  readonly change: () => Promise<ReadonlySet<string>>;
}

async function snapshot(root: string): Promise<Case> {
  const source = join(root, "docs.ndjson");
  const later = join(root, "later.ndjson");
  await generateFile(later, DOCUMENTS, { seed: 1, touch: { count: CHANGED, of: DOCUMENTS } });
  await generateFile(source, DOCUMENTS, { seed: 1 });
  return {
    source,
    change: async () => {
      const changed = new Set<string>();
      const before = readLines(source);
      const after: string[] = [];
      for (const line of readLines(later)) {
        const [, id = ""] = /"_id":"([^"]*)"/.exec(line) ?? [];
        if (line !== before.next().value) changed.add(id);
        after.push(line);
      }
      before.return(undefined);
      // Reversed, so that no document is where it was.
      const out = createWriteStream(source);
      for (let end = after.length; end > 0; end -= 1000)
        out.write(
          `${after
            .slice(Math.max(0, end - 1000), end)
            .reverse()
            .join("\n")}\n`,
        );
      out.end();
      await once(out, "close");
      return changed;
    },
  };
}

async function feed(root: string): Promise<Case> {
  const feed = await ChangesFeed.create(root, join(root, "feed.ndjson"), DOCUMENTS);
  return {
    source: `changes:${feed.path}`,
    change: () => {
      const changes = feed.make(CHANGED, "keys changed");
      feed.append(changes);
      return Promise.resolve(new Set(changes.map(({ id }) => id)));
    },
  };
}

async function* rowsOf(
  index: ViewIndex,
  view: string,
  parameters: Record<string, unknown>,
): AsyncGenerator<string> {
  const answer = await index.query("d", view, { update: "false", ...parameters });
  for await (const page of answer.pages()) yield* page;
}

/** How many rows both answer; the first two that differ, if any do. */
async function compare(
  left: AsyncGenerator<string>,
  right: AsyncGenerator<string>,
): Promise<{ rows: number; differ?: readonly [unknown, unknown] }> {
  for (let rows = 0; ; rows++) {
    const [a, b] = [await left.next(), await right.next()];
    if (a.done === true && b.done === true) return { rows };
    if (a.value !== b.value) return { rows, differ: [a.value, b.value] };
  }
}

describe.each([
  ["a file of documents, edited and reversed", snapshot],
  ["a changes feed that grew", feed],
])(`of ${DOCUMENTS} documents in %s`, (_what, make) => {
  test(`${CHANGED} changed: those are mapped, and the answers are a fresh build's`, async () => {
    const root = tempDir();
    const { source, change } = await make(root);
    const design = join(root, "design.json");
    writeFileSync(design, JSON.stringify(DESIGN));
    const [dir, fresh] = [join(root, "index"), join(root, "fresh")];
    const build = (into: string, ...more: string[]): ReturnType<typeof viewmill> =>
      viewmill(["build", into, "--source", source, "--ddoc", design, "--json", ...more]);
    expect(buildDone(await build(dir))).toMatchObject({ mapped: DOCUMENTS });

    const changed = await change();
    const server = new CountingServer(join(root, "mapped"));
    const done = buildDone(await build(dir, "--server", server.command));

    expect(changed.size).toBe(CHANGED);
    const counts = server.take();
    expect([...counts.values()].every((count) => count === 1)).toBe(true);
    expect(new Set(counts.keys())).toEqual(changed);
    expect(done).toMatchObject({ mapped: CHANGED, errors: 0 });

    expect(await build(fresh)).toMatchObject({ exit: 0 });
    const indexes = await Promise.all(
      [dir, fresh].map((path) => ViewIndex.open({ dir: path, readOnly: true })),
    );
    try {
      for (const view of Object.keys(DESIGN.views))
        for (const [parameters, rows] of [
          [{ reduce: false }, DOCUMENTS],
          [{ group: true }, expect.any(Number)],
          [{}, 1],
        ] as const) {
          const [left, right] = indexes.map((index) => rowsOf(index, view, parameters));
          expect(
            await compare(left as AsyncGenerator<string>, right as AsyncGenerator<string>),
          ).toEqual({ rows });
        }
    } finally {
      for (const index of indexes) await index.close();
    }
  });
});
