// Documents of a file by id: a table of (hash of id → line offset), made when first asked and brought up to date by what
// the file grew. The last line of an id is its winner; older lines serve requests for a revision.

import { setImmediate as nextTurn } from "node:timers/promises";
import { ContentHasher } from "./content-hash.js";
import { readLine, sliceFeed, type FileFeed } from "./file-feed.js";
import { LINE_BYTES_MAX_DEFAULT } from "./line-errors.js";
import { LineFile } from "./line-file.js";
import { LookupSegment, SEGMENT_BUILD_MAX } from "./lookup-segment.js";
import { LookupTables } from "./lookup-tables.js";
import { CONFLICT_MEMBERS, memberText, withoutMembers } from "./member-scan.js";
import { SLICE_DELETED, Slices } from "./slices.js";
import { tombstone, type DocumentRequest } from "./source.js";

const BLOCK_BYTES = 4 * 1024 * 1024;

export class DocumentLookup {
  readonly #feed: FileFeed;
  readonly #tables: LookupTables;
  readonly #hasher = new ContentHasher();
  readonly #slices = new Slices();
  /** Lines before this offset are in the tables; -1 before the first look. */
  #at = -1;
  /** What the file must be for the tables to hold. */
  #of = "";
  #queue: Promise<unknown> = Promise.resolve();

  constructor(feed: FileFeed, dir: string | undefined) {
    this.#feed = feed;
    const key = [feed.path, feed.format, feed.slicing.idField ?? "_id"].join("\n");
    this.#tables = new LookupTables(key, dir);
  }

  /** As `Source.documents`. Calls run one after another: they share the tables. */
  async documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    const result = this.#queue.then(() => this.#documents(requests));
    this.#queue = result.catch(() => undefined);
    return result;
  }

  async close(): Promise<void> {
    await this.#queue;
    this.#at = -1;
    this.#tables.close();
  }

  async #documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    const file = LineFile.open(this.#feed.path);
    try {
      await this.#refresh(file);
      const size = this.#at;
      return requests.map((request) => this.#find(file, size, request));
    } finally {
      file.close();
    }
  }

  #find(file: LineFile, size: number, request: DocumentRequest): string | undefined {
    for (const offset of this.#tables.find(this.#hashOf(Buffer.from(request.id)))) {
      const line = readLine(file, offset, size, this.#feed);
      sliceFeed(this.#feed, line, this.#slices, { label: file.path, path: file.path });
      if (this.#slices.count === 0 || this.#slices.id(0) !== request.id) continue;
      if (request.rev === undefined) return this.#winner(line, request);
      const found = this.#revision(line, request.id, request.rev);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #winner(line: Uint8Array, request: DocumentRequest): string | undefined {
    const slices = this.#slices;
    const json = slices.doc(0);
    if (((slices.flags[0] as number) & SLICE_DELETED) !== 0) {
      const rev = request.deleted === true ? this.#deletedRev(line, json) : undefined;
      return rev === undefined ? undefined : tombstone(request.id, rev);
    }
    return request.conflicts === true ? json : withoutMembers(json, CONFLICT_MEMBERS);
  }

  /** Of the deletion just sliced; undefined where its row does not tell. */
  #deletedRev(line: Uint8Array, json: string): string | undefined {
    const own = json === "" ? undefined : memberText(Buffer.from(json), "_rev");
    if (own !== undefined) return JSON.parse(own) as string;
    if (this.#feed.format !== "changes") return undefined;
    const changes = memberText(line, "changes");
    return changes === undefined
      ? undefined
      : (JSON.parse(changes) as readonly { rev?: string }[])[0]?.rev;
  }

  /** The document of the line just sliced, if it is that revision. */
  #revision(line: Uint8Array, id: string, rev: string): string | undefined {
    const slices = this.#slices;
    const json = slices.doc(0);
    const own = json === "" ? undefined : memberText(Buffer.from(json), "_rev");
    if (own !== undefined) {
      return own === JSON.stringify(rev) ? withoutMembers(json, CONFLICT_MEMBERS) : undefined;
    }
    if (((slices.flags[0] as number) & SLICE_DELETED) === 0 || this.#feed.format !== "changes") {
      return undefined;
    }
    const changes = memberText(line, "changes");
    if (changes?.includes(JSON.stringify(rev)) !== true) return undefined;
    return tombstone(id, rev);
  }

  #hashOf(id: Uint8Array): number {
    this.#hasher.attach(id);
    this.#hasher.hash(0, id.length);
    return this.#hasher.low;
  }

  /** Brings the tables up to date with the file. */
  async #refresh(file: LineFile): Promise<void> {
    if (this.#at < 0) {
      const saved = this.#tables.load();
      if (saved) {
        this.#at = saved.at;
        this.#of = saved.of;
      }
    }
    if (this.#at < 0 || this.#stateOf(file, this.#at) !== this.#of) {
      this.#tables.clear();
      this.#at = file.firstByte();
    }
    const from = this.#at;
    const end = this.#feed.complete(file, from, false);
    const signature = this.#feed.snapshot ? file.signature() : undefined;
    await this.#scan(file, end);
    const stateAt = (at: number): string => signature ?? file.fingerprint(at);
    this.#of = stateAt(end);
    if (end > from) this.#tables.save(stateAt);
  }

  #stateOf(file: LineFile, at: number): string {
    if (this.#feed.snapshot) return file.signature();
    return at > file.size() ? "" : file.fingerprint(at);
  }

  async #scan(file: LineFile, end: number): Promise<void> {
    const limit = this.#feed.slicing.lineBytesMax ?? LINE_BYTES_MAX_DEFAULT;
    let hashes = new Uint32Array(1024);
    let offsets = new Float64Array(1024);
    let count = 0;
    let tableStart = this.#at;
    let at = this.#at;
    while (at < end) {
      const cut = at + BLOCK_BYTES >= end ? end : file.lineEnd(at + BLOCK_BYTES - 1, end, limit);
      const data = file.read(at, cut - at);
      const slices = this.#slices;
      sliceFeed(this.#feed, data, slices, { label: file.path, path: file.path, start: at });
      this.#hasher.attach(slices.ids);
      for (let i = 0; i < slices.count; i++) {
        if (count === SEGMENT_BUILD_MAX) {
          const lineAt = at + (slices.lineStart[i] as number);
          this.#tables.add(LookupSegment.build(tableStart, lineAt, hashes, offsets, count));
          tableStart = lineAt;
          count = 0;
        }
        if (count === hashes.length) {
          hashes = doubled(hashes, Uint32Array);
          offsets = doubled(offsets, Float64Array);
        }
        this.#hasher.hash(slices.idStart[i] as number, slices.idEnd[i] as number);
        hashes[count] = this.#hasher.low;
        offsets[count] = at + (slices.lineStart[i] as number);
        count++;
      }
      at = cut;
      await nextTurn();
    }
    if (count > 0) this.#tables.add(LookupSegment.build(tableStart, end, hashes, offsets, count));
    this.#at = end;
  }
}

function doubled<T extends Uint32Array | Float64Array>(
  column: T,
  make: new (length: number) => T,
): T {
  const larger = new make(column.length * 2);
  larger.set(column);
  return larger;
}
