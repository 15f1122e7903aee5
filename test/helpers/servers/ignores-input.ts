// Closes its input and lives on without a word.

import { closeSync } from "node:fs";
import { hang, print, READY } from "./line-server.js";

closeSync(0);
print(`["log","${READY}"]\n`);
hang();
