// The package that npm would publish: what is in it, what it needs, and that a program which installed it can use it. And that no
// compiled file is left of a source that is gone: jest runs what is in dist/.

import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

import { beforeAll, describe, expect, test } from "@jest/globals";

import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";
import { filesBelow, readDocument, ROOT } from "./documents.js";

removeTempDirs();

interface PackageFile {
  readonly name: string;
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<
    Record<string, string | { readonly types: string; readonly default: string }>
  >;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
  readonly scripts: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(readDocument("package.json")) as PackageFile;
const ROOMS = ["kernels", "protocol", "btree", "viewserver", "indexer"];

function succeed(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
  expect({ command, status, stdout, stderr }).toMatchObject({ status: 0 });
  return stdout;
}

describe("dist/", () => {
  test("holds no file whose source is gone", () => {
    const compiled = [...ROOMS, "test"].flatMap((room) =>
      readdirSync(join(ROOT, "dist", room), { recursive: true, encoding: "utf8" })
        .filter((path) => path.endsWith(".js"))
        .map((path) => join(room, path)),
    );

    expect(
      compiled.filter((path) => !existsSync(join(ROOT, path.replace(/\.js$/, ".ts")))),
    ).toEqual([]);
  });
});

describe("dependencies", () => {
  const imported = new Set(
    ROOMS.flatMap((room) => filesBelow(room, ".ts")).flatMap((path) =>
      [
        ...readDocument(path).matchAll(
          /(?:^(?:import|export)\b[^"'`;]*? from |^import |\bawait import\()"([^".][^"]*)"/gm,
        ),
      ]
        .map(([, name]) => name ?? "")
        .filter((name) => !name.startsWith("node:"))
        .map((name) =>
          name
            .split("/")
            .slice(0, name.startsWith("@") ? 2 : 1)
            .join("/"),
        ),
    ),
  );

  test("are all used by running code, and nothing else is", () => {
    const peers = Object.keys(manifest.peerDependencies ?? {});

    expect([...imported].filter((name) => !peers.includes(name)).sort()).toEqual(
      Object.keys(manifest.dependencies).sort(),
    );
  });

  test("are each named in ARCHITECTURE.md with what they save", () => {
    const architecture = readDocument("ARCHITECTURE.md");

    expect(
      Object.keys(manifest.dependencies).filter((name) => !architecture.includes(`| \`${name}\``)),
    ).toEqual([]);
  });

  test("of programs that may lack them are optional", () => {
    for (const name of Object.keys(manifest.peerDependencies ?? {}))
      expect(manifest.peerDependenciesMeta?.[name]?.optional).toBe(true);
  });
});

describe("the package", () => {
  const folder = tempDir();
  const unpacked = join(folder, "node_modules", "viewmill");
  let files: string[] = [];

  beforeAll(() => {
    const told = succeed(
      "npm",
      ["pack", "--ignore-scripts", "--json", "--pack-destination", folder],
      ROOT,
    );
    const [packed] = Object.values(
      JSON.parse(told) as Record<string, { filename: string; files: { path: string }[] }>,
    );
    files = (packed?.files ?? []).map(({ path }) => path);
    mkdirSync(unpacked, { recursive: true });
    succeed(
      "tar",
      ["-xzf", join(folder, packed?.filename ?? ""), "--strip-components=1", "-C", unpacked],
      folder,
    );
    // What npm would install beside it.
    for (const name of [...Object.keys(manifest.dependencies), "@types/node"]) {
      mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
      symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
    }
  });

  test("holds the compiled rooms, the documents, the licence and the notice, and no tests or sources", () => {
    expect(files).toEqual(
      expect.arrayContaining([
        "LICENSE",
        "NOTICE",
        "README.md",
        "CHANGELOG.md",
        "package.json",
        "dist/kernels/kernels.wasm",
      ]),
    );
    const rooms = new RegExp(`^dist/(${ROOMS.join("|")}|bundle)/.*\\.(js|d\\.ts|js\\.map)$`);
    const others = files.filter((path) => !rooms.test(path));

    expect(
      others.filter(
        (path) =>
          !/^(?:LICENSE|NOTICE|package\.json|dist\/kernels\/kernels\.wasm|(?!test\/).*\.md)$/.test(
            path,
          ),
      ),
    ).toEqual([]);
  });

  test("names no path of the machine it was made on", () => {
    const faults = files.filter((path) =>
      readFileSync(join(unpacked, path), "utf8").includes(ROOT),
    );

    expect(faults).toEqual([]);
  });

  test("has every file that its entries and programs name", () => {
    const named = [
      ...Object.values(manifest.bin),
      ...Object.values(manifest.exports).flatMap((entry) =>
        typeof entry === "string" ? entry : [entry.types, entry.default],
      ),
    ];

    expect(named.filter((path) => !existsSync(join(unpacked, path)))).toEqual([]);
  });

  test("runs its program", () => {
    const program = join(unpacked, manifest.bin["viewmill"] ?? "");

    expect(succeed(process.execPath, [program, "--version"], folder).trim()).toBe(manifest.version);
  });

  test("serves a program in TypeScript that maps in a process of its own", () => {
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(
      join(folder, "consumer.ts"),
      `import { MemorySource, ViewIndex, type Row } from "viewmill";
import { Store } from "viewmill/btree";
import { LineSplitter } from "viewmill/protocol";

const source = new MemorySource("consumer");
source.put({ _id: "a", n: 3 });
const design = { _id: "_design/d", views: { v: { map: "doc => emit(doc.n, null)", reduce: "_count" } } };
await using index = await ViewIndex.open({ dir: "consumer.index", source, designDocuments: [design] });
const rows: Row[] = [];
for await (const row of (await index.query("d", "v", { group: true })).rows()) rows.push(row);
console.log(JSON.stringify(rows), typeof Store.open, typeof LineSplitter);
`,
    );
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const options =
      "--module nodenext --target es2022 --lib es2023,esnext.disposable --strict --types node".split(
        " ",
      );
    succeed(process.execPath, [compiler, ...options, "consumer.ts"], folder);

    expect(succeed(process.execPath, ["consumer.js"], folder).trim()).toBe(
      '[{"key":3,"value":1}] function function',
    );
  });

  test("can be required from CommonJS", () => {
    writeFileSync(
      join(folder, "consumer.cjs"),
      'console.log(typeof require("viewmill").ViewIndex.open);',
    );

    expect(succeed(process.execPath, ["--no-warnings", "consumer.cjs"], folder).trim()).toBe(
      "function",
    );
  });
});
