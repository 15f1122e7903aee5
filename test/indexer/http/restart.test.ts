// A server whose indexer is killed is started again under the same address, whichever port it had been given.

import { execFileSync } from "node:child_process";

import { afterAll, beforeAll, expect, test } from "@jest/globals";

import { Serving, design, type Answer } from "./serving.js";

const serving = new Serving();

beforeAll(async () => {
  serving.feed.put(design(), { _id: "a", k: 1, v: 1 });
  await serving.start("--map-in", "threads");
});

afterAll(() => serving.remove());

function childOf(pid: number): number {
  const line = execFileSync("ps", ["-eo", "pid=,ppid="], { encoding: "utf8" })
    .split("\n")
    .map((one) => one.trim().split(/\s+/).map(Number))
    .find(([, parent]) => parent === pid);
  return line?.[0] ?? 0;
}

test("port 0 stays the port that was picked", async () => {
  expect((await serving.view()).status).toBe(200);
  const { url } = serving;
  const child = childOf(serving.pid);
  expect(child).toBeGreaterThan(0);

  process.kill(child, "SIGKILL");

  let answer: Answer | undefined;
  while (!answer) {
    const now = childOf(serving.pid);
    if (now !== child) answer = await serving.view().catch(() => undefined);
  }
  expect(answer.status).toBe(200);
  expect(serving.url).toBe(url);
  expect(serving.lines).toEqual([JSON.stringify({ listening: url })]);
});

test("it ends in order all the same", async () => {
  expect(await serving.stop()).toBe(0);
});
