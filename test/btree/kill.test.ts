// A real process, really killed: no commit that it acknowledged is lost, synced or not, and none is there in part.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "@jest/globals";
import { NodeCache, Store } from "../../btree/index.js";
import { seededRandom } from "./crash-storage.js";
import { bytesOf, entriesRead, hex, textOf } from "./tree-model.js";

const folder = mkdtempSync(join(tmpdir(), "viewmill-kill-"));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const reducers = () => ({ count: () => 1 });
const child = fileURLToPath(new URL("./committing-child.js", import.meta.url));
const kills = Number(process.env["TEST_KILLS"] ?? 6);

/** Runs the child until it has acknowledged `commits` commits and then some, kills it, and returns the last number it printed. */
function runAndKill(path: string, commits: number, bytes: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const process = spawn(globalThis.process.execPath, [child, path], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    let seen = 0;
    process.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      seen += chunk.length;
      if (output.split("\n").length > commits && seen >= bytes) process.kill("SIGKILL");
    });
    process.once("error", reject);
    process.once("close", (_code, signal) => {
      if (signal === "SIGKILL") resolve(Number(output.trimEnd().split("\n").at(-1)));
      else reject(new Error("the child ended by itself"));
    });
  });
}

test("killed at any moment, a process loses no commit it acknowledged", async () => {
  const path = join(folder, "killed.vmx");
  const random = seededRandom(Number(process.env["TEST_SEED"] ?? 5));
  await (
    await Store.create(path, { state: bytesOf("0"), reducers, leafBytes: 512, innerBytes: 256 })
  ).close();
  for (let kill = 0; kill < kills; kill++) {
    const acknowledged = await runAndKill(
      path,
      1 + Math.floor(random() * 20),
      Math.floor(random() * 40),
    );

    const store = await Store.open(path, { mode: "read", reducers, cache: new NodeCache() });
    const state = Number(textOf(store.state));
    expect(state).toBeGreaterThanOrEqual(acknowledged);
    const entries = entriesRead(store.snapshot().tree("a"));
    expect(entries.length).toBeGreaterThan(190);
    expect(entries.map(({ key, value }) => hex(key) + hex(value))).toEqual(
      entriesRead(store.snapshot().tree("b")).map(({ key, value }) => hex(key) + hex(value)),
    );
    for (let i = 0; i < 200; i++) {
      expect(
        textOf(
          store
            .snapshot()
            .tree("a")
            .get(bytesOf(String(1000 + ((i * 7 + state) % 1000)))),
        ),
      ).toBe(String(state));
    }
    await store.close();
  }
}, 120_000);
