// Exits with status 9 instead of answering a document with `die`; says ["fatal", …] first if that is "fatal".

import { print, serve } from "./line-server.js";

serve(({ document }) => {
  if (document["die"] === undefined) return undefined;
  if (document["die"] === "fatal") print(`["fatal","out_of_memory","no more"]\n`);
  process.exit(9);
});
