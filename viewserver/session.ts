// One view server: the state that `reset` clears, the design documents it was taught, and every command of the protocol. Commands and
// documents are parsed inside the documents' realm (realm/core.ts); this half compiles sources and passes functions between realms.
// It never looks into a value of a realm: what user code threw or returned is described inside.
import { ViewServerError } from "./errors.js";
import { provablyEnds } from "./endless.js";
import { limitsOf, type RowExchange, type SessionOptions } from "./options.js";
import { unionOfMembers } from "./inspect.js";
import { needsFreeze } from "./purity.js";
import { createCoreRealm, createUserRealm } from "./realm.js";
import type { Core } from "./realm/types.js";
import { ReduceCache } from "./reduce-cache.js";
import { modulesFor } from "./modules.js";
import {
  NO_LOGS,
  codeSizeOf,
  compilationReply,
  failedReduce,
  jsonLogLine,
  type HandleResult,
  type LogLine,
  type ReduceReply,
} from "./results.js";
import { prepare, type CompileError, type PrepareKind, type Prepared } from "./source.js";
import { Tracer } from "./trace.js";

interface Compiled {
  readonly fn: unknown;
  readonly helpers: object;
  readonly prepared: Prepared;
}

/** What couchjs on SpiderMonkey ends with after a fatal error. */
const FATAL_EXIT = 255;
const MAP_DOC = '["map_doc",';

/**
 * Runs the functions of design documents, isolated from the process and from each other.
 *
 * @example
 * ```ts
 * const session = new Session();
 * session.handle('["reset"]');
 * session.handle(JSON.stringify(["add_fun", "function (doc) { emit(doc.k, 1) }"]));
 * session.mapDocument('{"_id":"a","k":2}'); // [[[2,1]]]
 * ```
 */
export class Session {
  readonly #core: Core;
  readonly #kind: PrepareKind;
  readonly #reduces: ReduceCache;
  readonly #tracer: Tracer;
  #functions: Prepared[] = [];
  /** Worked out when it is first asked for. */
  #members: { readonly names: ReadonlySet<string> | undefined } | undefined;
  readonly #exceptionsAsJson: boolean;
  /** Called at most once. */
  #mayNotEnd: (() => void) | undefined;
  #disposed = false;
  /** The command at hand is none: fatal too. */
  #unknown = false;

  /** @throws RangeError for a limit that is not a whole number of 0 or more. */
  constructor(options: SessionOptions = {}) {
    const limits = limitsOf(options);
    this.#kind = limits.stock ? "function" : "declared";
    this.#core = createCoreRealm(limits);
    this.#reduces = new ReduceCache();
    this.#tracer = new Tracer(this.#core, options.tracesMax ?? 20);
    this.#exceptionsAsJson = options.exceptions === "json";
    this.#mayNotEnd = options.mayNotEnd;
    if (options.config !== undefined) this.#core.setConfig(JSON.stringify(options.config));
    if (options.rows !== undefined) this.connectRows(options.rows);
  }

  /** Gives running list functions their line reader; without one a list answers `list_error`. */
  connectRows(rows: RowExchange): void {
    this.#core.connect(
      () => rows.read(),
      (text) => {
        rows.write(text);
      },
    );
  }

  /**
   * One command line in, reply lines out. A list function reads its rows through {@link SessionOptions.rows} meanwhile.
   * A line that is not JSON ends the process with exit 1 (lenient: after an error line), a blank one with exit 0.
   */
  handle(line: string | Uint8Array): HandleResult {
    this.#check();
    const text =
      typeof line === "string"
        ? line
        : Buffer.from(line.buffer, line.byteOffset, line.length).toString();
    const core = this.#core;
    let reply: string;
    let exit: number | undefined;
    if (text.startsWith(MAP_DOC) && text.endsWith("]")) {
      const docText = text.slice(MAP_DOC.length, -1);
      reply = this.#mapText(docText);
      // Nearly always: whatever else there might be to say is asked for only when there is something.
      if (reply !== "")
        return core.quiet() ? { output: `${reply}\n` } : this.#finish(reply, undefined, docText);
    }
    const head = this.#guard(() => core.open(text));
    if (head === "") {
      if (text.trim() === "") return { output: "", exit: 0 };
      // Both stock engines die without a word here.
      if (this.#kind === "function") return { output: "", exit: 1 };
      reply = '["error","invalid_json","the line is not JSON"]';
      exit = 1;
    } else {
      reply = this.#guard(() => this.#dispatch(JSON.parse(head) as unknown, text));
    }
    return this.#finish(reply, exit);
  }

  /**
   * The reply to `map_doc` for a document's JSON text: `[[[key,value],…],…]`, one list for each function, or `["error",…]`.
   * Logs are kept for {@link takeLogs}.
   * @throws ViewServerError VIEWSERVER_NOT_JSON
   */
  mapDocument(docText: string): string {
    const reply = this.#mapText(docText);
    if (reply === "") {
      this.#check();
      throw new ViewServerError(
        "VIEWSERVER_NOT_JSON",
        "the document is not JSON: hand in the text of one JSON value",
      );
    }
    return reply;
  }

  /**
   * Like {@link mapDocument} for several at once, at half the cost: takes the JSON text of a list of documents and answers their replies,
   * one a line. When a document left logs, its reply is the last one: take them, and hand in the rest anew.
   * Undefined when nothing can be told of single documents: hand them in one by one.
   */
  mapDocuments(docsText: string): string | undefined {
    this.#check();
    const reply = this.#guard(() => this.#core.mapTexts(docsText), "");
    return reply === "" ? undefined : reply;
  }

  /** After a `["fatal", …]` throw: a process would end here. Cleared by reading. */
  takeFatal(): boolean {
    return this.#core.takeFatal();
  }

  /**
   * Names of the top-level members of a document that the map functions can see; undefined when that cannot be told. A document cut
   * down to these, in its own order, gives the same rows; only the id in a log line's text may be missing.
   */
  get membersRead(): ReadonlySet<string> | undefined {
    this.#members ??= { names: unionOfMembers(this.#functions) };
    return this.#members.names;
  }

  /** Whether `takeLogs` would give any: cheap enough to ask after every document. */
  get hasLogs(): boolean {
    return this.#core.hasLogs();
  }

  /**
   * Logs and exceptions since the last call (those that `handle` put out are not among them). An exception carries the function's own
   * stack when `docText` is given and the exception shows again in an instrumented run.
   */
  takeLogs(docText?: string): readonly LogLine[] {
    const text = this.#guard(() => this.#core.takeLogs(), "");
    if (text === "") return NO_LOGS;
    const lines = JSON.parse(text) as LogLine[];
    if (docText === undefined) return lines;
    return lines.map((line) => {
      const fn = line.kind === "exception" ? this.#functions[line.fn] : undefined;
      if (fn === undefined || line.kind !== "exception") return line;
      const stack = this.#tracer.trace(fn, docText, line.name, line.message);
      return stack === undefined ? line : { ...line, stack };
    });
  }

  /** Reduces rows `[[[key,id],value],…]` with each source; `context` names the view in an overflow message. */
  reduce(sources: readonly string[], rowsJson: string, context = ""): ReduceReply {
    return this.#reduce("reduce", sources, rowsJson, context);
  }

  /** Reduces earlier results `[value,…]`. */
  rereduce(source: string, valuesJson: string, context = ""): ReduceReply {
    return this.#reduce("rereduce", [source], valuesJson, context);
  }

  /**
   * As the command `reduce` over rows with these values `[value,…]`, for sources that never look at keys: they are handed null for them.
   * Answers the reply line without LF. The overflow rule measures the values alone.
   */
  reduceValues(sources: readonly string[], valuesJson: string): string {
    this.#check();
    this.#core.dropReduces();
    const reply =
      this.#supplyReduces(sources) ?? this.#guard(() => this.#core.runReduceValues(valuesJson));
    // No process ends here: the reply says what there is to say.
    this.takeFatal();
    return reply;
  }

  /** Whether a source compiles to a function, without adding it. */
  compileCheck(source: string): CompileError | undefined {
    this.#check();
    const made = this.#compile(source, () => this.#core.reduceHelpers(), undefined);
    return "error" in made ? made.error : undefined;
  }

  /** Lets go of all realms. Idempotent. */
  dispose(): void {
    this.#disposed = true;
    this.#functions = [];
    this.#members = undefined;
    this.#reduces.clear();
    this.#tracer.clear();
  }

  #check(): void {
    if (this.#disposed)
      throw new ViewServerError("VIEWSERVER_DISPOSED", "the session was disposed: make a new one");
  }

  /** Empty for what is not JSON. */
  #mapText(docText: string): string {
    try {
      const reply: unknown = this.#core.mapText(docText);
      if (typeof reply === "string") return reply;
    } catch {
      // As below: not looked at.
    }
    return '["error","internal_error","the map function broke out of its handler"]';
  }

  // A value that core code throws out (the stack may end anywhere) is not looked at.
  #guard(
    call: () => string,
    otherwise = '["error","internal_error","the command failed inside the view server"]',
  ): string {
    try {
      const value: unknown = call();
      return typeof value === "string" ? value : otherwise;
    } catch {
      return otherwise;
    }
  }

  #finish(reply: string, exit: number | undefined, docText?: string): HandleResult {
    const logs = this.#exceptionsAsJson
      ? this.takeLogs(docText).map(jsonLogLine).join("")
      : this.#guard(() => this.#core.logLines(), "");
    const output = logs + reply + "\n";
    const code = this.takeFatal() || this.#unknown ? FATAL_EXIT : exit;
    this.#unknown = false;
    return code === undefined ? { output } : { output, exit: code };
  }

  #dispatch(head: unknown, line: string): string {
    if (!Array.isArray(head)) return '["error","TypeError",{}]';
    const [name, first] = head as unknown[];
    switch (name) {
      case "reset":
        this.#core.reset();
        this.#functions = [];
        this.#members = undefined;
        this.#tracer.clear();
        return "true";
      case "add_lib":
        this.#core.addLib();
        return "true";
      case "add_fun":
        return this.#addFunction(first);
      case "map_doc":
        return this.#core.mapOpened();
      case "reduce":
      case "rereduce":
        return this.#reduceLine(first, line.length);
      case "ddoc":
        return this.#ddoc();
      default:
        this.#unknown = true;
        return JSON.stringify(["error", "unknown_command", `unknown command '${String(name)}'`]);
    }
  }

  #addFunction(source: unknown): string {
    if (!source) return '["error","not_found","missing function"]';
    const text = typeof source === "string" ? source : JSON.stringify(source);
    const made = this.#compile(
      text,
      () => this.#core.mapHelpers(),
      () => this.#core.libText(),
    );
    if ("error" in made) return compilationReply(made.error, text);
    this.#core.addMap(made.fn, made.helpers);
    this.#functions.push(made.prepared);
    this.#members = undefined;
    this.#core.setFreezing(this.#functions.some(needsFreeze));
    return "true";
  }

  #compile(
    source: string,
    helpersFor: () => object,
    root: (() => string) | undefined,
  ): Compiled | { error: CompileError } {
    const prepared = prepare(source, this.#kind);
    if ("error" in prepared) return prepared;
    if (this.#mayNotEnd !== undefined && !provablyEnds(prepared)) {
      this.#mayNotEnd();
      this.#mayNotEnd = undefined;
    }
    const realm = createUserRealm();
    const helpers = helpersFor();
    realm.install(helpers);
    let fn: unknown;
    try {
      fn = realm.run(prepared.script);
    } catch (e) {
      return { error: { message: this.#guard(() => this.#core.describe(e), "the source throws") } };
    }
    if (typeof fn !== "function")
      return { error: { message: "Expression does not eval to a function." } };
    if (root !== undefined) {
      for (const module of modulesFor(prepared, root)) {
        let value: unknown;
        let error = module.error;
        try {
          if (module.script !== undefined) value = realm.run(module.script);
        } catch {
          error = "the module does not evaluate";
        }
        this.#core.supplyModule(helpers, module.id, value, error);
      }
    }
    return { fn, helpers, prepared };
  }

  #supplyReduces(sources: readonly unknown[]): string | undefined {
    for (const source of sources) {
      if (!source) return '["error","not_found","missing function"]';
      const text = typeof source === "string" ? source : JSON.stringify(source);
      const fn = this.#reduces.find(text, () =>
        this.#compile(text, () => this.#core.reduceHelpers(), undefined),
      );
      if ("error" in fn) return compilationReply(fn.error, text);
      this.#core.supplyReduce(fn.fn);
    }
    return undefined;
  }

  #reduceLine(sources: unknown, lineLength: number): string {
    const list = Array.isArray(sources) ? (sources as unknown[]) : [];
    this.#core.dropReduces();
    const refused = this.#supplyReduces(list);
    if (refused !== undefined) return refused;
    return this.#core.runReduceOpened(lineLength, codeSizeOf(list));
  }

  #reduce(
    name: "reduce" | "rereduce",
    sources: readonly string[],
    rows: string,
    context: string,
  ): ReduceReply {
    this.#check();
    this.#core.dropReduces();
    const refused = this.#supplyReduces(sources);
    if (refused !== undefined) return failedReduce(refused);
    // What the command line of the protocol would measure.
    const lineLength = JSON.stringify([name, sources, 0, context]).length - 1 + rows.length;
    const text = this.#guard(() =>
      this.#core.runReduceTexts(
        rows,
        name === "rereduce",
        lineLength,
        codeSizeOf(sources),
        context,
      ),
    );
    if (this.takeFatal() || text.startsWith('["error",')) return failedReduce(text);
    return { results: JSON.parse(text) as string[] };
  }

  #ddoc(): string {
    const state = JSON.parse(this.#core.ddocOpen()) as [string, string];
    if (state[0] === "reply") return state[1];
    if (state[0] === "compile") {
      const source = state[1];
      const made = this.#compile(
        source,
        () => this.#core.ddocHelpers(),
        () => this.#core.ddocRoot(),
      );
      if ("error" in made) return compilationReply(made.error, source);
      this.#core.ddocSupply(made.fn);
    }
    return this.#core.ddocRun();
  }
}
