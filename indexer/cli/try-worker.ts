// The thread in which `viewmill try` runs user functions, inside a process of its own (try-child.ts).

import { parentPort } from "node:worker_threads";

import { Session, type CompileError, type LogLine } from "../../viewserver/index.js";

export interface TryFunctions {
  /** `views.lib` as JSON. */
  readonly lib: string | undefined;
  readonly maps: readonly string[];
  /** JavaScript reduces. */
  readonly reduces: readonly string[];
}

export type TryRequest =
  | { readonly kind: "load"; readonly functions: TryFunctions }
  /** `only`: index into `maps`, to run that function alone. */
  | { readonly kind: "map"; readonly doc: string; readonly only?: number }
  | { readonly kind: "reduce"; readonly sources: readonly string[]; readonly rows: string }
  | { readonly kind: "rereduce"; readonly source: string; readonly values: string };

export interface CompileFault {
  readonly kind: "map" | "reduce";
  /** Index into `maps` or `reduces`. */
  readonly index: number;
  readonly error: CompileError;
}

export type TryReply =
  | { readonly kind: "load"; readonly faults: readonly CompileFault[] }
  | { readonly kind: "map"; readonly reply: string; readonly logs: readonly LogLine[] }
  | {
      readonly kind: "reduce";
      readonly results: readonly string[];
      readonly error?: { readonly id: string; readonly reason: string };
      readonly logs: readonly LogLine[];
    };

/** Keeps the number of a function that does not compile. */
const NOTHING = "function (doc) {}";

const session = new Session();
let loaded: TryFunctions | undefined;

function addFunction(to: Session, source: string): string | undefined {
  const { output } = to.handle(JSON.stringify(["add_fun", source]));
  const reply = JSON.parse(output.trimEnd().split("\n").at(-1) ?? "null") as unknown;
  return Array.isArray(reply) ? String(reply[2]) : undefined;
}

function load(functions: TryFunctions): CompileFault[] {
  const { lib, maps, reduces } = functions;
  loaded = functions;
  const faults: CompileFault[] = [];
  for (const [index, source] of reduces.entries()) {
    const error = session.compileCheck(source);
    if (error) faults.push({ kind: "reduce", index, error });
  }
  session.handle('["reset"]');
  if (lib !== undefined) session.handle(`["add_lib",${lib}]`);
  for (const [index, source] of maps.entries()) {
    const refused = addFunction(session, source);
    if (refused === undefined) continue;
    addFunction(session, NOTHING);
    faults.push({
      kind: "map",
      index,
      error: session.compileCheck(source) ?? { message: refused },
    });
  }
  return faults;
}

/** A session with one of the map functions. */
function alone(only: number): Session {
  const single = new Session();
  single.handle('["reset"]');
  if (loaded?.lib !== undefined) single.handle(`["add_lib",${loaded.lib}]`);
  addFunction(single, loaded?.maps[only] ?? NOTHING);
  return single;
}

interface Call {
  readonly keys: readonly unknown[] | null;
  readonly values: readonly unknown[];
  readonly rereduce: boolean;
}

/** Exceptions of reduces with their stacks: the function is called once more as part of a map function, whose stack can be told. */
function withStacks(logs: readonly LogLine[], sources: readonly string[], call: Call): LogLine[] {
  return logs.map((line) => {
    const source = sources[line.fn];
    if (line.kind !== "exception" || source === undefined) return line;
    const stack = stackOf(source, JSON.stringify(call), line);
    return stack === undefined ? line : { ...line, stack };
  });
}

function stackOf(
  source: string,
  call: string,
  seen: LogLine & { kind: "exception" },
): string | undefined {
  const tracing = new Session();
  try {
    tracing.handle('["reset"]');
    const caller = `function (call) { return (\n${source}\n)(call.keys, call.values, call.rereduce); }`;
    if (addFunction(tracing, caller) !== undefined) return undefined;
    tracing.mapDocument(call);
    const found = tracing.takeLogs(call).find((line) => line.kind === "exception");
    if (found?.kind !== "exception" || found.name !== seen.name || found.message !== seen.message)
      return undefined;
    // The source begins on the caller's second line.
    const frames = (found.stack ?? "")
      .split("\n")
      .map((frame) => frame.replace(/\((\d+):/, (_, row) => `(${Number(row) - 1}:`));
    return frames.filter((frame) => !frame.includes("(0:")).join("\n");
  } finally {
    tracing.dispose();
  }
}

function answer(request: TryRequest): TryReply {
  switch (request.kind) {
    case "load":
      return { kind: "load", faults: load(request.functions) };
    case "map": {
      const to = request.only === undefined ? session : alone(request.only);
      const reply = to.mapDocument(request.doc);
      const logs = to.takeLogs(request.doc);
      if (to !== session) to.dispose();
      return { kind: "map", reply, logs };
    }
    case "reduce": {
      const { sources, rows } = request;
      const reply = session.reduce(sources, rows);
      const pairs = JSON.parse(rows) as [unknown, unknown][];
      const call = {
        keys: pairs.map(([key]) => key),
        values: pairs.map(([, value]) => value),
        rereduce: false,
      };
      return { kind: "reduce", ...reply, logs: withStacks(session.takeLogs(), sources, call) };
    }
    case "rereduce": {
      const { source, values } = request;
      const reply = session.rereduce(source, values);
      const call = { keys: null, values: JSON.parse(values) as unknown[], rereduce: true };
      return { kind: "reduce", ...reply, logs: withStacks(session.takeLogs(), [source], call) };
    }
  }
}

parentPort?.on("message", (request: TryRequest) => {
  parentPort?.postMessage(answer(request));
});
