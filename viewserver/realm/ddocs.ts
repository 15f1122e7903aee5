// Design documents that were taught, and calls of their functions (PROTOCOL §6, §10–§12). Evaluated inside the documents' realm.
import type { DesignDocs, Describe, Helpers, Render, Replies } from "./types.js";

export function createDesignDocs(
  describe: Describe,
  replies: Replies,
  helpers: Helpers,
  render: Render,
): DesignDocs {
  type Value = Record<string, unknown>;
  type Fn = (...args: unknown[]) => unknown;
  const stringify = JSON.stringify as (value: unknown) => string;
  const hasOwn = Object.hasOwn;
  const apply = Reflect.apply as (f: unknown, self: unknown, args: unknown[]) => unknown;
  interface DesignDoc {
    doc: Value;
    cache: Record<string, unknown>;
  }
  const ddocs = new Map<string, DesignDoc>();
  let target: { holder: Value; leaf: string; kind: string; ddoc: DesignDoc } | undefined;
  let viewEmitted = false;

  const ddocHandlers: Record<string, (fn: unknown, ddoc: object, args: unknown[]) => string> = {
    ...render.handlers,
    filters(fn, ddoc, args) {
      const docs = args[0] as unknown[];
      const results: boolean[] = [];
      for (let i = 0; i < docs.length; i++)
        results[i] = Boolean(apply(fn, ddoc, [docs[i], args[1]]));
      return stringify([true, results]);
    },
    views(fn, _ddoc, args) {
      const docs = args[0] as unknown[];
      const results: boolean[] = [];
      for (let i = 0; i < docs.length; i++) {
        viewEmitted = false;
        (fn as Fn)(docs[i]);
        results[i] = viewEmitted;
      }
      return stringify([true, results]);
    },
    validate_doc_update(fn, ddoc, args) {
      try {
        apply(fn, ddoc, args);
        return "1";
      } catch (e) {
        const v = e as Value;
        if (v["name"] && (v["stack"] || isNative(e))) describe.raise(e);
        return describe.strictJson(e);
      }
    },
  };
  // eslint-disable-next-line @typescript-eslint/unbound-method -- only ever applied to a given value
  const tag = Object.prototype.toString;
  const isNative = (e: unknown): boolean => apply(tag, e, []) === "[object Error]";

  return {
    open(c) {
      try {
        if (c[1] === "new") {
          const doc = c[3] as Value;
          ddocs.set(describe.text(c[2]), { doc, cache: {} });
          return '["reply","true"]';
        }
        const id = describe.text(c[1]);
        const ddoc = ddocs.get(id);
        if (ddoc === undefined)
          describe.raise(["fatal", "query_protocol_error", `uncached design doc: ${id}`]);
        const path = c[2] as string[];
        const kind = describe.text(path[0]);
        if (!hasOwn(ddocHandlers, kind))
          describe.raise(["fatal", "unknown_command", `unknown ddoc command '${kind}'`]);
        let holder = ddoc.doc;
        for (let i = 0; i + 1 < path.length; i++) {
          const next = hasOwn(holder, path[i] as string) ? holder[path[i] as string] : undefined;
          if (next === undefined || next === null)
            throw new TypeError(`${id} has no ${describe.text(path[i])}`);
          holder = next as Value;
        }
        const leaf = describe.text(path[path.length - 1]);
        const fn = typeof holder === "object" && hasOwn(holder, leaf) ? holder[leaf] : undefined;
        if (!fn)
          describe.raise([
            "error",
            "not_found",
            `missing ${kind} function ${leaf} on design doc ${id}`,
          ]);
        target = { holder, leaf, kind, ddoc };
        return typeof fn === "function" ? '["ready"]' : stringify(["compile", describe.text(fn)]);
      } catch (e) {
        return stringify(["reply", replies.failed(e)]);
      }
    },
    rootText: () => (target === undefined ? "null" : describe.json(target.ddoc.doc)),
    helpersFor() {
      const { doc, cache } = (target as NonNullable<typeof target>).ddoc;
      const slot = helpers.newSlot(-1);
      // Kept on the design document itself, where couchjs keeps it.
      doc["_module_cache"] ??= cache;
      const emit = (): void => {
        viewEmitted = true;
      };
      return helpers.make(slot, emit, doc, cache);
    },
    supply(fn) {
      const t = target as NonNullable<typeof target>;
      t.holder[t.leaf] = fn;
    },
    run(c) {
      try {
        const t = target as NonNullable<typeof target>;
        const handler = ddocHandlers[t.kind] as (
          fn: unknown,
          ddoc: object,
          args: unknown[],
        ) => string;
        return handler(t.holder[t.leaf], t.ddoc.doc, (c[3] ?? []) as unknown[]);
      } catch (e) {
        return replies.failed(e);
      }
    },
  };
}
