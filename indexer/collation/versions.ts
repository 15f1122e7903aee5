// The versions of the root order that this program knows. An index file remembers the one it was written with and is read with it;
// compaction rewrites it in the newest. A released version is never changed or dropped, so that old files stay readable.
import { getEnvironmentData, setEnvironmentData } from "node:worker_threads";

import { IndexerError } from "../errors.js";
import * as table1 from "./table-1.js";
import { CollationTable, type TableSource } from "./table.js";

/** Every released version. */
const SOURCES = new Map<number, TableSource>([[1, table1]]);
let newest = Math.max(...SOURCES.keys());
const loaded = new Map<number, Collation>();

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** One version: the small tables of the ASCII fast path at once, the large one when it is needed. */
export class Collation {
  /** Byte of a JSON string → primary weight byte; 0 for quote, backslash, upper case, controls and bytes from 0x80 on. */
  readonly asciiPrimary = new Uint8Array(256);
  /** Primary weight byte → ASCII character. */
  readonly asciiOfPrimary = new Uint8Array(256);
  /** Primary weights of the two characters that JSON escapes. */
  readonly quotePrimary: number;
  readonly backslashPrimary: number;
  /** Third-level weight of upper-case ASCII letters. */
  readonly upperTertiary: number;
  readonly #source: TableSource;
  #table: CollationTable | undefined;

  constructor(source: TableSource) {
    this.#source = source;
    const primaries = Buffer.from(source.ASCII_PRIMARIES, "hex");
    primaries.forEach((primary, c) => {
      if (primary === 0) return;
      this.asciiOfPrimary[primary] = c;
      if (c !== QUOTE && c !== BACKSLASH) this.asciiPrimary[c] = primary;
    });
    this.quotePrimary = primaries[QUOTE] as number;
    this.backslashPrimary = primaries[BACKSLASH] as number;
    this.upperTertiary = source.ASCII_UPPER_TERTIARY;
  }

  get table(): CollationTable {
    return (this.#table ??= new CollationTable(this.#source));
  }
}

/** The version that new indexes are written with, and compaction rewrites older ones in. Raw order has none: it never changes. */
export function newestCollation(): number {
  return newest;
}

export function isCollationKnown(version: number): boolean {
  return SOURCES.has(version);
}

/** Throws INDEXER_FORMAT_UNSUPPORTED for an unknown version. */
export function collation(version: number): Collation {
  let found = loaded.get(version);
  if (!found) {
    const source = SOURCES.get(version);
    if (!source) {
      throw new IndexerError(
        "INDEXER_FORMAT_UNSUPPORTED",
        `the index is ordered by collation version ${version}, this program knows versions up to ${newest}; use a newer viewmill`,
      );
    }
    found = new Collation(source);
    loaded.set(version, found);
  }
  return found;
}

/**
 * Makes a further version known to this thread and to those that it starts from now on, for tests of what happens when one comes:
 * released versions are in SOURCES. A later one than any is the newest.
 *
 * @returns takes it back.
 */
export function addCollation(version: number, source: TableSource): () => void {
  const { ASCII_PRIMARIES, ASCII_UPPER_TERTIARY, TABLE, IDEOGRAPHS } = source;
  ADDED.set(version, { ASCII_PRIMARIES, ASCII_UPPER_TERTIARY, TABLE, IDEOGRAPHS });
  use(version, source);
  setEnvironmentData(ADDED_KEY, ADDED);
  return () => {
    ADDED.delete(version);
    SOURCES.delete(version);
    loaded.delete(version);
    newest = Math.max(...SOURCES.keys());
    setEnvironmentData(ADDED_KEY, ADDED);
  };
}

function use(version: number, source: TableSource): void {
  SOURCES.set(version, source);
  loaded.delete(version);
  newest = Math.max(...SOURCES.keys());
}

/** What `addCollation` added; handed to threads that are started, and to a second copy of this module that is in a bundle. */
const ADDED_KEY = "viewmill: further collation versions";
const ADDED = new Map(
  getEnvironmentData(ADDED_KEY) as unknown as Map<number, TableSource> | undefined,
);
for (const [version, source] of ADDED) use(version, source);
