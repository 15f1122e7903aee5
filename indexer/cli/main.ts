#!/usr/bin/env node
// The `viewmill` program.

import { runCli } from "./program.js";
import { endWithSupervisor, isSupervised, sayResult } from "./supervisor.js";

// Whoever reads the answer has enough of it: that is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});
if (isSupervised()) endWithSupervisor();
process.exitCode = await runCli(process.argv.slice(2));
if (isSupervised()) {
  const exit = process.exitCode;
  process.stdout.write("", () => {
    sayResult(exit);
  });
}
