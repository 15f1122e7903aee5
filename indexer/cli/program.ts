// The command line: which commands there are, with which options. What a command does is loaded when it runs: a supervisor and the small
// commands must not wait for an HTTP server and a bundler.

import { readFileSync } from "node:fs";

import { Command, InvalidArgumentError, Option } from "commander";

import { EXIT, report } from "./exit.js";
import type { CommonFlags } from "./flags.js";
import { queryParameter } from "./query-flags.js";
import type { ServeFlags } from "./serve.js";
import { isSupervised, supervise } from "./supervisor.js";
import type { TryFlags } from "./try.js";
import type { TypesFlags } from "./types-command.js";

interface PackageFile {
  readonly version: string;
}

function version(): string {
  const path = new URL("../../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(path, "utf8")) as PackageFile).version;
}

function whole(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0)
    throw new InvalidArgumentError("expected a whole number of 0 or more");
  return value;
}

/** Options of every command that reads a source and maps. */
function indexing(command: Command): Command {
  return command
    .addOption(
      new Option(
        "-s, --source <src>",
        "file.ndjson, changes:file.ndjson, - (stdin), http://host/db, pouchdb:PATH; default: the one DIR was built from",
      ),
    )
    .addOption(
      new Option(
        "-d, --ddoc <file...>",
        "design documents: .json, a module (.js .mjs .ts) or a folder views/NAME/{map,reduce}.js; default: those of the source",
      ).default([]),
    )
    .option("--append", "the file of documents only grows: read only what is new")
    .option("--id-field <name>", "member that holds the document id in files of documents")
    .option(
      "--partitioned",
      "the source is a partitioned database: ids are PARTITION:REST (default: what a CouchDB tells, or DIR was built with)",
    )
    .addOption(
      new Option("--map-in <where>", "where map functions run")
        .choices(["threads", "processes"])
        .default("threads"),
    )
    .option("--server <cmd>", "a couchjs-compatible view server to use in place of ours")
    .addOption(
      new Option("--threads <n>", "threads or view servers (default: cores, at most 8)").argParser(
        whole,
      ),
    )
    .addOption(
      new Option("--timeout <ms>", "longest time a document may take to map")
        .argParser(whole)
        .default(5000),
    )
    .addOption(
      new Option("--heap <mib>", "JavaScript heap of a thread or view server")
        .argParser(whole)
        .default(512),
    )
    .addOption(
      new Option("--memory <mib>", "memory that mapping one document may take")
        .argParser(whole)
        .default(1024),
    )
    .addOption(
      new Option("--rows-max <n>", "rows one function may emit for one document").argParser(whole),
    )
    .addOption(
      new Option("--output-max <n>", "characters of JSON these rows may take").argParser(whole),
    )
    .addOption(
      new Option("--log-lines-max <n>", "log lines kept for one document").argParser(whole),
    )
    .addOption(
      new Option("--cache <mib>", "index nodes kept in memory").argParser(whole).default(64),
    )
    .option("--strict", "fail the whole group where CouchDB would")
    .addOption(
      new Option("--max-errors <n>", "exit with 3 when more documents failed").argParser(whole),
    )
    .addOption(
      new Option("--min-docs <n>", "smallest bulk insertion, in documents").argParser(whole),
    )
    .addOption(
      new Option(
        "--chunk-bytes <n>",
        "bytes of the feed mapped at a time (default: as fits its size)",
      ).argParser(whole),
    )
    .addOption(
      new Option("--progress-interval <ms>", "with --json: shortest time between lines of progress")
        .argParser(whole)
        .default(1000),
    )
    .addOption(
      new Option("--min-bytes <n>", "smallest bulk insertion, in bytes of rows").argParser(whole),
    )
    .addOption(
      new Option(
        "--min-free <mib>",
        "room on the disk below which updates pause (default: none)",
      ).argParser(whole),
    )
    .addOption(
      new Option("--sync <when>", "when data is made safe against power loss")
        .choices(["end", "interval", "commit"])
        .default("end"),
    )
    .addOption(
      new Option("--sync-interval <ms>", "for --sync interval and checkpoints of a build")
        .argParser(whole)
        .default(30_000),
    )
    .addOption(new Option("--line-max <bytes>", "longest line of a file").argParser(whole))
    .option("--rebuild", "build anew when DIR was built from another source");
}

function talking(command: Command): Command {
  return command.option("--json", "print JSON").option("-q, --quiet", "print results only");
}

/** Commands that run in a supervised child, because they may map in threads. */
async function guarded(
  argv: readonly string[],
  flags: CommonFlags,
  run: () => Promise<number>,
): Promise<number> {
  const threads = flags.mapIn === "threads" && flags.server === undefined && flags.source !== "-";
  return threads && !isSupervised() ? supervise(argv) : run();
}

/** Runs one command; returns the exit code. */
export async function runCli(argv: readonly string[]): Promise<number> {
  let exit: number = EXIT.done;
  const json = argv.includes("--json");
  const program = new Command("viewmill")
    .description("Incremental map/reduce views over a CouchDB, a PouchDB or plain NDJSON files.")
    .version(version())
    .exitOverride()
    .configureOutput({ writeErr: (text) => process.stderr.write(text) });

  const command = (name: string, about: string): Command =>
    program
      .command(name)
      .description(about)
      .exitOverride()
      .showHelpAfterError("(--help shows the options)");

  talking(indexing(command("build <dir>", "bring the index up to date with the source"))).action(
    async (dir: string, flags: CommonFlags) => {
      exit = await guarded(argv, flags, async () =>
        (await import("./commands.js")).build(dir, flags),
      );
    },
  );
  talking(indexing(command("follow <dir>", "keep the index up to date with a live feed"))).action(
    async (dir: string, flags: CommonFlags) => {
      exit = await guarded(argv, flags, async () =>
        (await import("./commands.js")).follow(dir, flags),
      );
    },
  );

  const parameters: [string, string][] = [];
  const ask = talking(
    indexing(
      command(
        "query <dir> <view>",
        "ask a view: DDOC/VIEW; parameters have CouchDB's names, keys are JSON",
      ),
    ),
  );
  for (const option of queryParameter(parameters)) ask.addOption(option);
  ask.action(async (dir: string, view: string, flags: CommonFlags) => {
    exit = await (await import("./commands.js")).query(dir, view, parameters, flags);
  });

  talking(command("info <dir>", "what is in the index"))
    .option(
      "--tree",
      "how the trees of each file are built: depth, nodes, fill, live and dead bytes",
    )
    .action(async (dir: string, flags: CommonFlags & { tree?: boolean }) => {
      exit = flags.tree
        ? await (await import("./verify.js")).treeInfo(dir, flags)
        : await (await import("./commands.js")).info(dir, flags);
    });
  talking(
    command(
      "verify <dir> [ddoc]",
      "prove index files: every node, and that ids, rows and errors agree",
    ),
  ).action(async (dir: string, ddoc: string | undefined, flags: CommonFlags) => {
    exit = await (await import("./verify.js")).verify(dir, ddoc, flags);
  });
  talking(command("errors <dir> [ddoc]", "documents that failed to map")).action(
    async (dir: string, ddoc: string | undefined, flags: CommonFlags) => {
      exit = await (await import("./commands.js")).errors(dir, ddoc, flags);
    },
  );
  talking(command("try", "run views over a few documents and show rows, logs and errors"))
    .requiredOption(
      "-d, --ddoc <file>",
      "design document: .json, a module (.js .mjs .ts) or a folder views/NAME/{map,reduce}.js",
    )
    .option("-s, --source <src>", "any source; default: documents on stdin, one a line")
    .option("--view <name...>", "only these views")
    .addOption(new Option("--limit <n>", "documents to try").argParser(whole).default(10))
    .option("--id <id...>", "only these documents of the source")
    .option("--id-field <name>", "member that holds the document id in files of documents")
    .addOption(
      new Option("--group [level]", "show reduces by key, or by its first elements").argParser(
        whole,
      ),
    )
    .option(
      "--test <file>",
      "run examples (documents in, rows out): .json, .ndjson or a module; exit 1 when one does not hold",
    )
    .option("--watch", "run again whenever a file is saved")
    .addOption(
      new Option("--timeout <ms>", "longest time a call may take").argParser(whole).default(5000),
    )
    .addOption(
      new Option("--heap <mib>", "JavaScript heap of the functions").argParser(whole).default(512),
    )
    .action(async (flags: TryFlags) => {
      exit = await (await import("./try.js")).tryViews(argv, flags);
    });
  talking(command("types", "write declarations of what views may call, for editors"))
    .option("-o, --out <file>", "default: stdout")
    .action(async (flags: TypesFlags) => {
      exit = (await import("./types-command.js")).types(flags);
    });
  talking(
    command("compact <dir> [ddoc]", "rewrite index files as small as a first build makes them"),
  ).action(async (dir: string, ddoc: string | undefined, flags: CommonFlags) => {
    exit = await (await import("./compact.js")).compact(dir, ddoc, flags);
  });
  talking(command("cleanup <dir>", "remove index files that no design document uses"))
    .option("--dry-run", "only say what would go")
    .action(async (dir: string, flags: CommonFlags & { dryRun?: boolean }) => {
      exit = await (await import("./commands.js")).cleanup(dir, flags);
    });

  talking(indexing(command("serve <dir>", "CouchDB-compatible HTTP for views")))
    .addOption(new Option("-p, --port <n>", "0 picks one").argParser(whole).default(5984))
    .option("--host <address>", "address to bind; beyond loopback only with --user", "127.0.0.1")
    .option("--db <name>", "the database's name in URLs", "db")
    .option("--user <name:password>", "require basic authorisation")
    .addOption(
      new Option("--body-max <bytes>", "largest request body")
        .argParser(whole)
        .default(8 * 2 ** 20),
    )
    .addOption(
      new Option("--max-requests <n>", "requests answered at once by each process")
        .argParser(whole)
        .default(1000),
    )
    .addOption(
      new Option("--stall <ms>", "a client that takes nothing for so long is dropped")
        .argParser(whole)
        .default(60_000),
    )
    .addOption(
      new Option(
        "--workers <n>",
        "processes that answer, beside one that writes; without it one process does both",
      ).argParser(whole),
    )
    .action(async (dir: string, flags: ServeFlags) => {
      exit = await guarded(argv, flags, async () => (await import("./serve.js")).serve(dir, flags));
    });

  try {
    await program.parseAsync(argv, { from: "user" });
    return exit;
  } catch (error) {
    return report(error, json);
  }
}
