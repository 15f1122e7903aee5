// Answers that are forgotten half read must not hold a generation of an index file for ever.

import { setFlagsFromString } from "node:v8";
import { setImmediate as nextTurn } from "node:timers/promises";
import { runInNewContext } from "node:vm";

import { expect, test } from "@jest/globals";

import { leased } from "../../../indexer/views/answer-leases.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

test("what ended is let go of once; what was forgotten, when it is collected", async () => {
  const released: number[] = [];
  // In functions of their own, so that no register of this one holds an answer.
  const take = (from: number, to: number, end: boolean): void => {
    for (let i = from; i < to; i++) {
      const ended = leased(() => released.push(i));
      if (end) ended();
    }
  };
  // More than share one token; the last token stays in use until new answers take its place.
  take(0, 500, true);
  expect(released).toEqual(Array.from({ length: 500 }, (_, i) => i));
  take(500, 1000, false);
  take(1000, 1300, true);
  for (let turn = 0; turn < 50 && released.length < 1300; turn++) {
    collect();
    await nextTurn();
  }
  expect(released.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 1300 }, (_, i) => i));
});
