// Design documents from files: JSON, a JavaScript or TypeScript module that exports one, or a folder `views/NAME/{map,reduce}.js`.
// A module runs as it is: it is its author's own program. Functions in it become the sources of views.

import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { basename, extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { build } from "esbuild";

import { IndexerError } from "../errors.js";

type Json = Record<string, unknown>;

const SOURCE_NAMES = [".js", ".mjs", ".ts"];

function unreadable(path: string, why: string, cause?: unknown): IndexerError {
  return new IndexerError("INDEXER_DDOC_UNREADABLE", `--ddoc ${path}: ${why}`, { file: path }, { cause });
}

/** `orders.ddoc.mjs` → `orders`. */
function nameOf(path: string): string {
  return basename(path).replace(/(\.ddoc)?\.[^.]+$/, "");
}

/** @throws IndexerError `INDEXER_DDOC_UNREADABLE` saying what is wrong with the file. */
export async function loadDesignFile(path: string): Promise<object> {
  const full = resolve(path);
  if (!existsSync(full)) throw unreadable(path, "there is no such file or folder");
  let loaded: unknown;
  if (statSync(full).isDirectory()) loaded = await fromFolder(full);
  else if (extname(full) === ".json") loaded = fromJson(full);
  else if ([".js", ".mjs", ".cjs", ".ts", ".mts"].includes(extname(full))) loaded = await fromModule(full);
  else throw unreadable(path, "expected .json, .js, .mjs, .cjs, .ts, .mts or a folder");
  if (typeof loaded !== "object" || loaded === null || Array.isArray(loaded))
    throw unreadable(path, "expected a design document: an object with views");
  const document = sourcesOf(loaded as Json);
  const id = document["_id"] ?? nameOf(full);
  if (typeof id !== "string") throw unreadable(path, "_id must be a string");
  return { ...document, _id: id.startsWith("_design/") ? id : `_design/${id}` };
}

function fromJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw unreadable(path, `not JSON (${(error as Error).message})`, error);
  }
}

async function fromModule(path: string): Promise<unknown> {
  try {
    const typescript = /\.m?ts$/.test(path);
    const file = typescript ? await compiled(path) : path;
    try {
      const module = (await import(`${pathToFileURL(file).href}?${statSync(path).mtimeMs}`)) as Json;
      return module["default"] ?? module["ddoc"] ?? module;
    } finally {
      if (typescript) rmSync(file, { force: true });
    }
  } catch (error) {
    throw unreadable(path, `cannot be loaded: ${(error as Error).message}`, error);
  }
}

/** The module as JavaScript beside its source, so that its imports resolve; removed after loading. */
async function compiled(path: string): Promise<string> {
  const outfile = join(path, "..", `.${nameOf(path)}.${process.pid}.mjs`);
  await build({
    entryPoints: [path],
    outfile,
    bundle: true,
    packages: "external",
    format: "esm",
    platform: "node",
    logLevel: "silent",
  });
  return outfile;
}

async function fromFolder(folder: string): Promise<Json> {
  const base = join(folder, "views");
  if (!existsSync(base)) throw unreadable(folder, "the folder has no views/ in it");
  const views: Json = {};
  for (const name of readdirSync(base).sort()) {
    const map = await functionFile(join(base, name), "map");
    if (map === undefined) throw unreadable(folder, `views/${name} has no map.js`);
    const reduce = await functionFile(join(base, name), "reduce");
    views[name] = { map, ...(reduce === undefined ? {} : { reduce }) };
  }
  return { _id: basename(folder), views };
}

async function functionFile(folder: string, name: string): Promise<string | undefined> {
  const path = [...SOURCE_NAMES, ""].map((end) => join(folder, name + end)).find((candidate) => existsSync(candidate));
  if (path === undefined) return undefined;
  const text = readFileSync(path, "utf8");
  return path.endsWith(".ts") || /^\s*(export|import)\b/m.test(text) ? bundled(path) : text.trim();
}

/** A module whose default export is the function, with what it imports, as one expression. */
async function bundled(path: string): Promise<string> {
  try {
    const { outputFiles } = await build({
      entryPoints: [path],
      bundle: true,
      write: false,
      format: "iife",
      globalName: "viewModule",
      target: "es2022",
      logLevel: "silent",
    });
    const code = outputFiles[0]?.text ?? "";
    return `(function () {\n${code}\nreturn viewModule.default;\n})()`;
  } catch (error) {
    throw unreadable(path, (error as Error).message, error);
  }
}

/** Functions become their source texts, at any depth. */
function sourcesOf(value: Json): Json {
  const convert = (member: unknown): unknown => {
    if (typeof member === "function") return Function.prototype.toString.call(member);
    if (Array.isArray(member)) return member.map(convert);
    if (typeof member === "object" && member !== null) return sourcesOf(member as Json);
    return member;
  };
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, convert(member)]));
}
