#!/usr/bin/env node
// The `viewmill` program.

import { startFile } from "../start-file.js";
import type * as Program from "./program.js";
import {
  endWithSupervisor,
  isSupervised,
  isSurelyGuarded,
  sayResult,
  supervise,
} from "./supervisor.js";

// Whoever reads the answer has enough of it: that is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});
const argv = process.argv.slice(2);
if (!isSupervised() && isSurelyGuarded(argv)) {
  process.exitCode = await supervise(argv);
} else {
  if (isSupervised()) endWithSupervisor();
  const { runCli } = (await import(startFile("program").href)) as typeof Program;
  const exit = await runCli(argv);
  process.exitCode = exit;
  if (isSupervised())
    process.stdout.write("", () => {
      sayResult(exit);
    });
}
