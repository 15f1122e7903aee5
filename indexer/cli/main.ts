#!/usr/bin/env node
// The `viewmill` program.

import { runCli } from "./program.js";
import { endWithSupervisor, isSupervised, sayResult } from "./supervisor.js";

if (isSupervised()) endWithSupervisor();
process.exitCode = await runCli(process.argv.slice(2));
if (isSupervised()) {
  const exit = process.exitCode;
  process.stdout.write("", () => {
    sayResult(exit);
  });
}
