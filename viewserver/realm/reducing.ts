// Reduce functions and the overflow rule (PROTOCOL §4, §5). Evaluated inside the documents' realm.
import type { Describe, Limits, Logs, Reducing, Replies, ViewError } from "./types.js";

export function createReducing(
  limits: Limits,
  describe: Describe,
  logs: Logs,
  replies: Replies,
  viewError: ViewError,
): Reducing {
  type Fn = (...args: unknown[]) => unknown;
  const parse = JSON.parse;
  const stringify = JSON.stringify as (value: unknown) => string;
  let config: Readonly<Record<string, unknown>> = {};
  let reduceFns: unknown[] = [];

  const overflow = (outSize: number, inSize: number, context: unknown): string => {
    const limit = config["reduce_limit"];
    if (!limit) return "";
    // 4096 and 2 are what a server of 3.5 uses when the host names no numbers.
    const threshold = config["reduce_limit_threshold"] ?? 4096;
    const ratio = config["reduce_limit_ratio"] ?? 2;
    if (!(outSize > (threshold as number) && outSize * (ratio as number) > inSize)) return "";
    const where = context === undefined || context === null ? "" : describe.text(context);
    return `Reduce output must shrink more rapidly: input size: ${inSize} output size: ${outSize} context: ${where}`;
  };
  /** `bare`: the rows are bare values, for functions that do not look at keys. */
  const runReduces = (rows: unknown, rereduce: boolean, bare = rereduce): unknown[] => {
    let keys: unknown = null;
    let values: unknown = rows;
    if (!bare) {
      const pairs = rows as [unknown, unknown][];
      const k: unknown[] = [];
      const v: unknown[] = [];
      for (let i = 0; i < pairs.length; i++) {
        const pair = pairs[i] as [unknown, unknown];
        k[i] = pair[0];
        v[i] = pair[1];
      }
      keys = k;
      values = v;
    }
    const results: unknown[] = [];
    for (let i = 0; i < reduceFns.length; i++) {
      try {
        results[i] = (reduceFns[i] as Fn)(keys, values, rereduce);
      } catch (e) {
        viewError(e, i, undefined, false);
        results[i] = null;
      }
    }
    return results;
  };
  /** Throws or logs as the configuration says. */
  const checkSize = (outSize: number, inSize: number, context: unknown): void => {
    const message = overflow(outSize, inSize, context);
    if (message === "") return;
    if (config["reduce_limit"] === "log") logs.log(-1, `reduce_overflow_error: ${message}`);
    else describe.raise(["error", "reduce_overflow_error", message]);
  };
  return {
    configure(to) {
      config = to;
    },
    drop() {
      reduceFns = [];
    },
    supply(fn) {
      reduceFns[reduceFns.length] = fn;
    },
    runCommand(command, lineLength, codeSize) {
      try {
        const text = stringify(runReduces(command[2], command[0] === "rereduce"));
        checkSize(text.length, lineLength - codeSize, command[3]);
        return `[true,${text}]`;
      } catch (e) {
        return replies.failed(e);
      } finally {
        reduceFns = [];
      }
    },
    runValues(valuesText) {
      logs.begin();
      try {
        const text = stringify(runReduces(parse(valuesText), false, true));
        checkSize(text.length, valuesText.length, "");
        return `[true,${text}]`;
      } catch (e) {
        return replies.failed(e);
      } finally {
        reduceFns = [];
      }
    },
    runTexts(rows, rereduce, lineLength, codeSize, context) {
      logs.begin();
      try {
        const results = runReduces(parse(rows), rereduce);
        const texts: string[] = [];
        // Together as one array, like a reply line: that is what the overflow rule measures.
        let size = 1;
        for (let i = 0; i < results.length; i++) {
          let text: string;
          try {
            text = describe.strictJson(results[i]);
          } catch (e) {
            if (limits.stock) throw e;
            viewError(e, i, undefined, false);
            text = "null";
          }
          texts[i] = text;
          size += text.length + 1;
        }
        checkSize(size, lineLength - codeSize, context);
        return stringify(texts);
      } catch (e) {
        return replies.failed(e);
      } finally {
        reduceFns = [];
      }
    },
  };
}
