// Bundles code that people write for views (esbuild), with source maps.

import { dirname } from "node:path";

import type { BuildOptions } from "esbuild";

import { IndexerError } from "../errors.js";
import type { SourceOrigins } from "./try-origins.js";

export function unreadable(path: string, why: string, cause?: unknown): IndexerError {
  return new IndexerError(
    "INDEXER_DDOC_UNREADABLE",
    `--ddoc ${path}: ${why}`,
    { file: path },
    { cause },
  );
}

export interface Bundle {
  readonly code: string;
  /** Source map, version 3; its sources are relative to the folder of the output. */
  readonly map: string;
}

/**
 * Bundled code. It holds no path that depends on the current folder, or the same views would not be the same everywhere.
 * @param path - the author's file.
 * @param outfile - where the code would lie.
 * @param options - with an `stdin` it is the code to start from, in place of the file.
 */
export async function bundle(
  path: string,
  outfile: string,
  options: BuildOptions,
  origins: SourceOrigins | undefined,
): Promise<Bundle> {
  const { outputFiles } = await (
    await import("esbuild")
  ).build({
    ...(options.stdin ? {} : { entryPoints: [path] }),
    ...options,
    absWorkingDir: dirname(path),
    outfile,
    bundle: true,
    write: false,
    sourcemap: "external",
    logLevel: "silent",
  });
  const textOf = (isMap: boolean): string =>
    outputFiles.find((file) => file.path.endsWith(".map") === isMap)?.text ?? "";
  const bundled = { code: textOf(false), map: textOf(true) };
  origins?.addBundle(path, bundled.code, bundled.map, dirname(outfile));
  return bundled;
}

/** What makes a function of a module's default export an expression of its own, with what it imports. */
export const FUNCTION_BUNDLE: BuildOptions = {
  format: "iife",
  globalName: "viewModule",
  target: "es2022",
  external: ["views/lib/*"],
};

/** The source of a view's function, from the code of a bundle made with {@link FUNCTION_BUNDLE}. */
export function functionOfBundle({ code }: Bundle): string {
  return `(function () {\n${code}\nreturn viewModule.default;\n})()`;
}
