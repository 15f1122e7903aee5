#!/usr/bin/env node
// Starts `viewmill-server`, a view server on stdin and stdout for CouchDB or viewmill. A whole build makes one file of its modules
// (scripts/bundle-server.mjs), because loading them one by one takes as long as starting Node. A file that is older than anything compiled
// is left alone.
import type * as Program from "./program.js";

// An import statement would load all that `fs` could export.
const { statSync } = process.getBuiltinModule("node:fs");
const { dirname } = import.meta;

const writtenAt = (file: string): number | undefined =>
  statSync(`${dirname}/../${file}`, { throwIfNoEntry: false })?.mtimeMs;

const parent = process.ppid;
const made = writtenAt("bundle/viewserver/program.js");
/** What the compiler writes whenever it compiled something of a room; absent in a published package. */
const outdated =
  made === undefined ||
  ["viewserver", "protocol"].some(
    (room) => (writtenAt(`.tsbuildinfo/${room}.tsbuildinfo`) ?? 0) > made,
  );
const file = outdated ? "./program.js" : "../bundle/viewserver/program.js";
const { run } = (await import(file)) as typeof Program;
process.exitCode = run(parent);
