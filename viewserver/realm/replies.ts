// PROTOCOL §14: one handler for everything that is thrown out of a command. Evaluated inside the documents' realm.
import type { Describe, Replies } from "./types.js";

export function createReplies(describe: Describe): Replies {
  let fatal = false;

  const printed = (reply: unknown[]): string => {
    try {
      return describe.strictJson(reply);
    } catch {
      return describe.json(["error", describe.text(reply[1]), describe.text(reply[2])]);
    }
  };
  const classify = (e: unknown): string => {
    if (e === null || e === undefined) return '["error","TypeError",{}]';
    if (Array.isArray(e)) {
      const list = e as unknown[];
      if (list[0] === "fatal") {
        fatal = true;
        return printed(["error", list[1], list[2]]);
      }
      if (list[0] === "error") return printed([...list]);
    }
    const v = e as Record<string, unknown>;
    if (v["name"] === "InternalError") {
      fatal = true;
      return printed(["error", "InternalError", describe.text(v["message"])]);
    }
    if (v["error"] && v["reason"]) return printed(["error", v["error"], v["reason"]]);
    if (v["name"]) return printed(["error", v["name"], typeof e === "object" ? e : {}]);
    return printed(["error", "unnamed_error", describe.text(e)]);
  };
  return {
    failed(e) {
      try {
        return classify(e);
      } catch {
        return '["error","unnamed_error","the thrown value cannot be printed"]';
      }
    },
    isFatal: () => fatal,
    takeFatal() {
      const was = fatal;
      fatal = false;
      return was;
    },
  };
}
