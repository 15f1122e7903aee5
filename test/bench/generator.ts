// Seeded documents for benches and tests: order-like, 250 ± 20 bytes as JSON, ids of 32 random hex digits in random order,
// users by a Zipf law. The same arguments give the same bytes on every machine.
//
//   node dist/test/bench/generator.js N SEED FILE [--bytes 250|1200|100000] [--changes] [--touch K]

import { createWriteStream } from "node:fs";
import { once } from "node:events";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const USERS = 50_000;
const TAGS = 200;
const SPREAD_BYTES = 20;
const WRITE_BYTES = 1024 * 1024;
const WORDS =
  "amber basket candle delta early forest garden harbor island jacket kettle lantern meadow narrow orchard paper quiet river silver timber upper violet winter yellow zephyr".split(
    " ",
  );
const FOREIGN_WORDS = ["Größe", "naïve", "Żółw", "Ελλάδα", "東京", "мир", "café", "😀smile"];
const CITIES = ["Aachen", "Bergen", "Cork", "Delft", "Espoo", "Faro", "Graz", "Huesca", "Izmir"];

/** What the documents are like. */
export interface GeneratorOptions {
  /** Number that decides everything. */
  readonly seed: number;
  /** Bytes of a document, give or take 20. Default 250; from about 600 on, a list of items fills the document. */
  readonly docBytes?: number | undefined;
  /** Rows of a changes feed instead of documents: `seq`, `id`, `changes`, `doc` with a `_rev`. */
  readonly changes?: boolean | undefined;
  /** So many documents, drawn by a second dice, have another amount: a later state of the same `of` documents. */
  readonly touch?: { readonly count: number; readonly of: number } | undefined;
}

/** A small, fast random number generator (sfc32), seeded by one number. */
export class Random {
  #a: number;
  #b: number;
  #c = 0x9e3779b9 | 0;
  #counter = 1;

  constructor(seed: number, stream = 0) {
    this.#a = seed | 0;
    this.#b = stream | 0;
    for (let i = 0; i < 12; i++) this.word();
  }

  /** 32 bits, signed. */
  word(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum;
  }

  /** A number in [0, 1). */
  unit(): number {
    return (this.word() >>> 0) / 2 ** 32;
  }

  /** An integer in [0, limit). */
  below(limit: number): number {
    return Math.floor(this.unit() * limit);
  }

  /** 8 hex digits for each `words`. */
  hex(words: number): string {
    let text = "";
    for (let i = 0; i < words; i++) text += (this.word() >>> 0).toString(16).padStart(8, "0");
    return text;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

/** Makes documents one after another. */
export class DocumentGenerator {
  readonly #touchDice: Random;
  readonly #options: GeneratorOptions;
  readonly #docBytes: number;
  #made = 0;
  #touched = 0;

  constructor(options: GeneratorOptions) {
    this.#options = options;
    this.#touchDice = new Random(options.seed, -1);
    this.#docBytes = options.docBytes ?? 250;
  }

  /** The next line, without its LF. */
  next(): string {
    const made = ++this.#made;
    // A stream for each document: one that is touched leaves the others as they are.
    const random = new Random(this.#options.seed, made);
    const id = random.hex(4);
    const body = this.#body(random, this.#touches());
    if (this.#options.changes !== true) return `{"_id":"${id}",${body}`;
    const rev = `1-${random.hex(4)}`;
    const seq = `${made}-g1AAAACReJzLYWBgYM5gTmHgz8tPSTV0MDQy1zMAQsMckEQiQ1L9____${id.slice(0, 12)}`;
    const doc = `{"_id":"${id}","_rev":"${rev}",${body}`;
    return `{"seq":"${seq}","id":"${id}","changes":[{"rev":"${rev}"}],"doc":${doc}}`;
  }

  #touches(): boolean {
    const touch = this.#options.touch;
    if (!touch) return false;
    // Chooses exactly `count` of `of`, whichever they are.
    const left = touch.of - this.#made + 1;
    const chosen = this.#touchDice.unit() * left < touch.count - this.#touched;
    if (chosen) this.#touched++;
    return chosen;
  }

  #body(random: Random, touched: boolean): string {
    const foreign = random.below(100) === 0;
    const tags: string[] = [];
    for (let i = random.below(5); i > 0; i--) tags.push(`"tag-${random.below(TAGS)}"`);
    const user = `u${zipfRank(random.unit())}`;
    const ts = `[${2020 + random.below(5)},${1 + random.below(12)},${1 + random.below(28)},${random.below(24)}]`;
    const cents = random.below(1_000_000);
    const amount = (touched ? cents + 1_000_000 : cents) / 100;
    const city = foreign ? "Malmö" : random.pick(CITIES);
    const place = `{"city":"${city}","zip":"${10_000 + random.below(90_000)}"}`;
    const head = `"user":"${user}","ts":${ts},"amount":${amount},"tags":[${tags.join(",")}],"title":"`;
    const spread = random.below(2 * SPREAD_BYTES - 9) - SPREAD_BYTES + 5;
    const wanted = this.#docBytes + spread - '{"_id":"",'.length - 32;
    let tail = `","place":${place}}`;
    if (this.#docBytes >= 600) {
      const room = wanted - head.length - tail.length - 60;
      tail = `","place":${place},"items":[${items(random, room)}]}`;
    }
    const title = words(
      random,
      wanted - Buffer.byteLength(head) - Buffer.byteLength(tail),
      foreign,
    );
    return head + title + tail;
  }
}

/** Text of about so many bytes. */
function words(random: Random, bytes: number, foreign: boolean): string {
  let text = foreign ? random.pick(FOREIGN_WORDS) : random.pick(WORDS);
  let size = Buffer.byteLength(text);
  while (size < bytes) {
    const word = foreign && random.below(3) === 0 ? random.pick(FOREIGN_WORDS) : random.pick(WORDS);
    const more = 1 + Buffer.byteLength(word);
    if (foreign && size + more > bytes + SPREAD_BYTES / 5) break;
    text += ` ${word}`;
    size += more;
  }
  if (foreign || size <= bytes) return text;
  return text.slice(0, Math.max(1, bytes)).trimEnd().padEnd(Math.max(1, bytes), "s");
}

/** List items as JSON, about so many bytes together. */
function items(random: Random, bytes: number): string {
  const list: string[] = [];
  for (let size = 0; size < bytes;) {
    const note = words(random, 20 + random.below(40), false);
    const item = `{"sku":"${random.hex(1)}","quantity":${1 + random.below(9)},"price":${random.below(100_000) / 100},"note":"${note}"}`;
    list.push(item);
    size += item.length + 1;
  }
  return list.join(",");
}

let cumulative: Float64Array | undefined;

/** Rank, from 0, that a point of [0, 1) falls on under Zipf's law with exponent 1. */
function zipfRank(point: number): number {
  if (!cumulative) {
    cumulative = new Float64Array(USERS);
    let sum = 0;
    for (let i = 0; i < USERS; i++) cumulative[i] = sum += 1 / (i + 1);
  }
  const wanted = point * (cumulative[USERS - 1] as number);
  let low = 0;
  let high = USERS - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((cumulative[middle] as number) > wanted) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** All lines at once: for tests. */
export function generateLines(count: number, options: GeneratorOptions): string[] {
  const generator = new DocumentGenerator(options);
  return Array.from({ length: count }, () => generator.next());
}

/** Writes `count` lines to a file. Returns its size in bytes. */
export async function generateFile(
  path: string,
  count: number,
  options: GeneratorOptions,
): Promise<number> {
  const generator = new DocumentGenerator(options);
  const file = createWriteStream(path);
  let pending: string[] = [];
  let pendingChars = 0;
  for (let i = 0; i < count; i++) {
    const line = generator.next();
    pending.push(line, "\n");
    pendingChars += line.length + 1;
    if (pendingChars < WRITE_BYTES && i < count - 1) continue;
    if (!file.write(pending.join(""))) await once(file, "drain");
    pending = [];
    pendingChars = 0;
  }
  file.end();
  await once(file, "close");
  return file.bytesWritten;
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { bytes: { type: "string" }, changes: { type: "boolean" }, touch: { type: "string" } },
  });
  const [count, seed, path] = [Number(positionals[0]), Number(positionals[1]), positionals[2]];
  if (!Number.isInteger(count) || !Number.isInteger(seed) || path === undefined) {
    console.error("usage: generator N SEED FILE [--bytes N] [--changes] [--touch K]");
    process.exitCode = 2;
    return;
  }
  const touch = values.touch === undefined ? undefined : { count: Number(values.touch), of: count };
  const docBytes = values.bytes === undefined ? undefined : Number(values.bytes);
  const bytes = await generateFile(path, count, { seed, docBytes, changes: values.changes, touch });
  console.log(`${path}: ${count} lines, ${bytes} bytes, ${(bytes / count).toFixed(1)} a line`);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main();
}
