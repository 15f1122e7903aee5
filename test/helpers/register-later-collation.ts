// Preloaded (`node --import`), makes a process one of a later release, with a later version of the root order.

import { addLaterCollation } from "./later-collation.js";

addLaterCollation();
