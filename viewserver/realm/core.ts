// The inner half of a Session: it parses commands and documents, calls the user's functions, collects what they emit and prints
// the replies, all with intrinsics no user code has touched. Evaluated from source text in the documents' realm, whose
// intrinsics are frozen afterwards; so it may refer only to its parameters.
import type { Core, Describe, Limits, Logs, Mime, ModuleProgram, Modules, Render, Replies, Slot } from "./types.js";
import type { Recorder } from "./trace.js";

export function createCore(
  limits: Limits,
  describe: Describe,
  logs: Logs,
  replies: Replies,
  modules: Modules,
  mime: Mime,
  render: Render,
  recorder: Recorder,
): Core {
  type Value = Record<string, unknown>;
  type Fn = (...args: unknown[]) => unknown;
  const parse = JSON.parse;
  const stringify = JSON.stringify as (value: unknown) => string;
  const hasOwn = Object.hasOwn;
  const apply = Reflect.apply as (f: unknown, self: unknown, args: unknown[]) => unknown;
  const isArray = Array.isArray;
  const freeze = Object.freeze;
  const keysOf = Object.keys;
  interface DesignDoc {
    doc: Value;
    cache: Record<string, unknown>;
  }
  interface Helpers {
    slot: Slot;
    programs: Map<string, ModuleProgram>;
    globals: Value;
  }
  const owners = new WeakMap<object, Helpers>();
  let config: Value = {};
  let lib: unknown = null;
  let slots: Slot[] = [];
  let freezing = true;
  let opened: unknown;
  let reduceFns: unknown[] = [];
  const ddocs = new Map<string, DesignDoc>();
  let target: { holder: Value; leaf: string; kind: string; ddoc: DesignDoc } | undefined;
  let viewEmitted = false;

  const newSlot = (index: number): Slot => ({ rows: [], index, fn: undefined, exceeded: "" });
  const emitInto = (slot: Slot): Fn => {
    const rowsMax = limits.rowsMax;
    return (key, value) => {
      const rows = slot.rows;
      const n = rows.length;
      if (n >= rowsMax) {
        slot.exceeded = `emit_limit: a document may emit at most ${rowsMax} rows per function`;
        throw new RangeError(slot.exceeded);
      }
      if (typeof value === "object" && value !== null && describe.isErrorLike(value)) {
        value = { error: (value as Value)["name"], message: (value as Value)["message"] };
      }
      rows[n] = [key, value];
    };
  };
  const makeHelpers = (slot: Slot, emit: Fn, root: unknown, cache: Record<string, unknown>): object => {
    const programs = new Map<string, ModuleProgram>();
    const globals: Value = {
      emit,
      log: (value: unknown) => {
        logs.log(slot.index, value);
      },
      provides: mime.provides,
      registerType: mime.registerType,
      start: render.start,
      send: render.send,
      getRow: render.getRow,
      require: root === undefined ? undefined : modules.make(root, cache, programs),
    };
    for (const name of keysOf(globals)) freeze(globals[name]);
    owners.set(globals, { slot, programs, globals });
    return globals;
  };
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
  const idOf = (doc: unknown): string | undefined => {
    const id = describe.field(doc, "_id");
    return id === undefined ? undefined : describe.text(id);
  };
  /** What couchjs does with an exception of a map or reduce function; throws what fails the whole command. */
  const viewError = (e: unknown, fn: number, doc: unknown, isMap: boolean): void => {
    if (limits.stock || (e !== null && e !== undefined)) {
      let fatalError = false;
      try {
        // Loosely, as couchjs compares: ["fatal_error"] counts too.
        fatalError = e == "fatal_error";
      } catch {
        fatalError = false;
      }
      // eslint-disable-next-line @typescript-eslint/only-throw-error
      if (fatalError) throw ["error", "map_runtime_error", "function raised 'fatal_error'"];
      // Throws for null, which fails the command: so do both stock engines.
      const first = limits.stock ? (e as unknown[])[0] : describe.field(e, "0");
      // eslint-disable-next-line @typescript-eslint/only-throw-error
      if (first === "fatal" || describe.field(e, "name") === "InternalError") throw e;
    }
    let text = `function raised exception ${describe.text(e)}`;
    if (isMap && doc) text += ` with doc._id ${idOf(doc) ?? "undefined"}`;
    logs.exception(fn, text, e, isMap ? idOf(doc) : undefined);
  };
  const rowsText = (results: unknown[][], doc: unknown): string => {
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
        results[i] = rows;
        try {
          (slot.fn as (doc: unknown) => unknown)(doc);
          if (slot.exceeded !== "") throw new RangeError(slot.exceeded);
        } catch (e) {
          results[i] = [];
          slot.exceeded = "";
          viewError(e, i, doc, true);
        }
      }
      return rowsText(results, doc);
    } catch (e) {
      return failed(e);
    }
  };
  const failed = (e: unknown): string => {
    const reply = replies.forThrown(e);
    if (replies.isFatal()) core.fatal = true;
    replies.clearFatal();
    return reply;
  };
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
  const runReduces = (rows: unknown, rereduce: boolean): unknown[] => {
    let keys: unknown = null;
    let values: unknown = rows;
    if (!rereduce) {
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
  const command = (): unknown[] => opened as unknown[];

  const ddocHandlers: Record<string, (fn: unknown, ddoc: object, args: unknown[]) => string> = {
    shows: render.show,
    lists: render.list,
    updates: render.update,
    rewrites: render.rewrite,
    filters(fn, ddoc, args) {
      const docs = args[0] as unknown[];
      const results: boolean[] = [];
      for (let i = 0; i < docs.length; i++) results[i] = Boolean(apply(fn, ddoc, [docs[i], args[1]]));
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
        // eslint-disable-next-line @typescript-eslint/only-throw-error
        if (v["name"] && (v["stack"] || isNative(e))) throw e;
        return describe.strictJson(e);
      }
    },
  };
  const tag = Object.prototype.toString;
  const isNative = (e: unknown): boolean => apply(tag, e, []) === "[object Error]";

  const core: Core = {
    fatal: false,
    open(line) {
      try {
        opened = parse(line);
      } catch {
        return "";
      }
      logs.begin();
      if (!isArray(opened)) return "null";
      const c = command();
      switch (c[0]) {
        case "map_doc":
        case "list_row":
          return `["${c[0]}"]`;
        case "reduce":
        case "rereduce":
          return stringify([c[0], c[1]]);
        case "ddoc":
          return stringify(c[1] === "new" ? ["ddoc", "new"] : ["ddoc"]);
        default:
          return stringify(c);
      }
    },
    reset() {
      slots = [];
      lib = null;
      const given = command()[1];
      config = typeof given === "object" && given !== null ? (given as Value) : {};
      freezing = true;
    },
    addLib() {
      lib = command()[1] ?? null;
    },
    setConfig(json) {
      config = parse(json) as Value;
    },
    setLib(json) {
      lib = parse(json) as unknown;
    },
    setFreezing(on) {
      freezing = on;
    },
    mapHelpers() {
      const slot = newSlot(slots.length);
      return makeHelpers(slot, emitInto(slot), { views: { lib } }, {});
    },
    addMap(fn, helpers) {
      const slot = (owners.get(helpers) as Helpers).slot;
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
    mapOpened: () => mapDocument(command()[1]),
    traceHelpers(name) {
      const slot = newSlot(-1);
      const helpers = makeHelpers(slot, emitInto(slot), { views: { lib } }, {}) as Value;
      freeze(recorder.calls);
      helpers[name] = recorder.calls;
      helpers["log"] = () => undefined;
      return helpers;
    },
    trace(fn, helpers, docText) {
      const slot = (owners.get(helpers) as Helpers).slot;
      recorder.reset();
      try {
        const doc: unknown = parse(docText);
        deepFreeze(doc);
        (fn as Fn)(doc);
        return "[]";
      } catch (e) {
        return stringify([...logs.nameAndMessage(e), recorder.text()]);
      } finally {
        slot.rows = [];
        slot.exceeded = "";
      }
    },
    reduceHelpers() {
      const slot = newSlot(reduceFns.length);
      // Nothing reads these rows; the function exists so that a stray call does no harm.
      return makeHelpers(slot, () => undefined, undefined, {});
    },
    dropReduces() {
      reduceFns = [];
    },
    supplyReduce(fn) {
      reduceFns[reduceFns.length] = fn;
    },
    runReduceOpened(lineLength, codeSize) {
      try {
        const c = command();
        const results = runReduces(c[2], c[0] === "rereduce");
        const text = stringify(results);
        const message = overflow(text.length, lineLength - codeSize, c[3]);
        if (message !== "" && config["reduce_limit"] === "log") {
          logs.log(-1, `reduce_overflow_error: ${message}`);
        } else if (message !== "") {
          // eslint-disable-next-line @typescript-eslint/only-throw-error
          throw ["error", "reduce_overflow_error", message];
        }
        return `[true,${text}]`;
      } catch (e) {
        return failed(e);
      } finally {
        reduceFns = [];
      }
    },
    runReduceTexts(rows, rereduce, lineLength, codeSize, context) {
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
        const message = overflow(size, lineLength - codeSize, context);
        if (message !== "" && config["reduce_limit"] === "log") {
          logs.log(-1, `reduce_overflow_error: ${message}`);
        } else if (message !== "") {
          // eslint-disable-next-line @typescript-eslint/only-throw-error
          throw ["error", "reduce_overflow_error", message];
        }
        return stringify(texts);
      } catch (e) {
        return failed(e);
      } finally {
        reduceFns = [];
      }
    },
    ddocOpen() {
      try {
        const c = command();
        if (c[1] === "new") {
          const doc = c[3] as Value;
          ddocs.set(describe.text(c[2]), { doc, cache: {} });
          return '["reply","true"]';
        }
        const id = describe.text(c[1]);
        const ddoc = ddocs.get(id);
        // eslint-disable-next-line @typescript-eslint/only-throw-error
        if (ddoc === undefined) throw ["fatal", "query_protocol_error", `uncached design doc: ${id}`];
        const path = c[2] as string[];
        const kind = describe.text(path[0]);
        // eslint-disable-next-line @typescript-eslint/only-throw-error
        if (!hasOwn(ddocHandlers, kind)) throw ["fatal", "unknown_command", `unknown ddoc command '${kind}'`];
        let holder = ddoc.doc;
        for (let i = 0; i + 1 < path.length; i++) {
          const next = hasOwn(holder, path[i] as string) ? holder[path[i] as string] : undefined;
          if (next === undefined || next === null) throw new TypeError(`${id} has no ${describe.text(path[i])}`);
          holder = next as Value;
        }
        const leaf = describe.text(path[path.length - 1]);
        const fn = typeof holder === "object" && hasOwn(holder, leaf) ? holder[leaf] : undefined;
        // eslint-disable-next-line @typescript-eslint/only-throw-error
        if (!fn) throw ["error", "not_found", `missing ${kind} function ${leaf} on design doc ${id}`];
        target = { holder, leaf, kind, ddoc };
        return typeof fn === "function" ? '["ready"]' : stringify(["compile", describe.text(fn)]);
      } catch (e) {
        return stringify(["reply", failed(e)]);
      }
    },
    ddocRoot: () => (target === undefined ? "null" : describe.json(target.ddoc.doc)),
    libText: () => describe.json({ views: { lib } }),
    ddocHelpers() {
      const ddoc = (target as NonNullable<typeof target>).ddoc;
      const slot = newSlot(-1);
      // Kept on the design document itself, where couchjs keeps it.
      ddoc.doc["_module_cache"] ??= ddoc.cache;
      const emit = (): void => {
        viewEmitted = true;
      };
      return makeHelpers(slot, emit, ddoc.doc, ddoc.cache);
    },
    ddocSupply(fn) {
      const t = target as NonNullable<typeof target>;
      t.holder[t.leaf] = fn;
    },
    ddocRun() {
      try {
        const t = target as NonNullable<typeof target>;
        const args = (command()[3] ?? []) as unknown[];
        const handler = ddocHandlers[t.kind] as (fn: unknown, ddoc: object, args: unknown[]) => string;
        return handler(t.holder[t.leaf], t.ddoc.doc, args);
      } catch (e) {
        return failed(e);
      }
    },
    supplyModule(helpers, id, fn, error) {
      (owners.get(helpers) as Helpers).programs.set(id, { fn, error });
    },
    describe: (thrown) => describe.text(thrown),
    logLines: () => logs.lines(),
    takeLogs: () => logs.take(),
    connect(read, write) {
      render.connect(read, write);
    },
  };
  return core;
}
