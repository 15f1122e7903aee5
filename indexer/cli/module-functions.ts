// Map and reduce functions of a design document that is written as one module. A function's text is enough where it uses nothing around
// it. Where it uses imports, constants or functions of its module, it is bundled with these, and with nothing else of the module: what
// the module does when it is loaded need not be possible in a view.

import { dirname, join } from "node:path";

import { originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";

import { BlankedText } from "./blanked-text.js";
import { bundle, FUNCTION_BUNDLE, functionOfBundle, unreadable } from "./bundling.js";
import { ModuleScope, type ModuleFunction, type OuterNames } from "./module-scope.js";
import type { SourceOrigins } from "./try-origins.js";

/** A module's code as it was evaluated. */
export interface EvaluatedModule {
  readonly code: string;
  /** From the code to its author's files; undefined where the code is the author's file. */
  readonly map: string | undefined;
  /** The design document it exports. */
  readonly value: unknown;
}

type Json = Record<string, unknown>;

const ROLES = ["map", "reduce"] as const;

/** Names that are the view's own, whatever a module calls so: without them no row leaves the function, and no module is found. */
const OF_VIEWS: ReadonlySet<string> = new Set([
  "emit",
  "require",
  "provides",
  "registerType",
  "start",
  "send",
  "getRow",
]);

/** How esbuild writes `require` in a module. */
const REQUIRE_SHIM = "__require";

interface Site {
  readonly view: string;
  readonly role: (typeof ROLES)[number];
  readonly fn: object;
}

/**
 * The module's design document, with the functions that use anything of their module as bundled sources.
 * @param flat - gives the module and the files it imports as one module.
 * @throws IndexerError `INDEXER_DDOC_UNREADABLE` where a function uses what cannot be taken along.
 */
export async function bundleFunctions(
  path: string,
  module: EvaluatedModule,
  flat: () => Promise<EvaluatedModule>,
  origins: SourceOrigins | undefined,
): Promise<unknown> {
  const sites = sitesOf(module.value);
  const scope = sites.length > 0 ? scopeOf(module.code) : undefined;
  const needy = scope ? sites.filter((site) => needsModule(path, module, scope, site)) : [];
  if (needy.length === 0) return module.value;
  const whole = module.map === undefined ? await flat() : module;
  const bundler = new FunctionBundler(path, whole, origins);
  const sources = new Map<object, string>();
  for (const site of needy) {
    const twin = sitesOf(whole.value).find(
      ({ view, role }) => view === site.view && role === site.role,
    );
    const source = twin && (await bundler.source(twin));
    if (source !== undefined) sources.set(site.fn, source);
  }
  return withSources(module.value as Json, sources);
}

/** Undefined for syntax that Node knows and the parser does not: functions are their own text then. */
function scopeOf(code: string): ModuleScope | undefined {
  try {
    return new ModuleScope(code);
  } catch {
    return undefined;
  }
}

function sitesOf(design: unknown): Site[] {
  const views = Object((design as Json | null)?.["views"]) as Json;
  return Object.entries(views).flatMap(([view, functions]) =>
    ROLES.flatMap((role) => {
      const fn = (Object(functions) as Json)[role];
      return typeof fn === "function" ? [{ view, role, fn }] : [];
    }),
  );
}

function withSources(design: Json, sources: ReadonlyMap<object, string>): Json {
  const views = Object.entries(design["views"] as Json).map(([name, view]) => [
    name,
    Object.fromEntries(
      Object.entries(view as Json).map(([role, fn]) => [role, sources.get(fn as object) ?? fn]),
    ),
  ]);
  return { ...design, views: Object.fromEntries(views) as Json };
}

/** Whether the function uses more than its own text. One that is not found in the code was made elsewhere: it may. */
function needsModule(
  path: string,
  module: EvaluatedModule,
  scope: ModuleScope,
  site: Site,
): boolean {
  const found = scope.find(Function.prototype.toString.call(site.fn));
  const [fn] = found;
  if (fn === undefined) return module.map === undefined;
  const names = scope.outerNames(fn);
  refuseEnclosed(path, module, site, fn, names);
  return [...names.ofModule].some((name) => !OF_VIEWS.has(name));
}

function refuseEnclosed(
  path: string,
  module: EvaluatedModule,
  { view, role }: Site,
  fn: ModuleFunction,
  { ofEnclosing }: OuterNames,
): void {
  const [name] = [...ofEnclosing].filter((one) => !OF_VIEWS.has(one));
  if (name === undefined) return;
  const commonJs = module.code.includes("__commonJS(");
  throw unreadable(
    path,
    `view ${view}: its ${role} function (${authorLine(path, module, fn)}) uses "${name}", ` +
      (commonJs
        ? "which a view cannot take along from a CommonJS module. Write the design document as an ES module (.mjs)"
        : "a variable of a function or block around it, whose value a view cannot take along. Make it a constant at the top of the module") +
      `, or write the function into a file of its own: a folder with views/${view}/${role}.js`,
  );
}

function authorLine(path: string, { code, map }: EvaluatedModule, fn: ModuleFunction): string {
  if (map === undefined) return `line ${fn.line}`;
  const { source, line } = originalPositionFor(new TraceMap(map), placeOf(code, fn.start));
  return source === null
    ? "made while the module was loaded"
    : `${join(dirname(path), source)}:${line}`;
}

/** As source maps count: lines from 1, columns from 0. */
function placeOf(code: string, offset: number): { line: number; column: number } {
  const before = code.slice(0, offset).split("\n");
  return { line: before.length, column: (before.at(-1) ?? "").length };
}

/** Bundles functions of one flat module. */
class FunctionBundler {
  readonly #path: string;
  readonly #module: EvaluatedModule;
  readonly #origins: SourceOrigins | undefined;
  readonly #scope: ModuleScope;
  /** What names of views are called in the flat module, where esbuild gave them another name. */
  readonly #aliases: ReadonlyMap<string, string>;

  constructor(path: string, module: EvaluatedModule, origins: SourceOrigins | undefined) {
    this.#path = path;
    this.#module = module;
    this.#origins = origins;
    this.#scope = new ModuleScope(module.code);
    this.#aliases = this.#findAliases();
  }

  #findAliases(): Map<string, string> {
    const { code, map } = this.#module;
    const aliases = new Map<string, string>();
    if (code.includes(`var ${REQUIRE_SHIM} = /* @__PURE__ */`))
      aliases.set(REQUIRE_SHIM, "require");
    const trace = new TraceMap(map ?? "{}");
    for (const own of OF_VIEWS)
      for (let n = 2; this.#scope.mentions(`${own}${n}`); n++) {
        const [use = 0] = this.#scope.uses(`${own}${n}`);
        if (originalPositionFor(trace, placeOf(code, use)).name === own)
          aliases.set(`${own}${n}`, own);
      }
    return aliases;
  }

  /** Undefined when the function uses nothing of the module, or is not to be found in it. */
  async source(site: Site): Promise<string | undefined> {
    const { view, role } = site;
    const [fn] = this.#scope.find(Function.prototype.toString.call(site.fn));
    if (fn === undefined) return undefined;
    const names = this.#scope.outerNames(fn);
    refuseEnclosed(this.#path, this.#module, site, fn, names);
    if (![...names.ofModule].some((name) => !OF_VIEWS.has(name))) return undefined;
    const contents = this.#moduleOf(fn, names, role);
    try {
      // The name of the file stands in the code, and must be the same in each process.
      const stdin = { contents, resolveDir: dirname(this.#path), sourcefile: `${view}.${role}.js` };
      const outfile = `${this.#path}.bundle.js`;
      return functionOfBundle(
        await bundle(this.#path, outfile, { ...FUNCTION_BUNDLE, stdin }, this.#origins),
      );
    } catch (error) {
      const [told] = (error as { errors?: readonly { readonly text: string }[] }).errors ?? [];
      // Without its cause: that tells places in what was made here.
      throw unreadable(
        this.#path,
        `view ${view}: its ${role} function uses ${[...names.ofModule].join(", ")}, which cannot be taken along: ` +
          `${told?.text ?? (error as Error).message}. A view has no files and no network: what it needs of them must stand in the ` +
          "module, or in a JSON file that it imports",
      );
    }
  }

  /** The module with nothing in it but the function, as default export, and what it needs, each where it was. */
  #moduleOf(fn: ModuleFunction, names: OuterNames, role: string): string {
    const scope = this.#scope;
    const { code, map } = this.#module;
    const needed = [...names.ofModule, ...(fn.binding === undefined ? [] : [fn.binding])];
    const kept = scope.closure(needed, new Set([...OF_VIEWS, ...this.#aliases.keys()]));
    const text = new BlankedText(code);
    const from = fn.parameters ?? fn.start;
    for (const { start, end } of [...kept, { start: from, end: fn.end }]) text.keep(start, end);
    for (const [alias, own] of this.#aliases)
      for (const at of scope.uses(alias)) text.rename(at, alias, own);
    let name = fn.binding ?? role;
    let declaration = "";
    if (fn.binding === undefined) {
      while (scope.mentions(name)) name += "_";
      const own = scope.statementOf(fn);
      const prefix = fn.parameters === undefined ? "" : "function";
      const shared = kept.some(({ start }) => start === own.start);
      declaration = text.assign(own, from, fn.end, `${name}=${prefix}`, shared)
        ? `var ${name};`
        : `var ${name} = ${prefix} ${text.take(from, fn.end, shared)};`;
    }
    const mapped = Buffer.from(map ?? "").toString("base64");
    return `${text.toString()}\n${declaration}\nexport { ${name} as default };\n//# sourceMappingURL=data:application/json;base64,${mapped}\n`;
  }
}
