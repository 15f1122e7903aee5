// System cases about view servers and queries that run at once.

import { test } from "@jest/globals";

import { removeTempDirs } from "../helpers/temp-dir.js";
import { serverProcedures } from "./system-servers.js";

removeTempDirs();

test.each(Object.entries(serverProcedures))("%s", async (_id, procedure) => {
  await procedure();
});
