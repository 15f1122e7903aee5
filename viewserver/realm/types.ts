// The shapes that the pieces of the inner realm hand to each other, and the object through which the host drives them. Only types:
// nothing here exists at run time, because every file in this folder is evaluated from its source text inside a fresh context.

/** How the host reaches inside. Every argument and result is a primitive or a value of a realm; never an object of the host. */
export interface Core {
  /** True after a fatal error: write what there is, then leave. */
  fatal: boolean;
  /** Parses a command line and keeps it; answers JSON text of its small parts, or "" if it is not JSON. */
  open(line: string): string;
  reset(): void;
  addLib(): void;
  setConfig(json: string): void;
  setLib(json: string): void;
  setFreezing(on: boolean): void;
  /** Globals for the map function that will be number `index`. */
  mapHelpers(): object;
  addMap(fn: unknown, helpers: object): void;
  mapText(docText: string): string;
  mapOpened(): string;
  /** Globals for an instrumented copy, its recorder under `name`. */
  traceHelpers(name: string): object;
  /** Runs the copy; answers JSON text `[name, message, stack]` of what it throws. */
  trace(fn: unknown, helpers: object, docText: string): string;
  reduceHelpers(): object;
  dropReduces(): void;
  supplyReduce(fn: unknown): void;
  runReduceOpened(lineLength: number, codeSize: number): string;
  runReduceTexts(rows: string, rereduce: boolean, lineLength: number, codeSize: number, context: string): string;
  ddocOpen(): string;
  ddocRoot(): string;
  ddocHelpers(): object;
  ddocSupply(fn: unknown): void;
  ddocRun(): string;
  libText(): string;
  supplyModule(helpers: object, id: string, fn: unknown, error: string): void;
  describe(thrown: unknown): string;
  logLines(): string;
  takeLogs(): string;
  connect(read: () => string | undefined, write: (text: string) => void): void;
}

export interface Slot {
  rows: unknown[];
  index: number;
  fn: ((doc: unknown) => unknown) | undefined;
  /** Set when a limit was passed: the function fails even if it caught the error. */
  exceeded: string;
}

export interface Limits {
  readonly rowsMax: number;
  readonly outputCharsMax: number;
  readonly logLinesMax: number;
  readonly logCharsMax: number;
  /** Stock behaviour for what the two engines agree on but nobody wants: a thrown null or an unprintable row fails the command. */
  readonly stock: boolean;
}

export interface Describe {
  text(value: unknown): string;
  field(value: unknown, key: string): unknown;
  isErrorLike(value: unknown): boolean;
  /** JSON text that never throws and is never forged. */
  json(value: unknown): string;
  /** JSON text; throws what user code in `toJSON` throws, TypeError for cycles. */
  strictJson(value: unknown): string;
}

export interface Logs {
  nameAndMessage(thrown: unknown): [string, string];
  begin(): void;
  log(fn: number, value: unknown): void;
  exception(fn: number, text: string, thrown: unknown, docId: string | undefined): void;
  lines(): string;
  take(): string;
}

export interface Replies {
  /** PROTOCOL §14: the reply for anything thrown out of a command. */
  forThrown(thrown: unknown): string;
  isFatal(): boolean;
  clearFatal(): void;
}

export interface Modules {
  /** `require` over a root object with a module cache; `programs` holds the compiled modules by id. */
  make(root: unknown, cache: Record<string, unknown>, programs: Map<string, ModuleProgram>): (name: string) => unknown;
}

export interface ModuleProgram {
  readonly fn: unknown;
  readonly error: string;
}

export interface Mime {
  registerType(this: void, ...args: string[]): void;
  provides(this: void, key: string, fn: unknown): void;
  reset(): void;
  used(): boolean;
  contentType(): string | undefined;
  run(req: unknown, ddoc: unknown): unknown;
}

export interface Render {
  start(this: void, resp: unknown): void;
  send(this: void, chunk: unknown): void;
  getRow(this: void): unknown;
  connect(read: () => string | undefined, write: (text: string) => void): void;
  show(fn: unknown, ddoc: object, args: unknown[]): string;
  list(fn: unknown, ddoc: object, args: unknown[]): string;
  update(fn: unknown, ddoc: object, args: unknown[]): string;
  rewrite(fn: unknown, ddoc: object, args: unknown[]): string;
}
