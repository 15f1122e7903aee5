// The example of btree/runs/FORMAT.md is what the encoder writes, byte for byte.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "@jest/globals";
import { encodeSegment, FAN_IN_MAX } from "../../btree/index.js";
import {
  BLOCK_BYTES_MAX,
  FOOTER_BYTES,
  INDEX_KEY_BYTES_MAX,
  SEGMENT_VERSION,
} from "../../btree/runs/format.js";
import { batchOf } from "../helpers/run-model.js";

const document = readFileSync(
  join(import.meta.dirname, "..", "..", "..", "btree", "runs", "FORMAT.md"),
  "utf8",
);

test("the hex dump of FORMAT.md is a segment as it is encoded", () => {
  const dump = /```hex\n([^`]+)```/.exec(document)?.[1] ?? "";
  const entry = (key: string, value: string, ordinal: number, cancels = false) => ({
    key: Buffer.from(key),
    value: Buffer.from(value),
    ordinal,
    cancels,
  });
  const batch = batchOf([entry("cat", "1", 7), entry("car", "22", 5), entry("cat", "", 6, true)]);
  batch.sort();

  expect(Buffer.from(encodeSegment(batch)).toString("hex")).toBe(dump.replace(/\s/g, ""));
});

test("FORMAT.md tells the limits that the code has", () => {
  expect(document).toContain(`exceed ${BLOCK_BYTES_MAX / 1024} KiB`);
  expect(document).toContain(`at most ${FAN_IN_MAX} at a time`);
  expect(document).toContain(`The last ${FOOTER_BYTES} bytes`);
  expect(document).toContain(`of a longer one ${INDEX_KEY_BYTES_MAX} bytes`);
  expect(document).toMatch(new RegExp(`\\| ${SEGMENT_VERSION} +\\| first version`));
});
