// Answers a document with `endless` by a line that does not end.

import { print, serve } from "./line-server.js";

serve(({ document }) => {
  if (document["endless"] !== true) return undefined;
  for (;;) print("[".repeat(65_536));
});
