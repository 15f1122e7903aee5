#!/usr/bin/env node
// The `viewmill` program.

import { runCli } from "./program.js";

process.exitCode = await runCli(process.argv.slice(2));
