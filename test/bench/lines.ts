// Lines of a file, read synchronously in pieces of 4 MiB.

import { closeSync, openSync, readSync } from "node:fs";

const PIECE_BYTES = 4 << 20;
const LF = 0x0a;

/** Each line without its LF. */
export function* readLines(path: string): Generator<string> {
  const file = openSync(path, "r");
  try {
    let buffer = Buffer.allocUnsafe(PIECE_BYTES);
    let used = 0;
    for (;;) {
      if (used === buffer.length)
        buffer = Buffer.concat([buffer, Buffer.allocUnsafe(buffer.length)]);
      const read = readSync(file, buffer, used, buffer.length - used, null);
      if (read === 0) break;
      const end = used + read;
      const lastLf = buffer.lastIndexOf(LF, end - 1);
      if (lastLf < used) {
        used = end;
        continue;
      }
      yield* buffer.toString("utf8", 0, lastLf).split("\n");
      buffer.copy(buffer, 0, lastLf + 1, end);
      used = end - lastLf - 1;
    }
    if (used > 0) yield buffer.toString("utf8", 0, used);
  } finally {
    closeSync(file);
  }
}
