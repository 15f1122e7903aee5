// Answers a document with `bytes` by a row of that many characters. Like all of these servers it does not read meanwhile.

import { print, serve } from "./line-server.js";

const PIECE = "x".repeat(1 << 20);

serve(({ document }) => {
  const bytes = document["bytes"];
  if (typeof bytes !== "number") return undefined;
  print('[[["');
  for (let left = bytes; left > 0; left -= PIECE.length) print(PIECE.slice(0, left));
  return '",null]]]\n';
});
