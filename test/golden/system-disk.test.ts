// System cases about compaction and disks that run out.

import { test } from "@jest/globals";

import { removeTempDirs } from "../helpers/temp-dir.js";
import { diskProcedures } from "./system-disk.js";

removeTempDirs();

test.each(Object.entries(diskProcedures))("%s", async (_id, procedure) => {
  await procedure();
});
