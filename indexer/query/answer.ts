// The answer of a query, to be read once: pages of row texts, parsed rows, CouchDB's bytes (VIEWS §20), or one object. Rows are
// made as they are asked for; whoever reads slowly holds nothing but the snapshot.

import { IndexerError } from "../errors.js";
import { type Step } from "./context.js";
import { type QueryCost, type QueryStats } from "./stats.js";

/** One row, parsed. `doc` with include_docs; `error` and `reason` in place of `value` where a reduce did not shrink. */
export interface Row {
  readonly id?: string;
  readonly key: unknown;
  readonly value?: unknown;
  readonly doc?: unknown;
  readonly error?: string;
  readonly reason?: string;
}

/** The whole answer, parsed. Members as CouchDB has them. */
export interface CouchAnswer {
  total_rows?: number;
  offset?: number;
  update_seq?: unknown;
  rows: Row[];
  explain?: QueryCost;
}

/** One run of a query: its rows in pages, and how many rows come before them in the view. */
export interface RowSource {
  /** Returns it, yielding now and then when it takes long. */
  offset(): Generator<undefined, number | undefined, undefined>;
  steps(): Generator<Step, void, undefined>;
}

/** Where an answer gets its parts. */
export interface AnswerSource {
  readonly kind: "map" | "reduce";
  readonly totalRows: number | undefined;
  /** JSON text. */
  readonly updateSeq: string | undefined;
  readonly rows: RowSource;
  readonly stats: QueryStats | undefined;
  /** Statistics become part of the answer. */
  readonly explain: boolean;
  readonly signal: AbortSignal | undefined;
  /** Called once when nothing of the tree is needed any more. */
  readonly onEnd?: (() => void) | undefined;
}

/** A reader that is faster than this between two turns of the event loop gives others one. */
const TURN_MS = 10;
/** Characters of text put together before they are handed over. */
const CHUNK_CHARACTERS = 16 * 1024;

export class ViewAnswer {
  readonly kind: "map" | "reduce";
  /** Rows of the view; undefined for a reduce. */
  readonly totalRows: number | undefined;
  /** JSON text of the sequence, if update_seq was asked for. */
  readonly updateSeq: string | undefined;
  readonly #source: AnswerSource;
  #offset: { readonly rows: number | undefined } | undefined;
  #started = false;
  #ended = false;
  #released = false;

  constructor(source: AnswerSource) {
    this.#source = source;
    this.kind = source.kind;
    this.totalRows = source.totalRows;
    this.updateSeq = source.updateSeq;
  }

  /** Rows before the first one, in the order of the scan (VIEWS §11); undefined for a reduce. */
  get offset(): number | undefined {
    if (!this.#offset) {
      const { stats, rows } = this.#source;
      stats?.enter("seek");
      const search = rows.offset();
      let found = search.next();
      while (found.done !== true) found = search.next();
      this.#offset = { rows: found.value };
      stats?.enter(undefined);
      this.#letGo();
    }
    return this.#offset.rows;
  }

  /** Finds the offset while others get their turns. */
  async #findOffset(): Promise<void> {
    if (this.#offset) return;
    const { stats, rows } = this.#source;
    const turns = new Turns();
    const search = rows.offset();
    for (;;) {
      this.#checkAborted();
      stats?.enter("seek");
      const found = search.next();
      stats?.enter(undefined);
      if (found.done === true) {
        this.#offset = { rows: found.value };
        this.#letGo();
        return;
      }
      if (turns.due()) await turns.take();
    }
  }

  /**
   * Row texts page by page, a promise only where something must be waited for. Pages may be empty. The other ways to read
   * are made of this one.
   *
   * @throws IndexerError INDEXER_ABORTED when the signal fires, INDEXER_REDUCE_FAILED when the range holds a failed reduction;
   *   BtreeError when the file is damaged.
   */
  *steps(): Generator<Step, void, undefined> {
    if (this.#started) throw new Error("an answer can be read once: run the query again");
    this.#started = true;
    const { stats } = this.#source;
    try {
      this.#checkAborted();
      stats?.enter("scan");
      for (const step of this.#source.rows.steps()) {
        // What the reader does with a page is not the query's time; what a promise waits for is.
        if (isPage(step)) stats?.enter(undefined);
        yield step;
        this.#checkAborted();
        stats?.enter("scan");
      }
      stats?.enter(undefined);
    } finally {
      this.#ended = true;
      this.#letGo();
    }
  }

  /** Row texts, one page for each leaf or so. */
  pages(): AsyncGenerator<readonly string[], void, undefined> {
    return this.#pagesOf(this.steps(), []);
  }

  async *#pagesOf(
    steps: Generator<Step, void, undefined>,
    first: Step,
  ): AsyncGenerator<readonly string[], void, undefined> {
    const turns = new Turns();
    for (const step of stepsFrom(first, steps)) {
      let page: readonly string[];
      if (isPage(step)) {
        page = step;
      } else {
        page = await step;
        this.#source.stats?.enter(undefined);
        this.#checkAborted();
      }
      if (page.length > 0) yield page;
      if (turns.due()) await turns.take();
    }
  }

  /** Parsed rows. */
  async *rows(): AsyncGenerator<Row, void, undefined> {
    for await (const page of this.pages()) {
      for (const text of page) yield JSON.parse(text) as Row;
    }
  }

  /** The whole answer in CouchDB's bytes (VIEWS §20), in chunks of some 16 KiB. Nothing comes before the first page is made. */
  text(): AsyncGenerator<string, void, undefined> {
    return this.#chunks("", "\n");
  }

  /** The same as part of something larger: `before` goes ahead, and no line feed ends it. */
  textWithin(before: string): AsyncGenerator<string, void, undefined> {
    return this.#chunks(before, "");
  }

  /**
   * The beginning of `text()`, at once: the whole answer, or as far as it goes within `characters` and without waiting for anything.
   * `rest` goes on from there; it is undefined when there is no more.
   */
  head(characters: number): {
    readonly text: string;
    readonly rest: AsyncGenerator<string, void, undefined> | undefined;
  } {
    let text = `{${this.#meta()}"rows":[\r\n`;
    let separator = "";
    const steps = this.steps();
    while (text.length < characters) {
      const step = steps.next();
      if (step.done === true) return { text: text + this.#tail("\n"), rest: undefined };
      if (!isPage(step.value)) {
        // Nobody may come to await it.
        step.value.catch(() => undefined);
        return { text, rest: this.#rest(steps, step.value, separator) };
      }
      if (step.value.length === 0) continue;
      text += separator + step.value.join(",\r\n");
      separator = ",\r\n";
    }
    return { text, rest: this.#rest(steps, [], separator) };
  }

  async *#rest(
    steps: Generator<Step, void, undefined>,
    first: Step,
    separator: string,
  ): AsyncGenerator<string, void, undefined> {
    let text = "";
    for await (const page of this.#pagesOf(steps, first)) {
      text += separator + page.join(",\r\n");
      separator = ",\r\n";
      if (text.length < CHUNK_CHARACTERS) continue;
      yield text;
      text = "";
    }
    yield text + this.#tail("\n");
  }

  /** What comes after the last row. */
  #tail(end: string): string {
    const { stats, explain } = this.#source;
    const cost = explain && stats ? `,"explain":${JSON.stringify(stats)}` : "";
    return `\r\n]${cost}}${end}`;
  }

  async *#chunks(before: string, end: string): AsyncGenerator<string, void, undefined> {
    await this.#findOffset();
    let text = `${before}{${this.#meta()}"rows":[\r\n`;
    let separator = "";
    for await (const page of this.pages()) {
      text += separator + page.join(",\r\n");
      separator = ",\r\n";
      if (text.length < CHUNK_CHARACTERS) continue;
      yield text;
      text = "";
    }
    yield text + this.#tail(end);
  }

  /** The members before the rows, each with its comma. */
  #meta(): string {
    let meta = "";
    if (this.totalRows !== undefined) meta += `"total_rows":${this.totalRows},`;
    if (this.offset !== undefined) meta += `"offset":${this.offset},`;
    if (this.updateSeq !== undefined) meta += `"update_seq":${this.updateSeq},`;
    return meta;
  }

  /** The whole answer, parsed: for answers that fit into memory. */
  async object(): Promise<CouchAnswer> {
    const rows: Row[] = [];
    const turns = new Turns();
    await this.#findOffset();
    for (const step of this.steps()) {
      if (isPage(step)) {
        parseInto(rows, step);
        if (turns.due()) await turns.take();
      } else {
        parseInto(rows, await step);
        this.#source.stats?.enter(undefined);
      }
    }
    return this.#object(rows);
  }

  /** The same at once; undefined when something must be waited for (documents, custom reduces). */
  objectSync(): CouchAnswer | undefined {
    const rows: Row[] = [];
    for (const step of this.steps()) {
      if (!isPage(step)) {
        step.catch(() => undefined);
        return undefined;
      }
      parseInto(rows, step);
    }
    return this.#object(rows);
  }

  #object(rows: Row[]): CouchAnswer {
    const answer: CouchAnswer = { rows };
    const { stats, explain } = this.#source;
    if (this.totalRows !== undefined) answer.total_rows = this.totalRows;
    if (this.offset !== undefined) answer.offset = this.offset;
    if (this.updateSeq !== undefined) answer.update_seq = JSON.parse(this.updateSeq) as unknown;
    if (explain && stats) answer.explain = stats.toJSON();
    return answer;
  }

  /** The offset may be asked for after the rows. */
  #letGo(): void {
    if (!this.#ended || this.#released || (this.kind === "map" && !this.#offset)) return;
    this.#released = true;
    this.#source.onEnd?.();
  }

  #checkAborted(): void {
    const { signal } = this.#source;
    if (signal?.aborted !== true) return;
    throw new IndexerError(
      "INDEXER_ABORTED",
      "the query was aborted by its signal",
      {},
      { cause: signal.reason },
    );
  }
}

/** Sees to it that a long read does not keep the event loop to itself. */
class Turns {
  #since = performance.now();

  due(): boolean {
    return performance.now() - this.#since >= TURN_MS;
  }

  async take(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#since = performance.now();
  }
}

/** Ending it ends `rest` too, also before anything was read. */
function* stepsFrom(
  first: Step,
  rest: Generator<Step, void, undefined>,
): Generator<Step, void, undefined> {
  try {
    yield first;
    yield* rest;
  } finally {
    rest.return();
  }
}

function isPage(step: Step): step is readonly string[] {
  return Array.isArray(step);
}

function parseInto(rows: Row[], page: readonly string[]): void {
  if (page.length === 0) return;
  for (const row of JSON.parse(`[${page.join(",")}]`) as Row[]) rows.push(row);
}

/** The answers of several queries in CouchDB's bytes (VIEWS §18, §20), each asked for when the one before has been read. */
export async function* queriesText(
  answers: Iterable<ViewAnswer> | AsyncIterable<ViewAnswer>,
): AsyncGenerator<string, void, undefined> {
  let before = '{"results":[\r\n';
  for await (const answer of answers) {
    yield* answer.textWithin(before);
    before = ",\r\n";
  }
  yield before === ",\r\n" ? "\r\n]}\n" : `${before}]}\n`;
}
