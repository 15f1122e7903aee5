// Map functions: call them, collect what they emit, print it once after all have run (PROTOCOL §3). Evaluated inside the documents' realm.
import type {
  Describe,
  Helpers,
  Limits,
  Logs,
  Mapping,
  Replies,
  Slot,
  ViewError,
} from "./types.js";
import type { Recorder } from "./trace.js";

/** What couchjs does with an exception of a map or reduce function; throws what fails the whole command. */
export function createViewError(limits: Limits, describe: Describe, logs: Logs): ViewError {
  const idOf = (doc: unknown): string | undefined => {
    const id = describe.field(doc, "_id");
    return id === undefined ? undefined : describe.text(id);
  };
  return (e, fn, doc, isMap) => {
    if (limits.stock || (e !== null && e !== undefined)) {
      let fatalError = false;
      try {
        // Loosely, as couchjs compares: ["fatal_error"] counts too.
        fatalError = e == "fatal_error";
      } catch {
        fatalError = false;
      }
      if (fatalError)
        describe.raise(["error", "map_runtime_error", "function raised 'fatal_error'"]);
      // Throws for null, which fails the command: so do both stock engines.
      const first = limits.stock ? (e as unknown[])[0] : describe.field(e, "0");
      if (first === "fatal" || describe.field(e, "name") === "InternalError") describe.raise(e);
    }
    let text = `function raised exception ${describe.text(e)}`;
    if (isMap && doc) text += ` with doc._id ${idOf(doc) ?? "undefined"}`;
    logs.exception(fn, text, e, isMap ? idOf(doc) : undefined);
  };
}

export function createMapping(
  limits: Limits,
  logs: Logs,
  replies: Replies,
  helpers: Helpers,
  viewError: ViewError,
  recorder: Recorder,
): Mapping {
  type Value = Record<string, unknown>;
  const parse = JSON.parse;
  const stringify = JSON.stringify as (value: unknown) => string;
  const isArray = Array.isArray;
  const freeze = Object.freeze;
  /** Above these, `stringify` is as fast. */
  const SHORT_STRING_MAX = 64;
  const SIMPLE_ROWS_MAX = 32;
  const keysOf = Object.keys;
  let slots: Slot[] = [];
  let freezing = true;

  // Iterative: a document may be nested deeper than the stack allows.
  const deepFreeze = (root: unknown): void => {
    const stack: unknown[] = [root];
    while (stack.length > 0) {
      const value = stack.pop();
      if (typeof value !== "object" || value === null) continue;
      freeze(value);
      if (isArray(value)) {
        const list = value as unknown[];
        for (let i = 0; i < list.length; i++) {
          const item = list[i];
          if (typeof item === "object" && item !== null) stack.push(item);
        }
      } else {
        const object = value as Value;
        for (const key of keysOf(object)) {
          const item = object[key];
          if (typeof item === "object" && item !== null) stack.push(item);
        }
      }
    }
  };
  /** JSON of a string that needs no escape, or of a number, boolean or null; empty for anything else. */
  const scalarText = (value: unknown): string => {
    if (typeof value === "string") {
      const { length } = value;
      if (length > SHORT_STRING_MAX) return "";
      for (let i = 0; i < length; i++) {
        const code = value.charCodeAt(i);
        if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return "";
      }
      return `"${value}"`;
    }
    if (typeof value === "number") return value - value === 0 ? `${value}` : "null";
    if (value === null) return "null";
    if (value === true) return "true";
    return value === false ? "false" : "";
  };
  /** What `stringify` would print, at a third of its cost, when all keys and values are short scalars; else undefined. */
  const simpleText = (results: unknown[][]): string | undefined => {
    let text = "[";
    for (let i = 0; i < results.length; i++) {
      const rows = results[i] as [unknown, unknown][];
      if (rows.length > SIMPLE_ROWS_MAX) return undefined;
      text += i === 0 ? "[" : ",[";
      for (let r = 0; r < rows.length; r++) {
        const row = rows[r] as [unknown, unknown];
        const key = scalarText(row[0]);
        if (key === "") return undefined;
        const value = scalarText(row[1]);
        if (value === "") return undefined;
        text += r === 0 ? `[${key},${value}]` : `,[${key},${value}]`;
      }
      text += "]";
    }
    return `${text}]`;
  };
  const rowsText = (results: unknown[][], doc: unknown): string => {
    const simple = simpleText(results);
    if (simple !== undefined && simple.length <= limits.outputCharsMax) return simple;
    let text: string | undefined;
    try {
      text = stringify(results);
    } catch (e) {
      if (limits.stock) throw e;
    }
    if (text !== undefined && text.length <= limits.outputCharsMax) return text;
    // One function is to blame: print them one by one, and leave out the guilty.
    const parts: string[] = [];
    for (let i = 0; i < results.length; i++) {
      let part = "[]";
      try {
        part = stringify(results[i]);
        if (part.length > limits.outputCharsMax) {
          throw new RangeError(
            `output_limit: a document may print at most ${limits.outputCharsMax} characters per function`,
          );
        }
      } catch (e) {
        viewError(e, i, doc, true);
        part = "[]";
      }
      parts[i] = part;
    }
    return `[${parts.join(",")}]`;
  };
  const mapDocument = (doc: unknown): string => {
    logs.begin();
    try {
      if (freezing) deepFreeze(doc);
      const results: unknown[][] = [];
      for (let i = 0; i < slots.length; i++) {
        const slot = slots[i] as Slot;
        const rows: unknown[] = [];
        slot.rows = rows;
        // A toJSON may have emitted too much while the rows before were printed.
        slot.exceeded = "";
        results.push(rows);
        try {
          (slot.fn as (doc: unknown) => unknown)(doc);
          if (slot.exceeded !== "") throw new RangeError(slot.exceeded);
        } catch (e) {
          results[i] = [];
          viewError(e, i, doc, true);
        }
      }
      return rowsText(results, doc);
    } catch (e) {
      return replies.failed(e);
    }
  };
  return {
    reset() {
      slots = [];
      freezing = true;
    },
    setFreezing(on) {
      freezing = on;
    },
    helpersFor(lib) {
      const slot = helpers.newSlot(slots.length);
      return helpers.make(slot, helpers.emitInto(slot), { views: { lib } }, {});
    },
    add(fn, of) {
      const slot = helpers.slotOf(of);
      slot.fn = fn as (doc: unknown) => unknown;
      slots[slots.length] = slot;
    },
    mapText(docText) {
      let doc: unknown;
      try {
        doc = parse(docText);
      } catch {
        return "";
      }
      return mapDocument(doc);
    },
    mapTexts(docsText) {
      let docs: unknown[];
      try {
        docs = parse(docsText) as unknown[];
      } catch {
        return "";
      }
      let text = "";
      for (let i = 0; i < docs.length; i++) {
        text += i === 0 ? mapDocument(docs[i]) : `\n${mapDocument(docs[i])}`;
        // They belong to this document: the host takes them before another one logs.
        if (logs.pending()) break;
      }
      return text;
    },
    map: mapDocument,
    traceHelpers(name, lib) {
      const slot = helpers.newSlot(-1);
      const made = helpers.make(slot, helpers.emitInto(slot), { views: { lib } }, {}) as Value;
      freeze(recorder.calls);
      made[name] = recorder.calls;
      made["log"] = () => undefined;
      return made;
    },
    trace(fn, of, docText) {
      const slot = helpers.slotOf(of);
      recorder.reset();
      try {
        const doc: unknown = parse(docText);
        deepFreeze(doc);
        (fn as (doc: unknown) => unknown)(doc);
        return "[]";
      } catch (e) {
        return stringify([...logs.nameAndMessage(e), recorder.text()]);
      } finally {
        slot.rows = [];
        slot.exceeded = "";
      }
    },
  };
}
