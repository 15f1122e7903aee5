// Answers a document with `bytes` by a row of that many characters. Like all of these servers it does not read meanwhile.

import { serve } from "./line-server.js";

serve(({ document }) => {
  const bytes = document["bytes"];
  return typeof bytes === "number" ? `[[["${"x".repeat(bytes)}",null]]]\n` : undefined;
});
