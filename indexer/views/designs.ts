// The design documents of an index directory: given by its user, or read from the source and followed there.

import { IndexerError } from "../errors.js";
import type { DesignDocumentRow } from "../sources/index.js";
import { parseDesignDocument, type DesignDocument } from "./design-document.js";
import type { Manifest, ManifestDesign } from "./manifest.js";

export interface KnownDesign {
  readonly json: string;
  readonly origin: ManifestDesign["origin"];
  /** Parsed; or why it cannot be used. */
  readonly design: DesignDocument | IndexerError;
}

/** Accepts `_design/name` and `name`. */
export function designId(name: string): string {
  return name.startsWith("_design/") ? name : `_design/${name}`;
}

function parse(json: string, partitioned: boolean | undefined): DesignDocument | IndexerError {
  try {
    return parseDesignDocument(JSON.parse(json), { partitioned });
  } catch (error) {
    if (error instanceof IndexerError) return error;
    return new IndexerError(
      "INDEXER_DDOC_INVALID",
      `a design document is not JSON: ${(error as Error).message}`,
    );
  }
}

export class Designs {
  readonly #known = new Map<string, KnownDesign>();
  #partitioned: boolean | undefined;

  /** @param partitioned - whether the database is; undefined while that is not known. */
  constructor(partitioned?: boolean) {
    this.#partitioned = partitioned;
  }

  get partitioned(): boolean | undefined {
    return this.#partitioned;
  }

  /** Whether the database is partitioned has become known, or has changed: that is part of what its design documents mean. */
  setPartitioned(partitioned: boolean): void {
    if (partitioned === this.#partitioned) return;
    this.#partitioned = partitioned;
    for (const [id, { json, origin }] of this.#known)
      this.#known.set(id, { json, origin, design: parse(json, partitioned) });
  }

  /** Takes up what the directory knows. */
  load(manifest: Manifest): void {
    for (const [id, { json, origin }] of Object.entries(manifest.designs))
      this.#known.set(id, { json, origin, design: parse(json, this.#partitioned) });
  }

  /** Takes up what the directory knows now, and nothing else. */
  reload(manifest: Manifest): void {
    for (const [id, known] of this.#known)
      if (manifest.designs[id]?.json !== known.json) this.#known.delete(id);
    for (const [id, { json, origin }] of Object.entries(manifest.designs))
      if (!this.#known.has(id))
        this.#known.set(id, { json, origin, design: parse(json, this.#partitioned) });
  }

  /**
   * Takes a design document from the user; it wins over one of the same id in the source.
   * @throws IndexerError `INDEXER_DDOC_INVALID`.
   */
  give(document: string | object): DesignDocument {
    const json = typeof document === "string" ? document : JSON.stringify(document);
    const design = parse(json, this.#partitioned);
    if (design instanceof IndexerError) throw design;
    this.#known.set(design.id, { json, origin: "given", design });
    return design;
  }

  /** Takes the source's design documents of this moment; those that are gone there are forgotten. Returns whether any changed. */
  follow(rows: readonly DesignDocumentRow[]): boolean {
    let changed = false;
    const present = new Set(rows.map(({ id }) => id));
    for (const [id, known] of this.#known)
      if (known.origin === "feed" && !present.has(id)) {
        this.#known.delete(id);
        changed = true;
      }
    for (const { id, json } of rows) {
      const known = this.#known.get(id);
      if (known?.origin === "given" || known?.json === json) continue;
      this.#known.set(id, { json, origin: "feed", design: parse(json, this.#partitioned) });
      changed = true;
    }
    return changed;
  }

  get given(): boolean {
    return [...this.#known.values()].some(({ origin }) => origin === "given");
  }

  entries(): IterableIterator<[string, KnownDesign]> {
    return this.#known.entries();
  }

  /** Those that can be used. */
  *valid(): IterableIterator<DesignDocument> {
    for (const { design } of this.#known.values())
      if (!(design instanceof IndexerError)) yield design;
  }

  /** The design document as the source or user wrote it. */
  json(name: string): string | undefined {
    return this.#known.get(designId(name))?.json;
  }

  /**
   * @param name - with or without `_design/`.
   * @throws IndexerError `INDEXER_VIEW_NOT_FOUND` (404), or what is wrong with the document.
   */
  require(name: string): DesignDocument {
    const known = this.#known.get(designId(name));
    if (!known)
      throw new IndexerError(
        "INDEXER_VIEW_NOT_FOUND",
        `there is no design document ${designId(name)}`,
        {
          status: 404,
          error: "not_found",
          reason: "missing",
        },
      );
    if (known.design instanceof IndexerError) throw known.design;
    return known.design;
  }
}
