// The process in which `viewmill try` runs user functions: whatever they do, only this process suffers. It answers one request after the
// other over Node's channel to its parent (try-process.ts).

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
  | { readonly kind: "map"; readonly doc: string }
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

const session = new Session();

function load({ lib, maps, reduces }: TryFunctions): CompileFault[] {
  const faults: CompileFault[] = [];
  const check = (kind: CompileFault["kind"], sources: readonly string[]): void => {
    for (const [index, source] of sources.entries()) {
      const error = session.compileCheck(source);
      if (error) faults.push({ kind, index, error });
    }
  };
  check("map", maps);
  check("reduce", reduces);
  session.handle('["reset"]');
  if (lib !== undefined) session.handle(`["add_lib",${lib}]`);
  for (const [index, source] of maps.entries()) {
    if (faults.some((fault) => fault.kind === "map" && fault.index === index)) continue;
    const { output } = session.handle(JSON.stringify(["add_fun", source]));
    const reply = JSON.parse(output.trimEnd().split("\n").at(-1) ?? "null") as unknown;
    if (Array.isArray(reply))
      faults.push({ kind: "map", index, error: { message: String(reply[2]) } });
  }
  return faults;
}

function answer(request: TryRequest): TryReply {
  switch (request.kind) {
    case "load":
      return { kind: "load", faults: load(request.functions) };
    case "map": {
      const reply = session.mapDocument(request.doc);
      return { kind: "map", reply, logs: session.takeLogs(request.doc) };
    }
    case "reduce":
      return {
        kind: "reduce",
        ...session.reduce(request.sources, request.rows),
        logs: session.takeLogs(),
      };
    case "rereduce":
      return {
        kind: "reduce",
        ...session.rereduce(request.source, request.values),
        logs: session.takeLogs(),
      };
  }
}

process.on("message", (request: TryRequest) => {
  process.send?.(answer(request));
});
process.on("disconnect", () => {
  process.exit();
});
