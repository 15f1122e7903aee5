// Compiles kernels/assembly/ to dist/kernels/kernels.wasm, unless that is newer than what it is made of.

import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, "dist/kernels/kernels.wasm");
const sources = [
  fileURLToPath(import.meta.url),
  join(root, "kernels/revision.ts"),
  ...(await readdir(join(root, "kernels/assembly"))).map((name) =>
    join(root, "kernels/assembly", name),
  ),
];

async function writtenAt(file) {
  return (await stat(file).catch(() => undefined))?.mtimeMs ?? 0;
}

const newest = Math.max(...(await Promise.all(sources.map(writtenAt))));
if ((await writtenAt(target)) <= newest) {
  // Takes half a second to load.
  const { default: asc } = await import("assemblyscript/asc");
  let binary;
  const { error, stderr } = await asc.main(
    [
      "kernels/assembly/index.ts",
      ...["--outFile", "kernels.wasm", "--baseDir", root, "-O3", "--noAssert"],
      ...["--runtime", "stub", "--importMemory", "--enable", "simd", "--use", "abort="],
    ],
    {
      writeFile: (name, contents) => {
        if (name === "kernels.wasm") binary = contents;
      },
    },
  );
  if (error) throw new Error(`${error.message}\n${stderr.toString()}`);
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, binary);
}
