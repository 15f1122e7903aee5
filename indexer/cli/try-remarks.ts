// What functions said and how they failed while views were tried.

import type { LogLine } from "../../viewserver/index.js";

/** Something a function printed or threw. */
export interface Remark {
  readonly kind: "log" | "error";
  /** Document; undefined for a reduce. */
  readonly id: string | undefined;
  /** Number of the tree whose map function it was; undefined for a reduce, and when it cannot be told. */
  readonly tree: number | undefined;
  /** The view of a reduce, or the one to blame for a document that failed in all, where it can be told. */
  readonly view: string | undefined;
  /** The log's text, or the error's name. */
  readonly text: string;
  readonly reason: string;
  /** The function's source as it runs. */
  readonly source: string;
  /** Frames in it, innermost first. */
  readonly stack: readonly Frame[];
}

export interface Frame {
  readonly name: string;
  readonly line: number;
  readonly column: number;
}

const FRAME = /^at (.*) \((\d+):(\d+)\)$/;

function framesOf(line: LogLine): Frame[] {
  if (line.kind === "log") return [];
  return (line.stack ?? "").split("\n").flatMap((frame) => {
    const [, name = "", row, column] = FRAME.exec(frame) ?? [];
    return row === undefined ? [] : [{ name, line: Number(row), column: Number(column) }];
  });
}

function textsOf(line: LogLine): Pick<Remark, "kind" | "text" | "reason" | "stack"> {
  return line.kind === "log"
    ? { kind: "log", text: line.text, reason: "", stack: [] }
    : { kind: "error", text: line.name, reason: line.message, stack: framesOf(line) };
}

/** @param source - of the map function. */
export function mapRemark(line: LogLine, id: string, source: string): Remark {
  const tree = line.fn >= 0 ? line.fn : undefined;
  return { id, tree, view: undefined, source, ...textsOf(line) };
}

export function reduceRemark(line: LogLine, view: string | undefined, source: string): Remark {
  return { id: undefined, tree: undefined, view, source, ...textsOf(line) };
}

/** A document that failed as a whole, in all views. @param view - the one to blame, where it can be told. */
export function failureOf(id: string, error: string, reason: string, view?: string): Remark {
  return {
    kind: "error",
    id,
    tree: undefined,
    view,
    text: error,
    reason,
    source: "",
    stack: [],
  };
}
