// Which file to start for the program, for mapping threads and for answering processes: the module itself, or the bundle that a whole
// build makes of it and of all it imports (scripts/bundle.mjs), which starts in a third of the time. A bundle that is older than anything
// it was made of is left alone.

import { statSync } from "node:fs";

const BUNDLES = {
  program: "cli/program.js",
  worker: "mapping/worker.js",
  reader: "http/reader-main.js",
} as const;

/** What `tsc -b` writes whenever it compiled something of a room; absent in a published package, whose bundles are never out of date. */
const COMPILED = ["kernels", "protocol", "btree", "viewserver", "indexer"].map(
  (room) => new URL(`../.tsbuildinfo/${room}.tsbuildinfo`, import.meta.url),
);

/** The file to start in place of that compiled module of `indexer/`, or the module itself. */
export function startFile(name: keyof typeof BUNDLES): URL {
  const bundle = new URL(`../bundle/${BUNDLES[name]}`, import.meta.url);
  const made = writtenAt(bundle);
  const outdated =
    made === undefined || COMPILED.some((compiled) => (writtenAt(compiled) ?? 0) > made);
  return outdated ? new URL(BUNDLES[name], import.meta.url) : bundle;
}

function writtenAt(file: URL): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs;
}
