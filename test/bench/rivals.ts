// Rivals are installed apart (test/bench/rivals), so their types are told here, as far as the benches use them.

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

/** A prepared statement of better-sqlite3. */
export interface Statement {
  run(...parameters: unknown[]): unknown;
  get(...parameters: unknown[]): unknown;
  all(...parameters: unknown[]): unknown[];
}

/** A database of better-sqlite3. */
export interface Sqlite {
  exec(sql: string): void;
  pragma(text: string): unknown;
  prepare(sql: string): Statement;
  close(): void;
}

export interface PouchAnswer {
  readonly rows: readonly { readonly key: unknown; readonly value: unknown }[];
}

/** A database of PouchDB. */
export interface Pouch {
  put(document: object): Promise<unknown>;
  bulkDocs(documents: readonly object[]): Promise<unknown>;
  query(view: string, options: object): Promise<PouchAnswer>;
  close(): Promise<void>;
}

const require = createRequire(new URL("../../../test/bench/rivals/package.json", import.meta.url));

function load(name: string): unknown {
  try {
    return require(name);
  } catch (cause) {
    throw new Error(`rivals are not installed: cd test/bench/rivals && npm install (${name})`, {
      cause,
    });
  }
}

/** Opens a database file in WAL mode; every transaction waits for the disk, as a synced commit does. */
export function openSqlite(path: string): Sqlite {
  const Database = load("better-sqlite3") as new (path: string) => Sqlite;
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  database.pragma("cache_size = -65536");
  return database;
}

/** Opens a database folder on leveldb. */
export function openPouch(path: string): Pouch {
  const PouchDB = load("pouchdb") as new (path: string, options: object) => Pouch;
  return new PouchDB(path, { adapter: "leveldb" });
}

/** Version of an installed rival. */
export function rivalVersion(name: string): string {
  const path = fileURLToPath(
    new URL(`../../../test/bench/rivals/node_modules/${name}/package.json`, import.meta.url),
  );
  return `${name} ${(require(path) as { version: string }).version}`;
}
