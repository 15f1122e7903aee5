// Answers a document with `twice` twice, and one with `never` not at all.

import { behave, serve } from "./line-server.js";

serve((command) => {
  if (command.document["twice"] === true) return behave(command) + behave(command);
  return command.document["never"] === true ? "" : undefined;
});
