// Design documents: the rules they must keep (VIEWS §1) and the view group they define (VIEWS §2).
// Views of one design document with the same map source and view options share one B-tree of the group's file.

import { createHash } from "node:crypto";

import { IndexerError } from "../errors.js";
import { validateReduce } from "../reducers/index.js";

/** One B-tree of a group: a map function and everything that reads its rows. */
export interface ViewTreeSpec {
  /** The tree's name in the index file is `view:<number>`. */
  readonly number: number;
  readonly map: string;
  readonly collation: "root" | "raw";
  /** Names of views without a reduce, in document order. */
  readonly mapOnly: readonly string[];
  /** Views with a reduce, in document order; `reductions` of the tree are kept in this order. */
  readonly reduces: readonly { readonly name: string; readonly source: string }[];
}

export interface ViewLocation {
  readonly tree: number;
  /** Index into the tree's `reduces`; undefined for a map-only view. */
  readonly reduce: number | undefined;
}

/** Everything that decides what an index holds. Equal signatures share one index. */
export interface ViewGroupSpec {
  readonly signature: string;
  readonly language: string;
  readonly trees: readonly ViewTreeSpec[];
  /** `views.lib` as JSON, for `add_lib`; undefined when there is none. */
  readonly lib: string | undefined;
  readonly includeDesign: boolean;
  readonly localSeq: boolean;
  /** Rows are kept by partition, and a query names one (VIEWS §19). */
  readonly partitioned: boolean;
  /** Of a partitioned database, whether or not this group is kept by partition: ids must name one. */
  readonly partitionedIds: boolean;
  readonly autoupdate: boolean;
}

export interface DesignDocument {
  /** With the `_design/` prefix. */
  readonly id: string;
  readonly rev: string | undefined;
  readonly group: ViewGroupSpec;
  readonly views: ReadonlyMap<string, ViewLocation>;
}

type JsonObject = Record<string, unknown>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refuse(id: string, reason: string): never {
  throw new IndexerError("INDEXER_DDOC_INVALID", `${id}: ${reason}`, {
    status: 400,
    error: "invalid_design_doc",
    reason,
  });
}

function mustBe(id: string, path: string, type: string, ok: boolean): void {
  if (!ok) refuse(id, `\`${path}\` field must have ${type} type`);
}

function checkFields(id: string, doc: JsonObject): void {
  for (const field of ["filters", "lists", "shows", "updates"]) {
    const value = doc[field];
    if (value === undefined) continue;
    mustBe(id, field, "object", isObject(value));
    for (const [name, member] of Object.entries(value as JsonObject))
      mustBe(
        id,
        `${field}.${name}`,
        "object or string",
        isObject(member) || typeof member === "string",
      );
  }
  const { language, options, rewrites, validate_doc_update: validate, views } = doc;
  if (language !== undefined) mustBe(id, "language", "string", typeof language === "string");
  if (options !== undefined) {
    mustBe(id, "options", "object", isObject(options));
    for (const flag of ["include_design", "local_seq", "partitioned"]) {
      const value = (options as JsonObject)[flag];
      if (value !== undefined) mustBe(id, `options.${flag}`, "boolean", typeof value === "boolean");
    }
  }
  if (rewrites !== undefined)
    mustBe(
      id,
      "rewrites",
      "string or array",
      typeof rewrites === "string" || Array.isArray(rewrites),
    );
  if (validate !== undefined)
    mustBe(
      id,
      "validate_doc_update",
      "string or object",
      isObject(validate) || typeof validate === "string",
    );
  if (views !== undefined) mustBe(id, "views", "object", isObject(views));
}

function checkView(id: string, name: string, view: unknown, language: string): void {
  mustBe(id, `views.${name}`, "object", isObject(view));
  if (name === "lib") return;
  const { map, reduce } = view as JsonObject;
  if (map === undefined) refuse(id, `View \`${name}\` must contain map function`);
  if (language === "query") mustBe(id, `views.${name}.map`, "object", isObject(map));
  else mustBe(id, `views.${name}.map`, "string", typeof map === "string");
  if (reduce === undefined) return;
  mustBe(id, `views.${name}.reduce`, "string", typeof reduce === "string");
  const fault = validateReduce(reduce as string);
  if (fault !== undefined) refuse(id, fault);
}

/** The view's map source where it defines an index; `lib` counts only when it has a `map` of type string (VIEWS §1). */
function mapSource(view: unknown): string | undefined {
  if (!isObject(view)) return undefined;
  return typeof view["map"] === "string" ? view["map"] : undefined;
}

function sortedByName(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortedByName);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sortedByName(value[name])]),
  );
}

interface TreeDraft {
  readonly map: string;
  readonly options: string;
  readonly collation: "root" | "raw";
  readonly mapOnly: string[];
  readonly reduces: { name: string; source: string }[];
}

function collectTrees(views: JsonObject): TreeDraft[] {
  const drafts = new Map<string, TreeDraft>();
  for (const [name, view] of Object.entries(views)) {
    const map = mapSource(view);
    if (map === undefined) continue;
    const options = (view as JsonObject)["options"];
    const optionText = JSON.stringify(isObject(options) ? options : {});
    const key = JSON.stringify([map, optionText]);
    let draft = drafts.get(key);
    if (!draft) {
      const raw = isObject(options) && options["collation"] === "raw";
      draft = {
        map,
        options: optionText,
        collation: raw ? "raw" : "root",
        mapOnly: [],
        reduces: [],
      };
      drafts.set(key, draft);
    }
    const reduce = (view as JsonObject)["reduce"];
    if (typeof reduce === "string" && reduce !== "") draft.reduces.push({ name, source: reduce });
    else draft.mapOnly.push(name);
  }
  return [...drafts.values()].sort((a, b) =>
    a.map < b.map ? -1 : a.map > b.map ? 1 : a.options < b.options ? -1 : 1,
  );
}

/**
 * Checks a design document (VIEWS §1, except compiling its functions) and derives its view group.
 *
 * @param source - the document, parsed; `_id` must begin with `_design/`.
 * @param database - whether its database is partitioned: then the group is, too, unless its options say no. Undefined while that is not
 * known: the group is as in another database, and options that only a partitioned one may have are let pass. Default: it is not.
 * @throws IndexerError `INDEXER_DDOC_INVALID` with CouchDB's reason text in `details.reason`.
 */
export function parseDesignDocument(
  source: unknown,
  database: { readonly partitioned: boolean | undefined } = { partitioned: false },
): DesignDocument {
  if (!isObject(source)) refuse("design document", "Document must be a JSON object");
  const id = source["_id"];
  if (typeof id !== "string" || !id.startsWith("_design/") || id === "_design/")
    refuse("design document", `\`_id\` must begin with "_design/" and name the document`);
  checkFields(id, source);
  const language = typeof source["language"] === "string" ? source["language"] : "javascript";
  const views = isObject(source["views"]) ? source["views"] : {};
  for (const [name, view] of Object.entries(views)) checkView(id, name, view, language);

  const drafts = collectTrees(views);
  const lib = isObject(views["lib"]) ? views["lib"] : undefined;
  const options = isObject(source["options"]) ? source["options"] : {};
  if (options["partitioned"] === true && database.partitioned === false)
    refuse(id, "partitioned option cannot be true in a non-partitioned database.");
  const partitionedIds = database.partitioned === true;
  const partitioned = partitionedIds && options["partitioned"] !== false;
  const signature = createHash("sha256")
    .update(
      JSON.stringify([
        drafts.map((d, number) => [number, d.mapOnly, d.reduces, d.map, d.options]),
        language,
        options,
        sortedByName(lib ?? null),
        ...(partitionedIds ? [{ partitioned }] : []),
      ]),
    )
    .digest("hex")
    .slice(0, 32);

  const located = new Map<string, ViewLocation>();
  for (const [tree, draft] of drafts.entries()) {
    for (const name of draft.mapOnly) located.set(name, { tree, reduce: undefined });
    for (const [reduce, { name }] of draft.reduces.entries()) located.set(name, { tree, reduce });
  }
  const autoupdate = source["autoupdate"];
  return {
    id,
    rev: typeof source["_rev"] === "string" ? source["_rev"] : undefined,
    views: located,
    group: {
      signature,
      language,
      trees: drafts.map((d, number) => ({
        number,
        map: d.map,
        collation: d.collation,
        mapOnly: d.mapOnly,
        reduces: d.reduces,
      })),
      lib: lib === undefined || Object.keys(lib).length === 0 ? undefined : JSON.stringify(lib),
      // Design documents are in no partition.
      includeDesign: options["include_design"] === true && !partitioned,
      localSeq: options["local_seq"] === true,
      partitioned,
      partitionedIds,
      autoupdate: !(
        autoupdate === false ||
        (isObject(autoupdate) && autoupdate["views"] === false)
      ),
    },
  };
}

/** A short name for a view of a tree, for messages: the first of its views in document order. */
export function treeLabel(tree: ViewTreeSpec): string {
  return tree.mapOnly[0] ?? tree.reduces[0]?.name ?? `view:${tree.number}`;
}
