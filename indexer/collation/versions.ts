// The versions of the root order that this program knows. An index file remembers the one it was written with and is read with it;
// compaction rewrites it in the newest. A released version is never changed or dropped, so that old files stay readable.
import { IndexerError } from "../errors.js";
import * as table1 from "./table-1.js";
import { CollationTable, type TableSource } from "./table.js";

/** The version that new indexes are written with. Raw order has none: it never changes. */
export const COLLATION_VERSION = 1;

const SOURCES = new Map<number, TableSource>([[1, table1]]);
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
        `the index is ordered by collation version ${version}, this program knows versions up to ${COLLATION_VERSION}; use a newer viewmill`,
      );
    }
    found = new Collation(source);
    loaded.set(version, found);
  }
  return found;
}

/** Makes a further version known, for tests of what happens when one comes: released versions are in SOURCES. */
export function addCollation(version: number, source: TableSource): void {
  SOURCES.set(version, source);
  loaded.delete(version);
}
