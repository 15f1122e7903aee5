// Small files that must be whole after any crash: written beside, synced, renamed over, folder synced.

import { closeSync, fsyncSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";

/** Makes a rename or a new file in this folder durable. Not every platform can open folders; there it is skipped. */
export function syncFolder(dir: string): void {
  let fd: number;
  try {
    fd = openSync(dir, "r");
  } catch {
    return;
  }
  try {
    fsyncSync(fd);
  } catch {
    // Some file systems refuse to sync folders; the rename itself has happened.
  } finally {
    closeSync(fd);
  }
}

/** Replaces `path` by `text`: afterwards it holds the old content or the new one, never a part. */
export function replaceFile(path: string, text: string): void {
  const draft = `${path}.new`;
  const fd = openSync(draft, "w");
  try {
    const bytes = Buffer.from(text);
    for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(draft, path);
  syncFolder(dirname(path));
}
