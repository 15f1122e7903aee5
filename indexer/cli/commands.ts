// What the commands do.

import { existsSync } from "node:fs";
import { join } from "node:path";

import type { CommonFlags as Flags } from "./flags.js";
import { loadDesignFile } from "./design-files.js";
import { EXIT, UsageError } from "./exit.js";
import { progressReporter, type ProgressReporter } from "./progress.js";
import { counted, printTable } from "./table.js";
import { IndexerError } from "../errors.js";
import type { ViewIndexOptions } from "../options.js";
import { parseViewQuery, resolveViewQuery, type Row } from "../query/index.js";
import { ViewIndex } from "../view-index.js";
import { MANIFEST_FILE } from "../views/manifest.js";
import type { UpdateCounts } from "../views/update-types.js";

export type CommonFlags = Flags;

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function talk(flags: Flags, line: string): void {
  if (!flags.quiet) process.stderr.write(`${line}\n`);
}

/** Flags as options of the library. */
export async function indexOptions(dir: string, flags: Flags): Promise<ViewIndexOptions> {
  const designDocuments: object[] = [];
  for (const file of flags.ddoc ?? []) {
    const design = await loadDesignFile(file);
    if (Object.keys(Object((design as { views?: unknown }).views) as object).length === 0)
      throw new UsageError(`--ddoc ${file}: the design document has no views`);
    designDocuments.push(design);
  }
  const given = <K extends string, V>(name: K, value: V | undefined): Record<K, V> | object =>
    value === undefined ? {} : { [name]: value };
  return {
    dir,
    designDocuments,
    mapIn: flags.source === "-" ? "processes" : (flags.mapIn ?? "threads"),
    ...given("source", flags.source),
    ...given("append", flags.append),
    ...given("idField", flags.idField),
    ...given("partitioned", flags.partitioned),
    ...given("server", flags.server),
    ...given("threads", flags.threads),
    ...given("timeoutMs", flags.timeout),
    ...given("heapMb", flags.heap),
    ...given("memoryMb", flags.memory),
    limits: {
      ...given("rowsMax", flags.rowsMax),
      ...given("outputCharsMax", flags.outputMax),
      ...given("logLinesMax", flags.logLinesMax),
    },
    ...given("strict", flags.strict),
    ...given("minDocuments", flags.minDocs),
    ...given("minBytes", flags.minBytes),
    ...given("minFreeBytes", flags.minFree === undefined ? undefined : flags.minFree * 2 ** 20),
    ...given("chunkBytes", flags.chunkBytes),
    ...given("lineBytesMax", flags.lineMax),
    ...given("rebuild", flags.rebuild),
    ...(flags.cache === undefined ? {} : { cacheBytes: flags.cache * 2 ** 20 }),
    ...(flags.sync === undefined
      ? {}
      : {
          sync: {
            mode: flags.sync,
            ...(flags.syncInterval === undefined ? {} : { intervalMs: flags.syncInterval }),
          },
        }),
    onWarning: (message) => {
      talk(flags, `viewmill: ${message}`);
    },
  };
}

/** A signal to a whole process group may come twice, directly and from the supervisor. */
const SAME_SIGNAL_MS = 500;

/** Aborts on the first SIGINT or SIGTERM; a second one ends the process at once. */
function interruption(): { readonly signal: AbortSignal; readonly end: () => void } {
  const controller = new AbortController();
  let first = 0;
  const stop = (signal: NodeJS.Signals): void => {
    if (controller.signal.aborted) {
      if (performance.now() - first > SAME_SIGNAL_MS) process.exit(EXIT.interrupted);
      return;
    }
    first = performance.now();
    process.stderr.write(`\nviewmill: ${signal}: finishing the batch …\n`);
    controller.abort();
  };
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  return {
    signal: controller.signal,
    end: () => {
      process.off("SIGINT", stop);
      process.off("SIGTERM", stop);
    },
  };
}

async function failedDocuments(index: ViewIndex): Promise<number> {
  const { groups } = await index.info();
  return groups.reduce((sum, group) => sum + group.errors, 0);
}

/** A document may have a record in each of several views. */
async function moreFailedThan(index: ViewIndex, most: number): Promise<boolean> {
  const failed = new Set<string>();
  for await (const { id } of index.errors()) if (failed.add(id).size > most) return true;
  return false;
}

async function conclude(
  index: ViewIndex,
  dir: string,
  counts: UpdateCounts,
  seconds: number,
  flags: Flags,
): Promise<number> {
  const failing = await failedDocuments(index);
  if (flags.json) {
    const groups = (await index.info()).groups.map(
      ({ designDocument, signature, documents, errors, rows, updateSeq, sizes }) => ({
        designDocument,
        signature,
        documents,
        errors,
        rows,
        updateSeq,
        sizes,
      }),
    );
    print(
      JSON.stringify({
        done: { ...counts, errors: failing, seconds: Number(seconds.toFixed(3)), groups },
      }),
    );
  } else {
    const rate =
      counts.mapped > 0 && seconds > 0
        ? ` (${Math.round(counts.documents / seconds).toLocaleString("en-US")}/s)`
        : "";
    const n = (value: number): string => value.toLocaleString("en-US");
    talk(
      flags,
      `${counted(counts.documents, "document")} in ${seconds.toFixed(1)} s${rate}: ${n(counts.mapped)} mapped, ${n(counts.unchanged)} unchanged, ${n(counts.deleted)} deleted, ${counted(counts.rows, "row")}`,
    );
    if (failing > 0)
      talk(flags, `viewmill: ${counted(failing, "error record")}: see  viewmill errors ${dir}`);
  }
  return flags.maxErrors !== undefined &&
    failing > flags.maxErrors &&
    (await moreFailedThan(index, flags.maxErrors))
    ? EXIT.tooManyErrors
    : EXIT.done;
}

function reporterOf(flags: Flags): ProgressReporter {
  return progressReporter({
    json: flags.json ?? false,
    quiet: flags.quiet ?? false,
    intervalMs: flags.progressInterval ?? 1000,
  });
}

/** Before anything is made: an index that exists remembers its source. */
function requireSource(dir: string, flags: Flags): void {
  if (flags.source === undefined && !existsSync(join(dir, MANIFEST_FILE)))
    throw new UsageError(`${dir} holds no index yet: name what to index with --source`);
}

export async function build(dir: string, flags: Flags): Promise<number> {
  const began = performance.now();
  requireSource(dir, flags);
  const index = await ViewIndex.open(await indexOptions(dir, flags));
  const { signal, end } = interruption();
  const progress = reporterOf(flags);
  try {
    const counts = await index.update({
      signal,
      onProgress: (p) => {
        progress.update(p);
      },
    });
    progress.stop();
    if ((await index.signatures()).size === 0)
      throw new UsageError(
        "there is no design document: give one with --ddoc, or put one into the source",
      );
    return await conclude(index, dir, counts, (performance.now() - began) / 1000, flags);
  } finally {
    progress.stop();
    end();
    await index.close();
  }
}

export async function follow(dir: string, flags: Flags): Promise<number> {
  requireSource(dir, flags);
  const index = await ViewIndex.open(await indexOptions(dir, flags));
  const { signal, end } = interruption();
  const progress = reporterOf(flags);
  try {
    await index.follow({
      signal,
      onProgress: (p) => {
        progress.update(p);
      },
    });
    return EXIT.done;
  } catch (error) {
    // To follow until told to stop is all that was asked.
    if ((error as { code?: string }).code === "INDEXER_ABORTED") return EXIT.done;
    throw error;
  } finally {
    progress.stop();
    end();
    await index.close();
  }
}

function splitView(name: string): [string, string] {
  const plain = name.replace(/^_design\//, "");
  const slash = plain.indexOf("/");
  if (slash <= 0 || slash === plain.length - 1)
    throw new UsageError(`expected DDOC/VIEW, for example orders/by_day, not ${name}`);
  return [plain.slice(0, slash), plain.slice(slash + 1)];
}

/** CouchDB's message does not say which parameter it is about. */
function checkParameter([name, text]: readonly [string, string]): void {
  try {
    parseViewQuery([[name, text]]);
  } catch (error) {
    const { reason, message } = error as { reason?: string; message: string };
    throw new UsageError(`--${name.replaceAll("_", "-")} ${text}: ${reason ?? message}`);
  }
}

/** Without a source and without `update` the index is read as it is, from DIR alone and without the writer's lock. */
export async function query(
  dir: string,
  name: string,
  parameters: readonly (readonly [string, string])[],
  flags: Flags,
): Promise<number> {
  const [design, view] = splitView(name);
  const update = parameters.findLast(([parameter]) => parameter === "update")?.[1];
  const readOnly =
    flags.source === undefined &&
    (flags.ddoc ?? []).length === 0 &&
    (update === undefined || update === "false");
  for (const parameter of parameters) checkParameter(parameter);
  const asked = parseViewQuery(readOnly ? [...parameters, ["update", "false"]] : parameters);
  const index = await ViewIndex.open({ ...(await indexOptions(dir, flags)), readOnly });
  try {
    const found = await index.findView(design, view);
    const answer = await index.run(found, resolveViewQuery(asked, found.shape));
    if (flags.json) {
      for await (const text of answer.text()) process.stdout.write(text);
      return EXIT.done;
    }
    const columns = answer.kind === "reduce" ? ["key", "value"] : ["key", "id", "value"];
    const heads = asked.includeDocs ? [...columns, "doc"] : columns;
    const count = await printTable(heads, cellsOf(answer.rows(), heads), print);
    const total =
      answer.totalRows === undefined ? "" : ` of ${answer.totalRows}, from ${answer.offset ?? 0}`;
    talk(flags, `${counted(count, "row")}${total}`);
    return EXIT.done;
  } finally {
    await index.close();
  }
}

async function* cellsOf(
  rows: AsyncIterable<Row>,
  heads: readonly string[],
): AsyncIterable<string[]> {
  for await (const row of rows) {
    const members: Record<string, unknown> = { ...row };
    if (row.error !== undefined) members["value"] = `error ${row.error}: ${row.reason ?? ""}`;
    yield heads.map((head) => {
      const member = members[head];
      return typeof member === "string"
        ? member
        : member === undefined
          ? ""
          : JSON.stringify(member);
    });
  }
}

export async function info(dir: string, flags: Flags): Promise<number> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  try {
    const told = await index.info();
    if (flags.json) {
      print(JSON.stringify(told));
      return EXIT.done;
    }
    print(`source   ${told.source?.identity.label ?? "none"}`);
    for (const group of told.groups) {
      print("");
      print(`${group.designDocument}  ${group.state}${group.updaterRunning ? ", updating" : ""}`);
      print(`  file       ${group.file === "" ? "none yet" : group.file}`);
      print(`  sequence   ${group.updateSeq ?? "none"}`);
      print(
        `  documents  ${group.documents.toLocaleString("en-US")}, ${counted(group.errors, "error record")}`,
      );
      print(
        `  bytes      ${group.sizes.file.toLocaleString("en-US")} in the file, ${group.sizes.active.toLocaleString("en-US")} live`,
      );
      const [, newest] = group.collatorVersions;
      print(
        `  order      version ${group.collation}${newest === undefined ? "" : `; \`viewmill compact\` would renew it in version ${newest}`}`,
      );
      for (const [view, rows] of Object.entries(group.rows))
        print(`  ${view.padEnd(10)} ${counted(rows, "row")}`);
    }
    for (const { designDocument, reason } of told.refused)
      print(`\n${designDocument}  refused: ${reason}`);
    return EXIT.done;
  } finally {
    await index.close();
  }
}

export async function errors(dir: string, ddoc: string | undefined, flags: Flags): Promise<number> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  try {
    if (flags.json) {
      for await (const record of index.errors(ddoc)) print(JSON.stringify(record));
      return EXIT.done;
    }
    const rows = (async function* () {
      for await (const { id, designDocument, view, kind, error, reason } of index.errors(ddoc))
        yield [id, `${designDocument.replace("_design/", "")}/${view ?? "*"}`, kind, error, reason];
    })();
    const count = await printTable(["document", "view", "kind", "error", "reason"], rows, print);
    talk(flags, counted(count, "error record"));
    return EXIT.done;
  } finally {
    await index.close();
  }
}

export async function cleanup(dir: string, flags: Flags & { dryRun?: boolean }): Promise<number> {
  if (!existsSync(join(dir, MANIFEST_FILE)))
    throw new IndexerError("INDEXER_NO_INDEX", `${dir} holds no index: build one first`, {
      file: dir,
    });
  const index = await ViewIndex.open({ dir });
  try {
    const removed = await index.cleanup({ dryRun: flags.dryRun ?? false });
    if (removed.length === 0) talk(flags, "nothing to remove: every file is in use");
    if (flags.json) print(JSON.stringify({ removed, dryRun: flags.dryRun ?? false }));
    else for (const name of removed) print(`${flags.dryRun ? "would remove" : "removed"} ${name}`);
    return EXIT.done;
  } finally {
    await index.close();
  }
}
