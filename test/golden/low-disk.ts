// Preloaded with --import: the disk has as many bytes free as the file VIEWMILL_TEST_FREE says.

import fs, { readFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const file = process.env["VIEWMILL_TEST_FREE"] ?? "";
fs.statfsSync = (() => ({
  bavail: Number(readFileSync(file, "utf8")),
  bsize: 1,
})) as unknown as typeof fs.statfsSync;
syncBuiltinESMExports();
