// A feed of changes as a file, and random changes appended to it.

import { appendFileSync, copyFileSync, constants } from "node:fs";

import { dataFile } from "./data.js";
import { Random } from "./generator.js";
import { readLines } from "./lines.js";

const USERS = 50_000;

/** What a change does to its document: an amount that no view of kind `one` shows, or its user, which is its key. */
export type ChangeKind = "rows unchanged" | "keys changed";

/** One changed document. */
export interface Change {
  readonly id: string;
  readonly rev: string;
  readonly userBefore: string;
  readonly user: string;
  /** JSON of the document. */
  readonly doc: string;
}

export class ChangesFeed {
  readonly path: string;
  /** Ids in feed order. */
  readonly ids: string[] = [];
  readonly #users: string[] = [];
  readonly #random = new Random(77);
  /** Documents that are not as the file's first lines say any more. */
  readonly latest = new Map<string, string>();
  readonly #base: string;
  #seq: number;

  private constructor(base: string, path: string) {
    this.#base = base;
    this.path = path;
    for (const line of readLines(base)) {
      this.ids.push(/"_id":"([^"]*)"/.exec(line)?.[1] ?? "");
      this.#users.push(/"user":"([^"]*)"/.exec(line)?.[1] ?? "");
    }
    this.#seq = this.ids.length;
  }

  /** A copy of `count` generated changes that can grow. */
  static async create(dataDir: string, path: string, count: number): Promise<ChangesFeed> {
    const base = await dataFile(dataDir, count, { seed: 1, changes: true });
    copyFileSync(base, path, constants.COPYFILE_FICLONE);
    return new ChangesFeed(base, path);
  }

  /** The file as it was generated. */
  get base(): string {
    return this.#base;
  }

  userOf(position: number): string {
    return this.#users[position] ?? "";
  }

  /** Changes so many random documents, each once. */
  make(count: number, kind: ChangeKind): Change[] {
    const chosen = new Set<number>();
    while (chosen.size < Math.min(count, this.ids.length))
      chosen.add(this.#random.below(this.ids.length));
    return [...chosen].map((position) => {
      const id = this.ids[position] ?? "";
      const userBefore = this.userOf(position);
      let user = userBefore;
      while (kind === "keys changed" && user === userBefore) user = `u${this.#random.below(USERS)}`;
      this.#users[position] = user;
      const amount = this.#random.below(1_000_000) / 100;
      const rev = `2-${this.#random.hex(4)}`;
      const doc = `{"_id":"${id}","_rev":"${rev}","user":"${user}","ts":[2024,1,${1 + this.#random.below(28)},0],"amount":${amount},"tags":[],"title":"garden river silver quiet lantern meadow orchard paper timber upper violet winter yellow zephyr amber","place":{"city":"Graz","zip":"80100"}}`;
      return { id, rev, userBefore, user, doc };
    });
  }

  /** Appends changes as rows of the feed. */
  append(changes: readonly Change[]): void {
    const lines: string[] = [];
    for (const { id, rev, doc } of changes) {
      this.latest.set(id, doc);
      this.#seq++;
      lines.push(
        `{"seq":"${this.#seq}-g1AAAACReJzLYWBgYM5gTmHgz8tPSTV0MDQy1zMAQsMckEQiQ1L9____${id.slice(0, 12)}","id":"${id}","changes":[{"rev":"${rev}"}],"doc":${doc}}\n`,
      );
    }
    appendFileSync(this.path, lines.join(""));
  }
}
