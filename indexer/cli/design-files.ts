// Design documents from files: JSON, a JavaScript or TypeScript module that exports one, or a folder `views/NAME/{map,reduce}.js`.
// A module runs as it is: it is its author's own program. Functions in it become the sources of views, with what they use of the module.

import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { bundle, FUNCTION_BUNDLE, functionOfBundle, unreadable } from "./bundling.js";
import type { EvaluatedModule } from "./module-functions.js";
import { METHOD_PREFIX, type SourceOrigins } from "./try-origins.js";

type Json = Record<string, unknown>;

const SOURCE_NAMES = [".js", ".mjs", ".ts"];

/** `orders.ddoc.mjs` → `orders`. */
function nameOf(path: string): string {
  return basename(path).replace(/(\.ddoc)?\.[^.]+$/, "");
}

/**
 * @param origins - is told where the functions come from.
 * @throws IndexerError `INDEXER_DDOC_UNREADABLE` saying what is wrong with the file.
 */
export async function loadDesignFile(path: string, origins?: SourceOrigins): Promise<object> {
  const full = resolve(path);
  if (!existsSync(full)) throw unreadable(path, "there is no such file or folder");
  let loaded: unknown;
  if (statSync(full).isDirectory()) loaded = await fromFolder(full, origins);
  else if (extname(full) === ".json") loaded = fromJson(full, origins);
  else if ([".js", ".mjs", ".cjs", ".ts", ".mts"].includes(extname(full)))
    loaded = await fromModule(full, origins);
  else throw unreadable(path, "expected .json, .js, .mjs, .cjs, .ts, .mts or a folder");
  if (typeof loaded !== "object" || loaded === null || Array.isArray(loaded))
    throw unreadable(path, "expected a design document: an object with views");
  const document = sourcesOf(loaded as Json);
  const id = document["_id"] ?? nameOf(full);
  if (typeof id !== "string") throw unreadable(path, "_id must be a string");
  return { ...document, _id: id.startsWith("_design/") ? id : `_design/${id}` };
}

function fromJson(path: string, origins: SourceOrigins | undefined): unknown {
  origins?.files.add(path);
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw unreadable(path, `not JSON (${(error as Error).message})`, error);
  }
}

/**
 * The default export of a JavaScript or TypeScript module (or its export `ddoc`, or all its exports).
 * @throws IndexerError `INDEXER_DDOC_UNREADABLE`
 */
export async function importFile(path: string, origins?: SourceOrigins): Promise<unknown> {
  return (await loadModule(path, origins)).value;
}

/** A design document as a module; map and reduce functions that use anything of their module are bundled with it. */
async function fromModule(path: string, origins: SourceOrigins | undefined): Promise<unknown> {
  const module = await loadModule(path, origins);
  // Only modules need it, and the parser behind it.
  const { bundleFunctions } = await import("./module-functions.js");
  return bundleFunctions(path, module, () => flatModule(path, origins), origins);
}

async function loadModule(
  path: string,
  origins: SourceOrigins | undefined,
): Promise<EvaluatedModule> {
  if (/\.m?ts$/.test(path)) return flatModule(path, origins);
  try {
    const code = readFileSync(path, "utf8");
    origins?.addText(path, code);
    return { code, map: undefined, value: await evaluate(path, path) };
  } catch (error) {
    throw unreadable(path, `cannot be loaded: ${(error as Error).message}`, error);
  }
}

/** The module and the files it imports as one module, evaluated beside its source, so that packages are found. */
async function flatModule(
  path: string,
  origins: SourceOrigins | undefined,
): Promise<EvaluatedModule> {
  const outfile = join(dirname(path), `.${nameOf(path)}.${process.pid}.mjs`);
  try {
    const { code, map } = await bundle(
      path,
      outfile,
      { packages: "external", format: "esm", platform: "node" },
      origins,
    );
    writeFileSync(outfile, code);
    return { code, map, value: await evaluate(outfile, path) };
  } catch (error) {
    throw unreadable(path, `cannot be loaded: ${(error as Error).message}`, error);
  } finally {
    rmSync(outfile, { force: true });
  }
}

async function evaluate(file: string, path: string): Promise<unknown> {
  const module = (await import(`${pathToFileURL(file).href}?${statSync(path).mtimeMs}`)) as Json;
  return module["default"] ?? module["ddoc"] ?? module;
}

async function fromFolder(folder: string, origins: SourceOrigins | undefined): Promise<Json> {
  const base = join(folder, "views");
  if (!existsSync(base)) throw unreadable(folder, "the folder has no views/ in it");
  const views: Json = {};
  const names = readdirSync(base, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith("."))
    .map(({ name }) => name)
    .sort();
  for (const folder of [base, ...names.map((name) => join(base, name))])
    origins?.folders.add(folder);
  for (const name of names) {
    const map = await functionFile(join(base, name), "map", origins);
    if (map === undefined && name === "lib") {
      views[name] = libraryOf(join(base, name), origins);
      continue;
    }
    if (map === undefined) throw unreadable(folder, `views/${name} has no map.js`);
    const reduce = await functionFile(join(base, name), "reduce", origins);
    views[name] = { map, ...(reduce === undefined ? {} : { reduce }) };
  }
  return { _id: basename(folder), views };
}

/** CommonJS modules for `require("views/lib/…")`: the texts of .js files, by their names without the ending. */
function libraryOf(folder: string, origins: SourceOrigins | undefined): Json {
  const modules: Json = {};
  origins?.folders.add(folder);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) modules[entry.name] = libraryOf(path, origins);
    else if (extname(entry.name) === ".js")
      modules[basename(entry.name, ".js")] = readFileSync(path, "utf8");
  }
  return modules;
}

async function functionFile(
  folder: string,
  name: string,
  origins: SourceOrigins | undefined,
): Promise<string | undefined> {
  const path = [...SOURCE_NAMES, ""]
    .map((end) => join(folder, name + end))
    .find((candidate) => existsSync(candidate));
  if (path === undefined) return undefined;
  const text = readFileSync(path, "utf8");
  if (path.endsWith(".ts") || /^\s*(export|import)\b/m.test(text)) return bundled(path, origins);
  origins?.addText(path, text);
  return text.trim();
}

/** A module whose default export is the function, with what it imports, as one expression. */
async function bundled(path: string, origins: SourceOrigins | undefined): Promise<string> {
  try {
    return functionOfBundle(await bundle(path, `${path}.bundle.js`, FUNCTION_BUNDLE, origins));
  } catch (error) {
    throw unreadable(path, (error as Error).message, error);
  }
}

/** A function's text; a method `map(doc) {…}` becomes a function expression. */
function sourceOf(member: object): string {
  const text = Function.prototype.toString.call(member);
  const [name] =
    /^(?!function\b|class\b|async\b|get\b|set\b)[\p{ID_Start}$_][\p{ID_Continue}$]*(?=\s*\()/u.exec(
      text,
    ) ?? [];
  return name === undefined ? text : `${METHOD_PREFIX}${text.slice(name.length)}`;
}

/** Functions become their source texts, at any depth. */
function sourcesOf(value: Json): Json {
  const convert = (member: unknown): unknown => {
    if (typeof member === "function") return sourceOf(member);
    if (Array.isArray(member)) return member.map(convert);
    if (typeof member === "object" && member !== null) return sourcesOf(member as Json);
    return member;
  };
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, convert(member)]));
}
