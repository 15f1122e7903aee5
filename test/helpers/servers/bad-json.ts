// Prints something else than JSON before its answer to a document with `chatty`.

import { behave, serve } from "./line-server.js";

serve((command) =>
  command.document["chatty"] === true ? `mapping a document\n${behave(command)}` : undefined,
);
