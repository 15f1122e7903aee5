// System cases about what an index is at the moment, and who may write to it; and whether every system case was built.

import { expect, test } from "@jest/globals";

import { casesOf } from "../helpers/golden-cases.js";
import { removeTempDirs } from "../helpers/temp-dir.js";
import { diskProcedures } from "./system-disk.js";
import { recoveryProcedures } from "./system-recovery.js";
import { serverProcedures } from "./system-servers.js";
import { stateProcedures } from "./system-states.js";

removeTempDirs();

test.each(Object.entries(stateProcedures))("%s", async (_id, procedure) => {
  await procedure();
});

test("no system case is left out", () => {
  const built = {
    ...recoveryProcedures,
    ...diskProcedures,
    ...serverProcedures,
    ...stateProcedures,
  };

  expect(Object.keys(built).sort()).toEqual(
    casesOf("system")
      .map(({ id }) => id)
      .sort(),
  );
});
