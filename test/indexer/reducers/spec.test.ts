import { describe, expect, test } from "@jest/globals";

import { isBuiltIn, validateReduce } from "../../../indexer/reducers/index.js";

describe("built-in reduces", () => {
  test.each([
    "_sum",
    "_sum\n",
    "_count",
    "_statsorama",
    "_approx_count_distinct",
    "_first",
    "_last",
  ])("%j is known by its beginning", (source) => {
    expect(isBuiltIn(source)).toBe(true);
    expect(validateReduce(source)).toBeUndefined();
  });

  test.each(["_top_1", "_bottom_100"])("%j is a rank", (source) => {
    expect(validateReduce(source)).toBeUndefined();
  });

  test.each([
    ["_random_junk", "`_random_junk` is not a supported reduce function."],
    ["_top_x", "invalid rank reducer"],
    ["_top_3\n", "invalid rank reducer"],
    ["_bottom_", "invalid rank reducer"],
    ["_bottom_1.5", "invalid rank reducer"],
    ["_top_0", "rank value must be between 1 and 100"],
    ["_top_-1", "rank value must be between 1 and 100"],
    ["_bottom_101", "rank value must be between 1 and 100"],
  ])("%j is refused: %s", (source, reason) => {
    expect(validateReduce(source)).toBe(reason);
  });

  test("JavaScript is not judged here", () => {
    expect(isBuiltIn("function(k,v){return 1}")).toBe(false);
    expect(validateReduce("function(k,v){")).toBeUndefined();
  });
});
