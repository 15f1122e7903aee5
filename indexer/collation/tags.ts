// The first byte of every encoded value. Frozen into the format: see COLLATION.md before touching one.

/** Which order: `root` is CouchDB's default (VIEWS §6), `raw` is Erlang term order. */
export type CollationKind = "root" | "raw";

/** Ends strings, arrays and objects; no value begins with it. */
export const END = 0x00;
/** Between the levels of a root string. Never inside a weight. */
export const LEVEL = 0x01;

/** Numbers with the greatest magnitude first, then one tag for each exponent 52…-11, then smaller ones. */
export const NUMBER_FIRST = 0x10;
export const NUMBER_ZERO = 0x52;
export const NUMBER_LAST = 0x94;

/** Arrays, and the number tags, are the same in both orders. */
export const ARRAY = 0xb0;

/** Member names are strings of the kind in question. */
export interface Tags {
  readonly NULL: number;
  readonly FALSE: number;
  readonly TRUE: number;
  readonly STRING: number;
  readonly OBJECT: number;
}

/** null < false < true < numbers < strings < arrays < objects. */
export const ROOT_TAGS: Tags = { NULL: 0x02, FALSE: 0x03, TRUE: 0x04, STRING: 0xa0, OBJECT: 0xc0 };
/** numbers < false < null < true < objects < arrays < strings. */
export const RAW_TAGS: Tags = { FALSE: 0x98, NULL: 0x99, TRUE: 0x9a, OBJECT: 0xa8, STRING: 0xc0 };

/** Below every key. */
export const LOWEST: Uint8Array = new Uint8Array(0);
/** Above every key and every continuation of one. */
export const HIGHEST: Uint8Array = new Uint8Array([0xff]);
