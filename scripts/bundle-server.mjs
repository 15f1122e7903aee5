// Makes one file of `viewmill-server` and its dependencies, dist/bundle/viewserver/program.js, with the licences of what it contains at its end.
// `viewserver/main.ts` says when it runs. usage: node scripts/bundle-server.mjs [DIST]

import { readFile, readdir, writeFile, mkdir } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const dist = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), "../dist"));

/** Node's modules as they are: an import statement copies all that a module exports, and loads what these exports need. */
const builtins = {
  name: "builtins",
  setup(bundling) {
    bundling.onResolve({ filter: /^node:/ }, ({ path }) => ({ path, namespace: "builtin" }));
    bundling.onLoad({ filter: /.*/, namespace: "builtin" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)})`,
    }));
  },
};

async function licenceOf(folder) {
  const name = (await readdir(folder)).find((file) => /^licen[cs]e/i.test(file));
  if (name === undefined) throw new Error(`${folder} has no licence to go along with its code`);
  const text = await readFile(join(folder, name), "utf8");
  return `${basename(folder)}\n\n${text.trim().replaceAll("*/", "* /")}`;
}

const { metafile, outputFiles } = await build({
  entryPoints: [join(dist, "viewserver/program.js")],
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  minify: true,
  plugins: [builtins],
  outfile: join(dist, "bundle/viewserver/program.js"),
  metafile: true,
  write: false,
  logLevel: "warning",
});
const packages = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const folder = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(resolve(input).replaceAll("\\", "/"));
  if (folder !== null) packages.add(folder[0]);
}
const licences = await Promise.all([...packages].map(licenceOf));
for (const { path, text } of outputFiles) {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `${text}/* Contains:\n\n${licences.join("\n\n--\n\n")}\n*/\n`);
}
