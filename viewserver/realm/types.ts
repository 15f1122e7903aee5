// The shapes that the pieces of the inner realm hand to each other, and the object through which the host drives them. Only types:
// nothing here exists at run time, because every file in this folder is evaluated from its source text inside a fresh context.

/** How the host reaches inside. Every argument and result is a primitive or a value of a realm; never an object of the host. */
export interface Core {
  /** True once after a fatal error: write what there is, then leave. */
  readonly takeFatal: () => boolean;
  /** Nothing was logged, and nothing fatal thrown: the reply is all there is. */
  readonly quiet: () => boolean;
  /** Parses a command line and keeps it; answers JSON text of its small parts, or "" if it is not JSON. */
  readonly open: (line: string) => string;
  readonly reset: () => void;
  readonly addLib: () => void;
  readonly setConfig: (json: string) => void;
  readonly setFreezing: (on: boolean) => void;
  /** Globals for the map function that will be number `index`. */
  readonly mapHelpers: () => object;
  readonly addMap: (fn: unknown, helpers: object) => void;
  readonly mapText: (docText: string) => string;
  /** Maps each document of a JSON list; ends after one that logged. Replies joined by LF; "" if the text is not JSON. */
  readonly mapTexts: (docsText: string) => string;
  readonly mapOpened: () => string;
  /** Globals for an instrumented copy, its recorder under `name`. */
  readonly traceHelpers: (name: string) => object;
  /** Runs the copy; answers JSON text `[name, message, stack]` of what it throws. */
  readonly trace: (fn: unknown, helpers: object, docText: string) => string;
  readonly reduceHelpers: () => object;
  readonly dropReduces: () => void;
  readonly supplyReduce: (fn: unknown) => void;
  readonly runReduceOpened: (lineLength: number, codeSize: number) => string;
  readonly runReduceTexts: (
    rows: string,
    rereduce: boolean,
    lineLength: number,
    codeSize: number,
    context: string,
  ) => string;
  readonly runReduceValues: (values: string) => string;
  readonly ddocOpen: () => string;
  readonly ddocRoot: () => string;
  readonly ddocHelpers: () => object;
  readonly ddocSupply: (fn: unknown) => void;
  readonly ddocRun: () => string;
  readonly libText: () => string;
  readonly supplyModule: (helpers: object, id: string, fn: unknown, error: string) => void;
  readonly describe: (thrown: unknown) => string;
  readonly logLines: () => string;
  readonly hasLogs: () => boolean;
  readonly takeLogs: () => string;
  readonly connect: (read: () => string | undefined, write: (text: string) => void) => void;
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
  readonly raise: (value: unknown) => never;
  readonly text: (value: unknown) => string;
  readonly field: (value: unknown, key: string) => unknown;
  readonly isErrorLike: (value: unknown) => boolean;
  /** JSON text that never throws and is never forged. */
  readonly json: (value: unknown) => string;
  /** JSON text; throws what user code in `toJSON` throws, TypeError for cycles. */
  readonly strictJson: (value: unknown) => string;
}

export interface Logs {
  readonly nameAndMessage: (thrown: unknown) => [string, string];
  readonly begin: () => void;
  readonly log: (fn: number, value: unknown) => void;
  readonly exception: (
    fn: number,
    text: string,
    thrown: unknown,
    docId: string | undefined,
  ) => void;
  readonly lines: () => string;
  readonly pending: () => boolean;
  readonly take: () => string;
}

export interface Replies {
  /** PROTOCOL §14: the reply for anything thrown out of a command. */
  readonly failed: (thrown: unknown) => string;
  readonly isFatal: () => boolean;
  readonly takeFatal: () => boolean;
}

/** Handles what a map or reduce function threw; throws what fails the whole command. */
export type ViewError = (thrown: unknown, fn: number, doc: unknown, isMap: boolean) => void;

export interface Helpers {
  readonly newSlot: (index: number) => Slot;
  readonly emitInto: (slot: Slot) => (...args: unknown[]) => unknown;
  /** Globals for one function; `root` undefined = no `require`. */
  readonly make: (
    slot: Slot,
    emit: (...args: unknown[]) => unknown,
    root: unknown,
    cache: Record<string, unknown>,
  ) => object;
  readonly slotOf: (helpers: object) => Slot;
  readonly supplyModule: (helpers: object, id: string, fn: unknown, error: string) => void;
}

export interface Mapping {
  readonly reset: () => void;
  readonly setFreezing: (on: boolean) => void;
  readonly helpersFor: (lib: unknown) => object;
  readonly add: (fn: unknown, helpers: object) => void;
  readonly mapText: (docText: string) => string;
  readonly mapTexts: (docsText: string) => string;
  readonly map: (doc: unknown) => string;
  readonly traceHelpers: (name: string, lib: unknown) => object;
  readonly trace: (fn: unknown, helpers: object, docText: string) => string;
}

export interface Reducing {
  readonly configure: (config: Readonly<Record<string, unknown>>) => void;
  readonly drop: () => void;
  readonly supply: (fn: unknown) => void;
  readonly runCommand: (command: unknown[], lineLength: number, codeSize: number) => string;
  readonly runTexts: (
    rows: string,
    rereduce: boolean,
    lineLength: number,
    codeSize: number,
    context: string,
  ) => string;
  readonly runValues: (values: string) => string;
}

export interface DesignDocs {
  readonly open: (command: unknown[]) => string;
  readonly rootText: () => string;
  readonly helpersFor: () => object;
  readonly supply: (fn: unknown) => void;
  readonly run: (command: unknown[]) => string;
}

export interface Modules {
  /** `require` over a root object with a module cache; `programs` holds the compiled modules by id. */
  readonly make: (
    root: unknown,
    cache: Record<string, unknown>,
    programs: Map<string, ModuleProgram>,
  ) => (name: string) => unknown;
}

export interface ModuleProgram {
  readonly fn: unknown;
  readonly error: string;
}

export interface Mime {
  readonly globals: Readonly<Record<string, unknown>>;
  readonly reset: () => void;
  readonly used: () => boolean;
  readonly contentType: () => string | undefined;
  readonly run: (req: unknown, ddoc: unknown) => unknown;
}

export interface Render {
  readonly globals: Readonly<Record<string, unknown>>;
  readonly handlers: Readonly<
    Record<string, (fn: unknown, ddoc: object, args: unknown[]) => string>
  >;
  readonly connect: (read: () => string | undefined, write: (text: string) => void) => void;
}
