// Has a file changed? Told by one system call, of files that only grow and of those that are changed in place.

import { statSync } from "node:fs";
import type { StampedFile } from "./source.js";

/** See line-file.ts. */
const CLOCK_TICK_MS = 50;

/** A text that changes whenever the file may have; undefined where that cannot be told. */
export function stampOf({ path, snapshot }: StampedFile): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) return undefined;
  const { dev, ino, size, mtimeMs, ctimeMs } = stats;
  // A log only grows, so its size tells; a snapshot may be changed again within the same tick of its clock.
  if (snapshot && Date.now() - Math.max(mtimeMs, ctimeMs) < CLOCK_TICK_MS) return undefined;
  return `${dev}:${ino}:${size}:${mtimeMs}:${ctimeMs}`;
}
