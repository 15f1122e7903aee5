// CommonJS `require` over a tree of strings (PROTOCOL §16). The modules were compiled in the user's realm beforehand; here are only the
// walk along the path, the cache, and the placeholder that ends a cycle. Evaluated inside the documents' realm.
import type { Describe, ModuleProgram, Modules } from "./types.js";

interface Place {
  id?: string;
  current: unknown;
  parent?: Place | undefined;
  exports?: unknown;
}

export function createModules(describe: Describe): Modules {
  const hasOwn = Object.hasOwn;
  const apply = Reflect.apply as (f: unknown, self: unknown, args: unknown[]) => unknown;

  // An array, because the reply handler prints thrown arrays that start with "error" as they are.
  const refuse = (reason: string): never => {
    describe.raise(["error", "invalid_require_path", reason]);
  };

  const resolve = (names: string[], from: Place, root: unknown): Place => {
    let place = from;
    let walkFrom = root;
    for (const name of names) {
      if (name === "..") {
        const parent = place.parent;
        if (parent?.parent === undefined)
          refuse(`Object has no parent ${describe.json(place.current)}`);
        const up = parent as Place;
        const id = place.id ?? "";
        place = {
          id: id.slice(0, Math.max(0, id.lastIndexOf("/"))),
          parent: up.parent,
          current: up.current,
        };
      } else if (name === ".") {
        if (place.parent === undefined)
          refuse(`Object has no parent ${describe.json(place.current)}`);
      } else {
        if (walkFrom !== undefined) place = { current: walkFrom };
        const current = place.current;
        if (current === null || current === undefined)
          throw new TypeError(`cannot read "${name}" of ${describe.text(current)}`);
        const next =
          typeof current === "object"
            ? hasOwn(current, name)
              ? (current as Record<string, unknown>)[name]
              : undefined
            : (current as Record<string, unknown>)[name];
        if (next === undefined)
          refuse(`Object has no property "${name}". ${describe.json(current)}`);
        place = { current: next, parent: place, id: place.id ? `${place.id}/${name}` : name };
      }
      walkFrom = undefined;
    }
    if (typeof place.current !== "string")
      refuse(`Must require a JavaScript string, not: ${typeof place.current}`);
    return { current: place.current, parent: place.parent, id: place.id ?? "", exports: {} };
  };

  return {
    make(root, cache, programs) {
      const run = (module: Place, program: ModuleProgram | undefined): void => {
        if (program === undefined)
          throw new Error("the module was not found when the function was compiled");
        if (program.error !== "") throw new Error(program.error);
        apply(program.fn, undefined, [
          module,
          module.exports,
          (name: string) => load(name, module),
        ]);
      };
      const load = (name: string, from: Place | undefined): unknown => {
        const names = name.split("/");
        const first = names[0];
        const relative = first === "." || first === "..";
        if (relative && from?.parent === undefined)
          throw new TypeError(`require("${name}"): a relative path needs a module around it`);
        const found = resolve(
          names,
          relative ? ((from as Place).parent as Place) : { current: root },
          relative ? undefined : root,
        );
        const id = found.id as string;
        if (!hasOwn(cache, id)) {
          // Whoever requires it while it runs gets this object, which is never filled.
          cache[id] = {};
          try {
            run(found, programs.get(id));
          } catch (e) {
            Reflect.deleteProperty(cache, id);
            describe.raise([
              "error",
              "compilation_error",
              `Module require('${name}') raised error ${describe.text(e)}`,
            ]);
          }
          cache[id] = found.exports;
        }
        return cache[id];
      };
      return (name) => load(describe.text(name), undefined);
    },
  };
}
