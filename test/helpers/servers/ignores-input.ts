// Closes its input and lives on without a word.

import { closeSync } from "node:fs";
import { hang } from "./line-server.js";

closeSync(0);
hang();
