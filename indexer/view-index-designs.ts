// Which design documents an open index goes by: those that were given, those that the directory knows, and, where they are followed,
// those of the source; and which of them can be indexed.

import { IndexerError } from "./errors.js";
import type { ThreadPool } from "./mapping/thread-pool.js";
import type { ResolvedOptions } from "./options.js";
import type { Source } from "./sources/index.js";
import { CompileCheck } from "./views/compile-check.js";
import type { DesignDocument } from "./views/design-document.js";
import type { Designs } from "./views/designs.js";
import type { IndexDirectory } from "./views/index-directory.js";

export interface DesignsHost {
  readonly options: ResolvedOptions;
  readonly directory: IndexDirectory;
  /** The source, opened. */
  readonly source: () => Promise<Source>;
  /** What functions are compiled in, to see whether they do. */
  readonly threads: () => ThreadPool;
}

export class DesignsInUse {
  readonly #options: ResolvedOptions;
  readonly #directory: IndexDirectory;
  readonly #known: Designs;
  readonly #source: () => Promise<Source>;
  readonly #check: CompileCheck;
  #follows = false;
  /** Ids of the design documents that were given with this opening. */
  #given: readonly string[] = [];
  /** The source's stamp at which design documents were last looked for. */
  #stamp: string | undefined;

  constructor({ options, directory, source, threads }: DesignsHost) {
    this.#options = options;
    this.#directory = directory;
    this.#known = directory.designs;
    this.#source = source;
    this.#check = new CompileCheck(threads);
  }

  /**
   * Takes those that the index was opened with. What is wrong with them is said before anything is written.
   * @throws IndexerError INDEXER_DDOC_INVALID, INDEXER_DDOC_COMPILATION.
   */
  async start(): Promise<void> {
    const { designDocuments, designDocumentsFromSource, readOnly, offline } = this.#options;
    const given = designDocuments.map((document) => this.#known.give(document));
    this.#given = given.map(({ id }) => id);
    this.#follows = !readOnly && !offline && (designDocumentsFromSource ?? !this.#known.given);
    if (readOnly || offline) return;
    for (const design of given) await this.requireCompiled(design);
  }

  /** Records those that were given. */
  record(): void {
    if (this.#given.length > 0) this.#directory.given(this.#given);
  }

  /**
   * The source was opened. Only now is it known whether design documents may be partitioned, and nothing is written yet.
   * @throws IndexerError INDEXER_DDOC_INVALID.
   */
  sourceOpened(partitioned: boolean): void {
    this.#known.setPartitioned(partitioned);
    for (const id of this.#given) this.#known.require(id);
  }

  /** Whether those of the source are taken too. */
  get follows(): boolean {
    return this.#follows;
  }

  /** @param stamp - the source's, of now. */
  mayBeNew(stamp: string): boolean {
    return this.#follows && stamp !== this.#stamp;
  }

  /**
   * @param stamp - the source's, taken before; where it is the one of the last time there is nothing to look for.
   * @returns whether there was something new.
   */
  async refresh(stamp?: string): Promise<boolean> {
    if (!this.#follows || (stamp !== undefined && stamp === this.#stamp)) return false;
    const source = await this.#source();
    const changed = this.#known.follow(await source.designDocuments());
    if (changed) this.#directory.save();
    this.#stamp = stamp;
    return changed;
  }

  /** One of that name, or all that can be indexed; without those for which nothing was built yet. */
  built(name: string | undefined): DesignDocument[] {
    const designs = name === undefined ? [...this.#known.valid()] : [this.#known.require(name)];
    return designs.filter((design) => this.#directory.holds(design));
  }

  /** Those to be indexed. One of the source that does not compile is its author's affair, and no reason to fail the others. */
  async usable(names: readonly string[] | undefined): Promise<DesignDocument[]> {
    if (names) {
      const designs = names.map((name) => this.#known.require(name));
      for (const design of designs) await this.requireCompiled(design);
      return designs;
    }
    const usable: DesignDocument[] = [];
    for (const [id, { design, origin }] of this.#known.entries()) {
      if (design instanceof IndexerError || design.views.size === 0) continue;
      try {
        await this.requireCompiled(design);
        usable.push(design);
      } catch (error) {
        if (origin === "given" || !(error instanceof IndexerError)) throw error;
        this.#options.onWarning(`${id} is left out: ${error.message}`);
      }
    }
    return usable;
  }

  /** Those that are kept up without being asked for: all but those that say `autoupdate: false`. Undefined for simply all. */
  async followed(): Promise<string[] | undefined> {
    await this.refresh();
    const designs = [...this.#known.valid()];
    const kept = designs.filter(({ group }) => group.autoupdate);
    return kept.length === designs.length ? undefined : kept.map(({ id }) => id);
  }

  /** @throws IndexerError INDEXER_DDOC_COMPILATION. */
  async requireCompiled(design: DesignDocument): Promise<void> {
    // A foreign server knows best; and who only reads is not the first to see it.
    if (this.#options.server === undefined && !this.#options.readOnly)
      await this.#check.require(design);
  }
}
