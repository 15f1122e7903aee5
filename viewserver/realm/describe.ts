// Turning whatever user code threw or returned into text without trusting it: getters, toString and toJSON may throw, loop over
// proxies or answer nonsense. Evaluated from source text inside the documents' realm.
import type { Describe } from "./types.js";

export function createDescribe(charsMax: number): Describe {
  const stringify = JSON.stringify;
  // eslint-disable-next-line @typescript-eslint/unbound-method -- only ever applied to a given value
  const tag = Object.prototype.toString;
  const apply = Reflect.apply;

  const field = (value: unknown, key: string): unknown => {
    try {
      return value === null || value === undefined
        ? undefined
        : (value as Record<string, unknown>)[key];
    } catch {
      return undefined;
    }
  };
  const text = (value: unknown): string => {
    let s: string;
    try {
      s = String(value);
    } catch {
      s = "[a value that cannot be printed]";
    }
    return s.length > charsMax ? s.slice(0, charsMax) + "…" : s;
  };
  return {
    raise: (value) => {
      // Replies are thrown as arrays: the handler for thrown values prints them as they are.

      throw value;
    },
    text,
    field,
    isErrorLike(value) {
      if (value === null || typeof value !== "object") return false;
      const v = value as Record<string, unknown>;
      if (!v["name"] || !v["message"]) return false;
      return Boolean(v["stack"]) || apply(tag, v, []) === "[object Error]";
    },
    json(value) {
      try {
        const s = stringify(value) as string | undefined;
        return s ?? "null";
      } catch {
        return "{}";
      }
    },
    strictJson(value) {
      const text: unknown = stringify(value);
      // Undefined and functions have no text.
      return typeof text === "string" ? text : "null";
    },
  };
}
