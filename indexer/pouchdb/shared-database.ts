// One database as a source, however many PouchDB objects of the program stand for it.

import { PouchSource, type PouchDatabase } from "../sources/index.js";

/** What of a PouchDB object is used. */
export interface PouchInstance extends PouchDatabase {
  once(event: "closed" | "destroyed", listener: () => void): unknown;
}

/** Forwards to an object that is still open: any of them reads the same database. */
export class SharedDatabase implements PouchDatabase {
  readonly name: string;
  readonly #open = new Set<PouchInstance>();

  constructor(name: string) {
    this.name = name;
  }

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  has(database: PouchInstance): boolean {
    return this.#open.has(database);
  }

  add(database: PouchInstance): void {
    this.#open.add(database);
  }

  remove(database: PouchInstance): void {
    this.#open.delete(database);
  }

  id = async (): Promise<string> => {
    const database = this.#one();
    return (await database.id?.()) ?? database.name;
  };

  info: PouchDatabase["info"] = () => this.#one().info();
  changes: PouchDatabase["changes"] = (options) => this.#one().changes(options);
  allDocs: PouchDatabase["allDocs"] = (options) => this.#one().allDocs(options);
  get: PouchDatabase["get"] = (id, options) => this.#one().get(id, options);
  close = (): Promise<void> => Promise.resolve();

  #one(): PouchInstance {
    const [database] = this.#open;
    if (!database) throw new Error("database is closed");
    return database;
  }
}

/** The same with a stamp that whoever is about to query brings up to date: a look at `info` is cheaper than one at the feed. */
export class StampedSource extends PouchSource {
  readonly #database: PouchDatabase;
  #stamp: string | undefined;

  constructor(database: PouchDatabase) {
    super(database);
    this.#database = database;
  }

  async restamp(): Promise<void> {
    this.#stamp = JSON.stringify((await this.#database.info()).update_seq);
  }

  stamp(): string | undefined {
    return this.#stamp;
  }
}
