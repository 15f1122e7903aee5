// Logs `logs` lines before it answers a document; without end if that is "endless".

import { behave, print, serve } from "./line-server.js";

serve((command) => {
  const { logs } = command.document;
  if (logs === "endless") for (;;) print(`["log","again and again"]\n`.repeat(1000));
  if (typeof logs !== "number") return undefined;
  for (let line = 0; line < logs; line++) print(`["log","line ${line}"]\n`);
  return behave(command);
});
