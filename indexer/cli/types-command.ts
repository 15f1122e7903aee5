// `viewmill types`: declarations of everything that functions of a design document may call, for editors and for tsc.

import { writeFileSync } from "node:fs";

import { EXIT, UsageError } from "./exit.js";

export interface TypesFlags {
  readonly out?: string;
  readonly json?: boolean;
  readonly quiet?: boolean;
}

/** The text of the .d.ts. A script, not a module: what it declares is global. */
export const VIEW_TYPES = `// Declarations of what functions of a CouchDB design document may call. Written by \`viewmill types\`.
//
// JavaScript: put  /// <reference path="./viewmill.d.ts" />  on top of a view file.
// TypeScript: list this file under "files" or "include" in tsconfig.json. Leave "dom" out of "lib": views have no timers, no network and
// no console.

/** Any JSON value. Keys and values of rows are JSON. */
type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** What JSON.stringify makes a JSON value of: undefined becomes null in a row, a Date its ISO text. */
type Emittable = Json | undefined | { toJSON(): unknown } | readonly Emittable[] | { readonly [name: string]: Emittable } | object;

/** A document as a map function sees it. Extend it with your own members: \`interface Order extends Doc { total: number }\`. */
interface Doc {
  readonly _id: string;
  readonly _rev: string;
  readonly _attachments?: {
    readonly [name: string]: {
      readonly content_type: string;
      readonly digest: string;
      readonly length: number;
      readonly revpos: number;
      readonly stub: true;
    };
  };
  /** Other leaf revisions, if the view mentions them. */
  readonly _conflicts?: readonly string[];
  readonly _deleted_conflicts?: readonly string[];
  /** With the design document's option local_seq. */
  readonly _local_seq?: number | string;
}

/**
 * Adds a row to the view: key, document and value.
 *
 * The types of keys and values can be fixed for a view:
 * @example
 * export default function (doc: Order) {
 *   (emit as Emit<[year: number, month: number], number>)([2024, 5], doc.total);
 * }
 */
interface Emit<Key extends Emittable = Emittable, Value extends Emittable = Emittable> {
  (key: Key, value?: Value): void;
}

/** In map functions. In a view used as a filter it only says that the document passes. */
declare const emit: Emit;

/** A map function over documents of type D. */
type MapFunction<D = Doc> = (doc: D) => void;

/**
 * A reduce function. First called with rows: \`keys\` holds [key, document id] pairs. Then with earlier results (\`rereduce\` true): \`keys\` is
 * null and \`values\` holds what the function returned before. The result must be small, and must not depend on how rows are split.
 */
type ReduceFunction<Key extends Emittable = Json, Value = Json, Result = Value> = {
  (keys: readonly (readonly [key: Key, id: string])[], values: readonly Value[], rereduce: false): Result;
  (keys: null, values: readonly Result[], rereduce: true): Result;
};

/** Adds with \`+\`, from 0: strings are appended. */
declare function sum(values: readonly number[]): number;

/** Writes a line to the host's log: strings as they are, everything else as JSON. \`viewmill try\` shows it. */
declare function log(message: unknown): void;

/** JSON.stringify. */
declare const toJSON: typeof JSON.stringify;

/** Whether a value is an array. Unlike \`instanceof Array\` it also knows those of documents. */
declare function isArray(value: unknown): value is unknown[];

/**
 * Exports of a CommonJS module in the design document. In map functions: below \`views.lib\`, as \`require("views/lib/name")\`; in shows, lists,
 * updates, filters and validations: anywhere in the design document. Reduces have none.
 */
declare function require<Exports = any>(path: string): Exports;

/** In modules that are required. */
declare const exports: any;
declare const module: { exports: any; readonly id?: string; readonly parent?: unknown };

/** What a show, list or update answers. */
interface ResponseObject {
  code?: number;
  headers?: { [name: string]: string };
  body?: string;
  base64?: string;
  json?: unknown;
}

/** The HTTP request as shows, lists, updates and filters see it. */
interface RequestObject {
  readonly method: string;
  readonly path: readonly string[];
  readonly requested_path: readonly string[];
  readonly raw_path: string;
  readonly query: { readonly [name: string]: string };
  readonly headers: { readonly [name: string]: string };
  readonly body: string;
  readonly form: { readonly [name: string]: string };
  readonly cookie: { readonly [name: string]: string };
  readonly id: string | null;
  readonly uuid: string;
  readonly peer: string;
  readonly info: { readonly [name: string]: unknown };
  readonly userCtx: { readonly db: string; readonly name: string | null; readonly roles: readonly string[] };
  readonly secObj: { readonly [name: string]: unknown };
}

/** A row as a list reads it. */
interface ListRow<Key = any, Value = any> {
  readonly id?: string;
  readonly key: Key;
  readonly value: Value;
  readonly doc?: any;
}

/** In shows and lists: the handler of a type that the client may ask for; the best match runs. */
declare function provides(type: string, handler: () => string | ResponseObject | void): void;

/** Makes a name for \`provides\` known: its MIME types, the preferred one first. */
declare function registerType(type: string, ...mimeTypes: string[]): void;

/** In lists: status and headers, before the first row is read. */
declare function start(response?: ResponseObject): void;

/** In lists: a piece of the body. */
declare function send(chunk: unknown): void;

/** In lists: the next row, or null at the end. */
declare function getRow<Row = ListRow>(): Row | null;
`;

/** Writes the declarations to a file, or to stdout. */
export function types(flags: TypesFlags): number {
  if (flags.out === undefined) {
    process.stdout.write(flags.json ? `${JSON.stringify({ types: VIEW_TYPES })}\n` : VIEW_TYPES);
    return EXIT.done;
  }
  try {
    writeFileSync(flags.out, VIEW_TYPES);
  } catch (error) {
    throw new UsageError(`--out ${flags.out}: cannot be written (${(error as Error).message})`);
  }
  if (flags.json) process.stdout.write(`${JSON.stringify({ file: flags.out })}\n`);
  else if (!flags.quiet) process.stderr.write(`viewmill: wrote ${flags.out}\n`);
  return EXIT.done;
}
