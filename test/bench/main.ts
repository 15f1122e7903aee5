// The bench: runs subjects one after the other, each in a process of its own, prints their tables, and writes them to RESULTS.md.
//
//   npm run bench -- [subject…] [--docs N] [--rounds N] [--only CONTENDER]… [--no-write]
//
// Without names all subjects run. A wrong answer of anything that was measured fails the bench with exit 1. Results of subjects that are not run
// stay as they are in RESULTS.md: each says when, how and beside what it was measured. With `--only` a subject that can do so runs some of its
// contenders, and keeps what it has of the others.

import { fork } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { renderReport, savedResult, saveResult, writeResults, type Result } from "./results.js";
import { dataDirectory, say, type Report, type Settings } from "./subject.js";
import { subjects, type SubjectName } from "./subjects/index.js";
import { loadNow, machine } from "./machine.js";

const DOCS_DEFAULT = 1_000_000;
const ROUNDS_DEFAULT = 3;

function runSubject(
  name: SubjectName,
  settings: Settings,
): Promise<{ title: string; report: Report }> {
  const program = fileURLToPath(new URL("./subject-process.js", import.meta.url));
  const child = fork(program, [name, JSON.stringify(settings)], { execArgv: ["--expose-gc"] });
  let result: { title: string; report: Report } | undefined;
  child.on("message", (message) => {
    result = message as { title: string; report: Report };
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      if (code === 0 && result) resolve(result);
      else reject(new Error(`subject ${name} ended with ${String(code ?? signal)}`));
    });
  });
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      docs: { type: "string" },
      rounds: { type: "string" },
      only: { type: "string", multiple: true },
      "no-write": { type: "boolean" },
    },
  });
  const known = Object.keys(subjects) as SubjectName[];
  const unknown = positionals.filter((name) => !known.includes(name as SubjectName));
  const docs = Number(values.docs ?? DOCS_DEFAULT);
  const rounds = Number(values.rounds ?? ROUNDS_DEFAULT);
  const only = values.only ?? [];
  if (
    unknown.length > 0 ||
    !Number.isSafeInteger(docs) ||
    docs < 1 ||
    !Number.isSafeInteger(rounds) ||
    rounds < 1
  ) {
    if (unknown.length > 0) console.error(`no such subject: ${unknown.join(", ")}`);
    console.error(
      `usage: bench [subject…] [--docs N] [--rounds N] [--only CONTENDER]… [--no-write]\nsubjects: ${known.join(", ")}`,
    );
    return 2;
  }
  const chosen = positionals.length === 0 ? known : (positionals as SubjectName[]);
  let failed = 0;
  for (const name of chosen) {
    say(`\n== ${name} (load average ${loadNow()})`);
    const workDir = mkdtempSync(join(tmpdir(), "viewmill-bench-"));
    mkdirSync(workDir, { recursive: true });
    const loadBefore = loadNow();
    const began = new Date();
    try {
      const { title, report } = await runSubject(name, {
        docs,
        rounds,
        dataDir: dataDirectory(),
        workDir,
        only,
        before: savedResult(name)?.report.data,
      });
      const result: Result = {
        name,
        title,
        command: `npm run bench -- ${name} --docs ${docs} --rounds ${rounds}`,
        at: began.toISOString(),
        seconds: Math.round((Date.now() - began.getTime()) / 1000),
        loadBefore,
        loadAfter: loadNow(),
        machine: machine(),
        report,
      };
      console.log(renderReport(result));
      if (values["no-write"] !== true) {
        saveResult(result);
        writeResults(known);
      }
    } catch (error) {
      failed++;
      say(`${name}: ${(error as Error).message}`);
    } finally {
      rmSync(workDir, { recursive: true, force: true });
    }
  }
  return failed > 0 ? 1 : 0;
}

process.exitCode = await main();
