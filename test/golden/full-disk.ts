// Preloaded with --import: a disk that holds VIEWMILL_TEST_DISK bytes of index files below VIEWMILL_TEST_DIR, and no more.

import fs, { readdirSync, readlinkSync, statSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";

const dir = process.env["VIEWMILL_TEST_DIR"] ?? "";
const room = Number(process.env["VIEWMILL_TEST_DISK"]);

function used(): number {
  let bytes = 0;
  for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
    const stats = statSync(join(dir, name), { throwIfNoEntry: false });
    if (stats?.isFile()) bytes += stats.size;
  }
  return bytes;
}

function isOnDisk(fd: number): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).startsWith(dir);
  } catch {
    return false;
  }
}

const { writeSync } = fs;
fs.writeSync = ((fd: number, data: NodeJS.ArrayBufferView | string, ...rest: never[]): number => {
  if (isOnDisk(fd) && used() + Buffer.byteLength(data) > room)
    throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
  return writeSync(fd, data as Uint8Array, ...rest);
}) as typeof fs.writeSync;
syncBuiltinESMExports();
