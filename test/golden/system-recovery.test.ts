// System cases about crashes, damage, disks and compaction.

import { test } from "@jest/globals";

import { removeTempDirs } from "../helpers/temp-dir.js";
import { recoveryProcedures } from "./system-recovery.js";

removeTempDirs();

test.each(Object.entries(recoveryProcedures))("%s", async (_id, procedure) => {
  await procedure();
});
