// Generated files, made once and kept: what the arguments say is what the file holds, on every machine.

import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";

import { generateFile, type GeneratorOptions } from "./generator.js";
import { say } from "./subject.js";

/** Path of a file of `count` generated documents (or changes), made if it is not there. */
export async function dataFile(
  dir: string,
  count: number,
  options: GeneratorOptions,
): Promise<string> {
  const { seed, docBytes = 250, changes = false } = options;
  const path = join(
    dir,
    `${changes ? "changes" : "documents"}-${count}-${docBytes}-${seed}.ndjson`,
  );
  if (existsSync(path)) return path;
  say(`generating ${path}`);
  const unfinished = `${path}.${process.pid}`;
  await generateFile(unfinished, count, options);
  renameSync(unfinished, path);
  return path;
}
