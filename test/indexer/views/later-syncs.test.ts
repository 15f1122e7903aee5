// Commits that somebody waited for are made durable later.

import { describe, expect, jest, test } from "@jest/globals";

import type { GroupIndex } from "../../../indexer/views/group-index.js";
import { LaterSyncs } from "../../../indexer/views/later-syncs.js";

function group(commit: (options: { sync: boolean }) => Promise<void>): GroupIndex {
  const fake = { path: "x.vmx", store: { commit }, writing: (work: () => Promise<void>) => work() };
  return fake as unknown as GroupIndex;
}

describe("later syncs", () => {
  test("nothing is synced while updates follow each other, and everything after a quiet moment", async () => {
    jest.useFakeTimers({ doNotFake: ["performance"] });
    try {
      const synced: boolean[] = [];
      const one = group(({ sync }) => {
        synced.push(sync);
        return Promise.resolve();
      });
      const syncs = new LaterSyncs(1_000_000, () => undefined);
      for (let i = 0; i < 10; i++) {
        syncs.add(one);
        await jest.advanceTimersByTimeAsync(900);
      }
      expect(synced).toEqual([]);
      expect(syncs.has(one)).toBe(true);
      await jest.advanceTimersByTimeAsync(200);
      expect(synced).toEqual([true]);
      expect(syncs.has(one)).toBe(false);
    } finally {
      jest.useRealTimers();
    }
  });

  test("at the latest after the interval", async () => {
    jest.useFakeTimers();
    try {
      let count = 0;
      const one = group(() => {
        count++;
        return Promise.resolve();
      });
      const syncs = new LaterSyncs(5000, () => undefined);
      for (let i = 0; i < 15; i++) {
        syncs.add(one);
        await jest.advanceTimersByTimeAsync(500);
      }
      expect(count).toBe(1);
    } finally {
      jest.useRealTimers();
    }
  });

  test("at the end at once, and a disk that fails is told of", async () => {
    const told: string[] = [];
    const syncs = new LaterSyncs(5000, (message) => told.push(message));
    let synced = false;
    syncs.add(
      group(() => {
        synced = true;
        return Promise.resolve();
      }),
    );
    syncs.add(group(() => Promise.reject(new Error("no space"))));
    await syncs.finish();
    expect(synced).toBe(true);
    expect(told).toEqual(["x.vmx could not be synced: no space"]);
  });
});
