// The program of a later release, with another order of keys, over an index of an earlier one: at the command line and over HTTP.

import { appendFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "@jest/globals";

import { jsonLines, startViewmill, viewmill, type CliResult } from "../../helpers/cli.js";
import { NEWLY_KNOWN } from "../../helpers/later-collation.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const LATER_RELEASE = {
  NODE_OPTIONS: `--import=${new URL("../../helpers/register-later-collation.js", import.meta.url).href}`,
};
const DESIGN = {
  _id: "_design/d",
  views: { v: { map: "function (doc) { emit(doc.name, 1); }", reduce: "_count" } },
};
const NAMES = ["b", "y", "d", "e", NEWLY_KNOWN, "m", "q"];
const OLD_ORDER = ["b", "d", "e", "m", "q", "y", NEWLY_KNOWN];
const NEW_ORDER = ["y", "d", NEWLY_KNOWN, "e", "q", "m", "b"];

function later(...args: string[]): Promise<CliResult> {
  return viewmill(args, { env: LATER_RELEASE });
}

/** An index of the earlier release; returns its directory and its source. */
async function earlier(): Promise<{ dir: string; source: string; log: string }> {
  const root = tempDir();
  const dir = join(root, "index");
  const log = join(root, "feed.ndjson");
  writeFileSync(join(root, "d.json"), JSON.stringify(DESIGN));
  writeFileSync(log, NAMES.map((name, i) => row(i + 1, name)).join(""));
  const source = `changes:${log}`;
  const args = ["--source", source, "--ddoc", join(root, "d.json"), "--threads", "1"];
  expect(await viewmill(["build", dir, ...args])).toMatchObject({ exit: 0 });
  return { dir, source, log };
}

function row(seq: number, name: string): string {
  const doc = { _id: `id-${seq}`, name };
  return `${JSON.stringify({ seq, id: doc._id, changes: [{ rev: "1-a" }], doc })}\n`;
}

async function keys(dir: string, run = later): Promise<unknown[]> {
  const { stdout } = await run("query", dir, "d/v", "--reduce", "false", "--json");
  return (JSON.parse(stdout) as { rows: { key: unknown }[] }).rows.map(({ key }) => key);
}

describe("the program of a later release", () => {
  test("queries and updates an older index as it is, tells that compact would renew it, and does so", async () => {
    const { dir, log } = await earlier();
    expect(await keys(dir)).toEqual(OLD_ORDER);
    appendFileSync(log, row(50, "y") + row(51, "a"));
    expect(await later("build", dir, "--threads", "1")).toMatchObject({ exit: 0 });
    expect(await keys(dir)).toEqual(["a", "b", "d", "e", "m", "q", "y", "y", NEWLY_KNOWN]);
    expect((await later("info", dir)).stdout).toContain(
      "order      version 1; `viewmill compact` would renew it in version 2",
    );
    expect((await viewmill(["info", dir])).stdout).toMatch(/order {6}version 1$/m);

    const compacted = await later("compact", dir, "--json");
    expect(compacted).toMatchObject({ exit: 0 });
    expect(jsonLines(compacted.stdout).at(-1)).toMatchObject({
      done: [{ collationBefore: 1, collation: 2 }],
    });
    expect(await keys(dir)).toEqual(["a", "y", "y", ...NEW_ORDER.slice(1)]);
    expect((await later("info", dir)).stdout).toMatch(/order {6}version 2$/m);
    expect(await later("verify", dir)).toMatchObject({ exit: 0 });
    const refused = await viewmill(["query", dir, "d/v"]);
    expect(refused.exit).toBe(1);
    expect(refused.stderr).toContain("INDEXER_FORMAT_UNSUPPORTED");
    expect(refused.stderr).toContain("Use a newer viewmill");
  });

  test("says in words what it renewed", async () => {
    const { dir } = await earlier();
    const { stdout } = await later("compact", dir);
    expect(stdout).toMatch(/; order of keys version 1, now 2$/m);
    expect((await later("compact", dir)).stdout).not.toContain("order of keys");
  });

  test("serves it, with its readers, before and after POST /_compact", async () => {
    const { dir, source, log } = await earlier();
    const server = startViewmill(
      ["serve", dir, "--source", source, "--port", "0", "--db", "db", "--workers", "2", "--json"],
      { env: LATER_RELEASE },
    );
    await server.until(({ stdout }) => stdout.includes("listening"));
    const base = String(server.lines().find((line) => line["listening"])?.["listening"]);
    const ask = async (path: string, init?: RequestInit): Promise<Record<string, unknown>> =>
      (await (await fetch(`${base}/db/${path}`, init)).json()) as Record<string, unknown>;
    const shown = async (query = "reduce=false"): Promise<unknown[]> =>
      ((await ask(`_design/d/_view/v?${query}`))["rows"] as { key: unknown }[]).map(
        ({ key }) => key,
      );
    const collators = async (): Promise<unknown> =>
      ((await ask("_design/d/_info"))["view_index"] as Record<string, unknown>)[
        "collator_versions"
      ];
    const order = async (): Promise<string | undefined> => {
      const seen = JSON.stringify(await shown());
      if (seen === JSON.stringify(NEW_ORDER)) return "new";
      return seen === JSON.stringify(OLD_ORDER) ? "old" : undefined;
    };
    expect(await order()).toBe("old");
    expect(await collators()).toEqual(["1", "2"]);
    const range = 'startkey="c"&endkey="m"&reduce=false';
    expect(await shown(range)).toEqual(["d", "e", "m"]);
    const begun = await ask("_compact/d", {
      method: "POST",
      headers: { "content-type": "application/json" },
    });
    expect(begun).toEqual({ ok: true });
    while (((await collators()) as unknown[]).length > 1) expect(await order()).toBeDefined();
    // Each reader hears of it, and until then answers from the old file.
    for (let seen = 0; seen < 20;) seen = (await order()) === "new" ? seen + 1 : 0;
    expect(await shown(range)).toEqual(["d", NEWLY_KNOWN, "e", "q", "m"]);
    appendFileSync(log, row(60, "yy"));
    expect(await shown('startkey="y"&endkey="y\ufff0"&reduce=false')).toEqual(["y", "yy"]);
    server.signal("SIGTERM");
    await server.ended;
    expect(readdirSync(dir).filter((name) => name.endsWith(".vmx"))).toEqual([
      expect.stringMatching(/\.2\.vmx$/),
    ]);
  });

  test("killed while it renews, it leaves the one file or the other", async () => {
    const { dir } = await earlier();
    const running = startViewmill(["compact", dir, "--json"], { env: LATER_RELEASE });
    await running.until(({ stdout }) => stdout.includes('"phase"'));
    await running.killTree();
    // Before the switch or after it, but whole.
    expect([OLD_ORDER, NEW_ORDER]).toContainEqual(await keys(dir));
    expect(await later("compact", dir)).toMatchObject({ exit: 0 });
    expect(await keys(dir)).toEqual(NEW_ORDER);
    expect(readdirSync(dir).sort()).toEqual([expect.stringMatching(/\.vmx$/), "viewmill.json"]);
  });
});
