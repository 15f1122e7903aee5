// `viewmill.json`: what an index directory holds. Replaced as a whole (see durable-file.ts), never edited in place.

import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

import { IndexerError } from "../errors.js";
import type { SourceIdentity } from "../sources/index.js";
import { replaceFile } from "./durable-file.js";

/** Raised when the directory's layout changes. */
export const MANIFEST_FORMAT = 1;
/** Its name within the directory. */
export const MANIFEST_FILE = "viewmill.json";

/** How the source was named when the directory was made, so that a later command works from the directory alone. */
export interface SourceRecord {
  readonly spec: string;
  readonly identity: SourceIdentity;
  readonly append: boolean;
  readonly idField: string;
  /** A partitioned database, as it tells itself or its user said. Absent where nobody did. */
  readonly partitioned?: boolean;
}

export interface ManifestGroup {
  /** The current generation: the index file is `<signature>.<generation>.vmx`. */
  readonly generation: number;
  /** Version of the root order that the file is kept in (collation/versions.ts). Absent in manifests of before there were two: 1. */
  readonly collation?: number;
}

export interface ManifestDesign {
  readonly signature: string;
  /** The design document as JSON, so that queries need neither feed nor file. */
  readonly json: string;
  /** Where it came from: the feed follows later revisions, a file is what was given last. */
  readonly origin: "feed" | "given";
}

export interface Manifest {
  readonly format: number;
  readonly source: SourceRecord | undefined;
  readonly designs: Readonly<Record<string, ManifestDesign>>;
  readonly groups: Readonly<Record<string, ManifestGroup>>;
}

export const EMPTY_MANIFEST: Manifest = {
  format: MANIFEST_FORMAT,
  source: undefined,
  designs: {},
  groups: {},
};

/**
 * @returns undefined when the directory has none.
 * @throws IndexerError `INDEXER_FORMAT_UNSUPPORTED`, or `INDEXER_NO_INDEX` when the file is not ours.
 */
export function readManifest(dir: string): Manifest | undefined {
  const path = join(dir, MANIFEST_FILE);
  if (!existsSync(path)) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new IndexerError(
      "INDEXER_NO_INDEX",
      `${path} is not readable as JSON. Restore it, or delete the directory and build again.`,
      { file: path },
      { cause },
    );
  }
  const manifest = parsed as Manifest;
  if (typeof manifest.format !== "number" || manifest.format > MANIFEST_FORMAT)
    throw new IndexerError(
      "INDEXER_FORMAT_UNSUPPORTED",
      `${path} has format ${String(manifest.format)}; this version reads up to ${MANIFEST_FORMAT}. Use a newer viewmill.`,
      { file: path },
    );
  return manifest;
}

/** Differs whenever the manifest was replaced; undefined when there is none. */
export function manifestStamp(dir: string): string | undefined {
  const stat = statSync(join(dir, MANIFEST_FILE), { bigint: true, throwIfNoEntry: false });
  return stat && `${stat.ino}:${stat.mtimeNs}:${stat.size}`;
}

export function writeManifest(dir: string, manifest: Manifest): void {
  replaceFile(join(dir, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`);
}

export function indexFileName(signature: string, generation: number): string {
  return `${signature}.${generation}.vmx`;
}

/** Where a renewal sorts the rows of the file that is to be of this generation. */
export function sortFolderName(signature: string, generation: number): string {
  return `${signature}.${generation}.sort`;
}

export function runsFolderName(signature: string): string {
  return `${signature}.runs`;
}
