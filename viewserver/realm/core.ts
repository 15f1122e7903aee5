// The inner half of a Session: parses commands and documents with intrinsics no user code has touched, and hands them to its parts.
// Evaluated from source text in the documents' realm, whose intrinsics are frozen afterwards; so it may refer only to its parameters.
import type {
  Core,
  DesignDocs,
  Describe,
  Helpers,
  Logs,
  Mapping,
  Reducing,
  Render,
  Replies,
} from "./types.js";

export function createCore(
  describe: Describe,
  logs: Logs,
  replies: Replies,
  helpers: Helpers,
  render: Render,
  mapping: Mapping,
  reducing: Reducing,
  ddocs: DesignDocs,
): Core {
  const parse = JSON.parse;
  const stringify = JSON.stringify as (value: unknown) => string;
  const isArray = Array.isArray;
  let lib: unknown = null;
  let opened: unknown;
  const command = (): unknown[] => opened as unknown[];

  return {
    takeFatal: replies.takeFatal,
    quiet: () => !logs.pending() && !replies.isFatal(),
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
          return '["ddoc"]';
        default:
          return stringify(c);
      }
    },
    reset() {
      lib = null;
      mapping.reset();
      const given = command()[1];
      reducing.configure(
        typeof given === "object" && given !== null ? (given as Record<string, unknown>) : {},
      );
    },
    addLib() {
      lib = command()[1] ?? null;
    },
    setConfig(json) {
      reducing.configure(parse(json) as Record<string, unknown>);
    },
    setFreezing: mapping.setFreezing,
    mapHelpers: () => mapping.helpersFor(lib),
    addMap: mapping.add,
    mapText: mapping.mapText,
    mapTexts: mapping.mapTexts,
    mapOpened: () => mapping.map(command()[1]),
    traceHelpers: (name) => mapping.traceHelpers(name, lib),
    trace: mapping.trace,
    // Nothing reads what a reduce function emits; the function exists so that a stray call does no harm.
    reduceHelpers: () => helpers.make(helpers.newSlot(-1), () => undefined, undefined, {}),
    dropReduces: reducing.drop,
    supplyReduce: reducing.supply,
    runReduceOpened: (lineLength, codeSize) => reducing.runCommand(command(), lineLength, codeSize),
    runReduceTexts: reducing.runTexts,
    runReduceValues: reducing.runValues,
    ddocOpen: () => ddocs.open(command()),
    ddocRoot: ddocs.rootText,
    ddocHelpers: ddocs.helpersFor,
    ddocSupply: ddocs.supply,
    ddocRun: () => ddocs.run(command()),
    libText: () => describe.json({ views: { lib } }),
    supplyModule: helpers.supplyModule,
    describe: describe.text,
    logLines: logs.lines,
    hasLogs: logs.pending,
    takeLogs: logs.take,
    connect: render.connect,
  };
}
