// log() output and exceptions of one command, in order, bounded per document. Evaluated inside the documents' realm; leaves it as text.
import type { Describe, Limits, Logs } from "./types.js";

export function createLogs(limits: Limits, describe: Describe): Logs {
  const stringify = JSON.stringify;
  interface Entry {
    kind: string;
    fn: number;
    text: string;
    name?: string;
    message?: string;
    docId?: string;
  }
  let entries: Entry[] = [];
  let dropped = 0;
  let count = 0;

  const add = (entry: Entry): void => {
    entries[entries.length] = entry;
  };
  const close = (): void => {
    if (dropped > 0)
      add({ kind: "log", fn: -1, text: `log_limit: ${dropped} further log lines were dropped` });
    dropped = 0;
  };
  const nameAndMessage = (thrown: unknown): [string, string] => {
    const name = describe.field(thrown, "name");
    const message = describe.field(thrown, "message");
    return [
      typeof name === "string" ? name : typeof thrown,
      typeof message === "string" ? message : describe.text(thrown),
    ];
  };
  return {
    nameAndMessage,
    begin() {
      if (dropped > 0) close();
      count = 0;
    },
    log(fn, value) {
      if (++count > limits.logLinesMax) {
        dropped++;
        return;
      }
      let text: string;
      if (typeof value === "string") text = value;
      else if (value === undefined) text = "undefined";
      else if (describe.isErrorLike(value)) {
        const v = value as Record<string, unknown>;
        text = describe.json({ error: v["name"], message: v["message"] });
      } else text = describe.strictJson(value);
      if (text.length > limits.logCharsMax) text = text.slice(0, limits.logCharsMax) + "…";
      add({ kind: "log", fn, text });
    },
    exception(fn, text, thrown, docId) {
      const [name, message] = nameAndMessage(thrown);
      const entry: Entry = { kind: "exception", fn, text, name, message };
      if (docId !== undefined) entry.docId = docId;
      add(entry);
    },
    lines() {
      close();
      if (entries.length === 0) return "";
      let out = "";
      for (const e of entries) out += stringify(["log", e.text]) + "\n";
      entries = [];
      return out;
    },
    pending: () => entries.length > 0 || dropped > 0,
    take() {
      close();
      if (entries.length === 0) return "";
      const out = stringify(entries);
      entries = [];
      return out;
    },
  };
}
