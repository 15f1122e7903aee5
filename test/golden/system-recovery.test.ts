// System cases about crashes and damage.

import { test } from "@jest/globals";

import { removeTempDirs } from "../helpers/temp-dir.js";
import { recoveryProcedures } from "./system-recovery.js";

removeTempDirs();

test.each(Object.entries(recoveryProcedures))("%s", async (_id, procedure) => {
  await procedure();
});
