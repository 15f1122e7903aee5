// The functions that user code gets as globals (PROTOCOL §15), one set for each function, and what is remembered about each set. Evaluated
// inside the documents' realm.
import type {
  Describe,
  Helpers,
  Limits,
  Logs,
  Mime,
  ModuleProgram,
  Modules,
  Render,
  Slot,
} from "./types.js";

export function createHelpers(
  limits: Limits,
  describe: Describe,
  logs: Logs,
  modules: Modules,
  mime: Mime,
  render: Render,
): Helpers {
  type Value = Record<string, unknown>;
  type Fn = (...args: unknown[]) => unknown;
  const freeze = Object.freeze;
  const keysOf = Object.keys;
  interface Owner {
    readonly slot: Slot;
    readonly programs: Map<string, ModuleProgram>;
  }
  const owners = new WeakMap<object, Owner>();

  const newSlot = (index: number): Slot => ({ rows: [], index, fn: undefined, exceeded: "" });
  const emitInto = (slot: Slot): Fn => {
    const rowsMax = limits.rowsMax;
    return (key, value) => {
      const rows = slot.rows;
      if (rows.length >= rowsMax) {
        slot.exceeded = `emit_limit: a document may emit at most ${rowsMax} rows per function`;
        throw new RangeError(slot.exceeded);
      }
      if (typeof value === "object" && value !== null && describe.isErrorLike(value)) {
        value = { error: (value as Value)["name"], message: (value as Value)["message"] };
      }
      // push, not an index: with frozen prototypes V8 grows an array by index slowly.
      rows.push([key, value]);
    };
  };
  const makeHelpers = (
    slot: Slot,
    emit: Fn,
    root: unknown,
    cache: Record<string, unknown>,
  ): object => {
    const programs = new Map<string, ModuleProgram>();
    const globals: Value = {
      emit,
      log: (value: unknown) => {
        logs.log(slot.index, value);
      },
      ...mime.globals,
      ...render.globals,
      require: root === undefined ? undefined : modules.make(root, cache, programs),
    };
    for (const name of keysOf(globals)) freeze(globals[name]);
    owners.set(globals, { slot, programs });
    return globals;
  };
  return {
    newSlot,
    emitInto,
    make: makeHelpers,
    slotOf: (helpers) => (owners.get(helpers) as Owner).slot,
    supplyModule(helpers, id, fn, error) {
      (owners.get(helpers) as Owner).programs.set(id, { fn, error });
    },
  };
}
