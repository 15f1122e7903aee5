// The answer of a query, to be read once: pages of row texts, parsed rows, CouchDB's bytes (VIEWS §20), or one object. Rows are
// made as they are asked for; whoever reads slowly holds nothing but the snapshot.

import { IndexerError } from "../errors.js";
import { Turns } from "../views/turns.js";
import { type AnswerSource, type CouchAnswer, type ReadyRows, type Row } from "./answer-types.js";
import { type Step } from "./context.js";

/** Characters of text put together before they are handed over. */
const CHUNK_CHARACTERS = 16 * 1024;

export class ViewAnswer {
  readonly kind: "map" | "reduce";
  /** Rows of the view; undefined for a reduce. */
  readonly totalRows: number | undefined;
  /** JSON text of the sequence, if update_seq was asked for. */
  readonly updateSeq: string | undefined;
  readonly #source: AnswerSource;
  #signal: AbortSignal | undefined;
  #offset: { readonly rows: number | undefined } | undefined;
  #started = false;
  #ended = false;
  #released = false;

  constructor(source: AnswerSource) {
    this.#source = source;
    this.#signal = source.signal;
    this.kind = source.kind;
    this.totalRows = source.totalRows;
    this.updateSeq = source.updateSeq;
  }

  /** Rows before the first one, in the order of the scan (VIEWS §11); undefined for a reduce. */
  get offset(): number | undefined {
    if (!this.#offset) {
      const { stats, rows } = this.#source;
      stats?.enter("seek");
      let found = rows.offset();
      if (typeof found === "object") {
        let step = found.next();
        while (step.done !== true) step = found.next();
        found = step.value;
      }
      stats?.enter(undefined);
      this.#offset = { rows: found };
      this.#letGo();
    }
    return this.#offset.rows;
  }

  /** Finds the offset while others get their turns. */
  async #findOffset(): Promise<void> {
    if (this.#offset) return;
    const { stats, rows } = this.#source;
    const turns = new Turns();
    this.#checkAborted();
    stats?.enter("seek");
    let found = rows.offset();
    if (typeof found === "object") {
      const search = found;
      let step = search.next();
      while (step.done !== true) {
        stats?.enter(undefined);
        if (turns.due()) await turns.take();
        this.#checkAborted();
        stats?.enter("seek");
        step = search.next();
      }
      found = step.value;
    }
    stats?.enter(undefined);
    this.#offset = { rows: found };
    this.#letGo();
  }

  /** Ends the reading with INDEXER_ABORTED when the signal fires, as one given with the query does. */
  abortBy(signal: AbortSignal): void {
    this.#signal = signal;
  }

  /**
   * Row texts page by page, a promise only where something must be waited for. Pages may be empty. The other ways to read
   * are made of this one.
   *
   * @throws IndexerError INDEXER_ABORTED when the signal fires, INDEXER_REDUCE_FAILED when the range holds a failed reduction;
   *   BtreeError when the file is damaged.
   */
  *steps(): Generator<Step, void, undefined> {
    this.#start();
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
      this.#end();
    }
  }

  #start(): void {
    if (this.#started) throw new Error("an answer can be read once: run the query again");
    this.#started = true;
  }

  #end(): void {
    this.#ended = true;
    this.#letGo();
  }

  /** The short way to the rows, unless the cost of each step is to be told. */
  get #ready(): ReadyRows | undefined {
    return this.#source.stats ? undefined : this.#source.rows.ready;
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
    const ready = this.#ready;
    if (ready) {
      this.#start();
      try {
        this.#checkAborted();
        while (text.length < characters) {
          const page = ready.text();
          if (page === undefined) {
            this.#end();
            return { text: text + this.#tail("\n"), rest: undefined };
          }
          if (page === "") continue;
          text += separator + page;
          separator = ",\r\n";
        }
      } catch (error) {
        this.#end();
        throw error;
      }
      return { text, rest: this.#rest(this.#stepsOf(ready), [], separator) };
    }
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

  /** The rows that a reader of `ready` has left, a page in one piece. */
  *#stepsOf(ready: ReadyRows): Generator<Step, void, undefined> {
    try {
      for (let page = ready.text(); page !== undefined; page = ready.text()) {
        this.#checkAborted();
        yield page === "" ? [] : [page];
      }
    } finally {
      this.#end();
    }
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
    const { offset } = this;
    if (offset !== undefined) meta += `"offset":${offset},`;
    if (this.updateSeq !== undefined) meta += `"update_seq":${this.updateSeq},`;
    return meta;
  }

  /** The whole answer, parsed: for answers that fit into memory. */
  async object(): Promise<CouchAnswer> {
    const rows: Row[] = [];
    const turns = new Turns();
    if (!this.#offset) await this.#findOffset();
    const ready = this.#ready;
    if (ready) {
      this.#start();
      try {
        for (let page = ready.objects(); page; page = ready.objects()) {
          for (const row of page) rows.push(row);
          if (turns.due()) await turns.take();
          this.#checkAborted();
        }
      } finally {
        this.#end();
      }
      return this.#object(rows);
    }
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
    const ready = this.#ready;
    if (ready) return this.#objectOf(ready);
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

  #objectOf(ready: ReadyRows): CouchAnswer {
    this.#start();
    try {
      this.#checkAborted();
      // One descent finds both, as long as it is asked for first.
      const { offset } = this;
      let rows: Row[] | undefined;
      for (let page = ready.objects(); page; page = ready.objects()) {
        if (rows) for (const row of page) rows.push(row);
        else rows = page;
      }
      return this.#object(rows ?? [], offset);
    } finally {
      this.#end();
    }
  }

  #object(rows: Row[], offset = this.offset): CouchAnswer {
    const answer: CouchAnswer = { rows };
    const { stats, explain } = this.#source;
    if (this.totalRows !== undefined) answer.total_rows = this.totalRows;
    if (offset !== undefined) answer.offset = offset;
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
    const signal = this.#signal;
    if (signal?.aborted !== true) return;
    throw new IndexerError(
      "INDEXER_ABORTED",
      "the query was aborted by its signal",
      {},
      { cause: signal.reason },
    );
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
