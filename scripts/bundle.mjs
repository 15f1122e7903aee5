// Joins the compiled modules of the program, of the mapping threads and of the answering processes into a few files each, in dist/bundle/: Node takes about a
// millisecond to find and read a module, and there are two hundred. `indexer/start-file.ts` says when these files are started.

import { readFile, rm } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const outdir = join(root, "dist/bundle");

/** A module that asks where it lies gets the answer it would get in a file of its own. */
const ownUrls = {
  name: "own-urls",
  setup(bundling) {
    bundling.onLoad({ filter: /\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      // All files of a bundle lie one folder below `outdir`.
      const from = relative(join(outdir, "any"), path).replaceAll("\\", "/");
      const url = `new URL(${JSON.stringify(from)}, import.meta.url).href`;
      return { contents: text.replaceAll("import.meta.url", url), loader: "js" };
    });
  },
};

const options = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  packages: "external",
  outdir,
  outbase: join(root, "dist/indexer"),
  plugins: [ownUrls],
  logLevel: "warning",
};

await rm(outdir, { recursive: true, force: true });
await build({ ...options, entryPoints: ["dist/indexer/mapping/worker.js"] });
await build({ ...options, entryPoints: ["dist/indexer/http/reader-main.js"] });
// What a command does is loaded when it runs: that takes files of its own.
await build({
  ...options,
  entryPoints: ["dist/indexer/cli/program.js"],
  splitting: true,
  chunkNames: "parts/[name]-[hash]",
});
