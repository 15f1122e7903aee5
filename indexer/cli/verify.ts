// `viewmill verify` proves index files; `viewmill info --tree` tells how their trees are built.

import { EXIT } from "./exit.js";
import type { CommonFlags } from "./flags.js";
import { stoppable } from "./stoppable.js";
import { printTable } from "./table.js";
import { verifyStore, type TreeReport, type VerifyReport } from "../../btree/index.js";
import { parseDesignDocument } from "../views/design-document.js";
import { viewTreeName } from "../views/group-reducers.js";
import { ViewIndex } from "../view-index.js";

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}

async function designsBySignature(index: ViewIndex): Promise<Map<string, string[]>> {
  const names = new Map<string, string[]>();
  for (const [id, signature] of await index.signatures())
    names.set(signature, [...(names.get(signature) ?? []), id]);
  return names;
}

/** Exit 1 when there is any fault. Needs no lock: a writer may be at work. */
export async function verify(
  dir: string,
  ddoc: string | undefined,
  flags: CommonFlags,
): Promise<number> {
  return stoppable((signal) => verifyFiles(dir, ddoc, flags, signal));
}

async function verifyFiles(
  dir: string,
  ddoc: string | undefined,
  flags: CommonFlags,
  signal: AbortSignal,
): Promise<number> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  try {
    const names = await designsBySignature(index);
    const reports = await index.verify(ddoc, { signal });
    const faults = reports.reduce((sum, report) => sum + report.faults.length, 0);
    if (flags.json) {
      const files = reports.map((report) => ({
        ...report,
        designDocuments: names.get(report.signature),
        state: undefined,
      }));
      print(JSON.stringify({ ok: faults === 0, files }));
      return faults === 0 ? EXIT.done : EXIT.failed;
    }
    if (reports.length === 0 && !flags.quiet)
      process.stderr.write("viewmill: there is no index file yet: build first\n");
    for (const report of reports) {
      const rows = report.trees.reduce((sum, tree) => sum + tree.entries, 0);
      print(`${(names.get(report.signature) ?? []).join(", ")}  ${report.file}`);
      for (const { offset, tree, what } of report.faults)
        print(`  fault at byte ${offset}${tree === undefined ? "" : ` in ${tree}`}: ${what}`);
      for (const note of report.notes) print(`  note: ${note}`);
      if (report.faults.length === 0)
        print(
          `  sound: ${number(rows)} entries in ${report.trees.length} trees, ${number(report.liveBytes)} bytes`,
        );
    }
    if (faults > 0 && !flags.quiet)
      process.stderr.write(
        `viewmill: ${faults} fault${faults === 1 ? "" : "s"}. Delete the file and build again; the documents are not touched by it.\n`,
      );
    return faults === 0 ? EXIT.done : EXIT.failed;
  } finally {
    await index.close();
  }
}

interface TreesOfFile extends Pick<VerifyReport, "fileBytes" | "liveBytes" | "deadBytes"> {
  /** `views`: those that read the tree's rows. */
  readonly trees: readonly (TreeReport & { readonly views: readonly string[] })[];
  readonly designDocuments: readonly string[];
  readonly file: string;
}

function viewsOfTrees(json: string | undefined): Map<string, string[]> {
  if (json === undefined) return new Map();
  const { trees } = parseDesignDocument(JSON.parse(json), { partitioned: undefined }).group;
  return new Map(
    trees.map((tree) => [
      viewTreeName(tree.number),
      [...tree.mapOnly, ...tree.reduces.map(({ name }) => name)],
    ]),
  );
}

/** Reads every node; where it cannot, it says so on stderr and goes on. */
export async function treeInfo(dir: string, flags: CommonFlags): Promise<number> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  const files: TreesOfFile[] = [];
  let faults = 0;
  try {
    const seen = new Set<string>();
    const names = await designsBySignature(index);
    for (const { file, signature } of (await index.info()).groups) {
      if (file === "" || seen.has(file)) continue;
      seen.add(file);
      const report = await verifyStore(file, { reducers: () => undefined });
      faults += report.faults.length;
      const { fileBytes, liveBytes, deadBytes } = report;
      const design = names.get(signature)?.[0];
      const labels = viewsOfTrees(design === undefined ? undefined : index.designDocument(design));
      const trees = report.trees.map((tree) => ({ ...tree, views: labels.get(tree.name) ?? [] }));
      files.push({
        designDocuments: names.get(signature) ?? [],
        file,
        trees,
        fileBytes,
        liveBytes,
        deadBytes,
      });
    }
  } finally {
    await index.close();
  }
  if (flags.json) print(JSON.stringify({ files }));
  else for (const file of files) await printFile(file);
  if (faults > 0 && !flags.quiet)
    process.stderr.write(`viewmill: nodes are damaged: see  viewmill verify ${dir}\n`);
  return EXIT.done;
}

async function printFile({
  designDocuments,
  file,
  trees,
  fileBytes,
  liveBytes,
  deadBytes,
}: TreesOfFile): Promise<void> {
  print(`${designDocuments.join(", ")}  ${file}`);
  print(
    `${number(fileBytes)} bytes, ${number(liveBytes)} live, ${number(deadBytes)} dead (${Math.round((deadBytes * 100) / Math.max(1, fileBytes))} %)`,
  );
  await printTable(
    [
      "tree",
      "depth",
      "inner nodes",
      "leaves",
      "rows",
      "entries",
      "fill %",
      "live bytes",
      "values out of line",
      "waiting",
    ],
    trees.map((tree) => [
      [tree.name, ...tree.views].join(" "),
      String(tree.depth),
      String(tree.innerNodes),
      String(tree.leafNodes),
      String(tree.rows),
      String(tree.entries),
      String(Math.round(tree.fill * 100)),
      String(tree.leafBytes + tree.innerBytes + tree.valueBytes),
      String(tree.valueRecords),
      String(tree.waiting),
    ]),
    print,
  );
  print("");
}
