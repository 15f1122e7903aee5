// A file of changes for system cases: rows with numbers for sequences, written in batches.

import { appendFileSync, writeFileSync } from "node:fs";

export interface FeedDocument {
  readonly _id: string;
  readonly _deleted?: true;
  readonly [member: string]: unknown;
}

export function rowText(seq: number, doc: FeedDocument): string {
  const rev = `${seq}-r`;
  const deleted = doc._deleted === true ? ',"deleted":true' : "";
  return `{"seq":${seq},"id":${JSON.stringify(doc._id)},"changes":[{"rev":"${rev}"}]${deleted},"doc":${JSON.stringify({ ...doc, _rev: rev })}}\n`;
}

export class Feed {
  readonly path: string;
  /** Everything that was ever written, in order: the document at index i has sequence i + 1. */
  readonly written: FeedDocument[] = [];

  constructor(path: string) {
    this.path = path;
    writeFileSync(path, "");
  }

  get source(): string {
    return `changes:${this.path}`;
  }

  write(docs: readonly FeedDocument[]): void {
    let text = "";
    for (const doc of docs) text += rowText(this.written.push(doc), doc);
    appendFileSync(this.path, text);
  }

  /** Writes rows again as they were. */
  replay(from: number, to: number): void {
    const rows = this.written.slice(from, to).map((doc, i) => rowText(from + i + 1, doc));
    appendFileSync(this.path, rows.join(""));
  }

  /** The documents after the first `length` changes, by id. */
  stateAt(length: number): Map<string, FeedDocument> {
    const state = new Map<string, FeedDocument>();
    for (const doc of this.written.slice(0, length)) {
      if (doc._deleted === true) state.delete(doc._id);
      else state.set(doc._id, doc);
    }
    return state;
  }
}

export function numbered(count: number, make: (i: number) => FeedDocument): FeedDocument[] {
  return Array.from({ length: count }, (_, i) => make(i));
}
