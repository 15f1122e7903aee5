// Where the text of a function comes from: its author's file, line and column, through the source map where it was bundled. V8, acorn and
// our own traces count in the text that runs; an author wants to read about the text he wrote.

import { dirname, relative, resolve } from "node:path";

import { originalPositionFor, sourceContentFor, TraceMap } from "@jridgewell/trace-mapping";

/** A place in a file; line and column count from 1. */
export interface Place {
  /** Relative to the current folder where it lies below it. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** The text of the line. */
  readonly text: string | undefined;
}

/** Code that functions were taken from, and how to get from it to what its author wrote. */
interface Origin {
  readonly code: string;
  readonly file: string;
  readonly map: TraceMap | undefined;
  /** Folder that the sources of the map are relative to. */
  readonly base: string;
}

/** What the name of a method is replaced by to make it a function expression. */
export const METHOD_PREFIX = "function ";

const LINE_END = /\r\n|[\n\r\u2028\u2029]/;

/** Collects origins while design documents are loaded. */
export class SourceOrigins {
  /** Every file that was read, absolute. */
  readonly files = new Set<string>();
  /** Folders whose files are taken as functions by their names, absolute. */
  readonly folders = new Set<string>();
  readonly #origins: Origin[] = [];

  /** A file whose text holds functions as they run. */
  addText(file: string, code: string): void {
    this.files.add(file);
    this.#origins.push({ code, file, map: undefined, base: dirname(file) });
  }

  /** Bundled or compiled code. `map` is a source map (version 3) whose sources are relative to `base`. */
  addBundle(file: string, code: string, map: string, base: string): void {
    this.files.add(file);
    const trace = new TraceMap(map);
    for (const source of trace.sources) if (source !== null) this.files.add(resolve(base, source));
    this.#origins.push({ code, file, map: trace, base });
  }

  /**
   * @param source - a function's source as it runs.
   * @returns undefined when the function was not found in a file (it was made from a string, say).
   */
  locate(source: string, line: number, column: number): Place | undefined {
    // A method's text has its name where its function expression has the prefix.
    const method = source.startsWith(METHOD_PREFIX)
      ? source.slice(METHOD_PREFIX.length)
      : undefined;
    for (const text of method === undefined ? [source] : [source, method]) {
      for (const origin of this.#origins) {
        const at = positionIn(origin.code, source, text, { line, column });
        if (at)
          return origin.map
            ? throughMap(origin, origin.map, at)
            : placeIn(origin.file, origin.code, at);
      }
    }
    return undefined;
  }
}

interface Position {
  readonly line: number;
  readonly column: number;
}

/**
 * Where a position in `source` lies in `code`, if one holds the other: a bundle stands in its function's source, a function's `text` (its
 * source, or the end of it) in its module.
 */
function positionIn(
  code: string,
  source: string,
  text: string,
  { line, column }: Position,
): Position | undefined {
  if (code === "") return undefined;
  const outer = code.indexOf(text);
  const inner = outer < 0 ? source.indexOf(code) : source.length - text.length;
  if (inner < 0) return undefined;
  const start = positionAt(code, Math.max(0, outer));
  const skipped = positionAt(source, inner);
  return {
    line: line - skipped.line + start.line,
    column: line === skipped.line ? column - skipped.column + start.column : column,
  };
}

function positionAt(text: string, offset: number): Position {
  const lines = text.slice(0, offset).split(LINE_END);
  return { line: lines.length, column: (lines.at(-1) ?? "").length + 1 };
}

function placeIn(file: string, text: string, { line, column }: Position): Place {
  return { file: shown(file), line, column, text: text.split(LINE_END)[line - 1] };
}

function throughMap(origin: Origin, map: TraceMap, at: Position): Place | undefined {
  const found = originalPositionFor(map, { line: at.line, column: Math.max(0, at.column - 1) });
  if (found.source === null) return undefined;
  const text = sourceContentFor(map, found.source)?.split(LINE_END)[found.line - 1];
  return {
    file: shown(resolve(origin.base, found.source)),
    line: found.line,
    column: found.column + 1,
    text,
  };
}

/** A path as people like to read it. */
export function shown(file: string): string {
  const near = relative(process.cwd(), file);
  return near.startsWith("..") ? file : near;
}

/** The line with its number, and a mark below the column. */
export function codeFrame(place: Pick<Place, "line" | "column" | "text">): string[] {
  if (place.text === undefined) return [];
  const margin = String(place.line);
  const from = Math.max(0, place.column - 100);
  const text = place.text.slice(from, from + 160);
  const before = text.slice(0, place.column - 1 - from).replace(/[^\t]/g, " ");
  return [`${margin} | ${text}`, `${" ".repeat(margin.length)} | ${before}^`];
}
