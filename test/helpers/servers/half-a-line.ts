// Prints the first half of its answer to a document with `half`, and exits.

import { behave, print, serve } from "./line-server.js";

serve((command) => {
  if (command.document["half"] !== true) return undefined;
  const reply = behave(command);
  print(reply.slice(0, reply.length / 2));
  process.exit(0);
});
