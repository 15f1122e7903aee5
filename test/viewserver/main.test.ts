// The program as a host meets it: pipes that open, stall and close, and when its replies come.
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import path from "node:path";
import type { Readable } from "node:stream";
import { expect, test } from "@jest/globals";
import { runProgram } from "./serving.js";

const MAIN = path.join(import.meta.dirname, "../../viewserver/main.js");

function start(...args: string[]): ChildProcessWithoutNullStreams {
  const child = spawn(process.execPath, [MAIN, ...args], { env: {} });
  child.stdin.on("error", () => undefined);
  return child;
}

/** The next whole line of a stream. */
async function lineOf(child: ChildProcessWithoutNullStreams): Promise<string> {
  let text = "";
  while (!text.includes("\n")) text += String((await once(child.stdout, "data"))[0]);
  return text;
}

test("a host that waits for each reply gets each reply", async () => {
  const child = start();
  const answers: string[] = [];
  for (const line of [
    '["reset"]',
    '["add_fun","function(d){emit(d.n,1)}"]',
    ...Array.from({ length: 50 }, (_, n) => `["map_doc",{"n":${n}}]`),
  ]) {
    child.stdin.write(`${line}\n`);
    answers.push(await lineOf(child));
  }
  child.stdin.end();
  const [code] = (await once(child, "exit")) as [number];

  expect(answers.slice(0, 3)).toEqual(["true\n", "true\n", "[[[0,1]]]\n"]);
  expect(answers.at(-1)).toBe("[[[49,1]]]\n");
  expect(code).toBe(0);
});

test("a running list reads its rows from the pipe", async () => {
  const child = start();
  const ddoc = {
    lists: {
      l: "function(){ var r, n = 0; while (r = getRow()) { n++; send(r.key) } return String(n) }",
    },
  };
  const ask = async (command: unknown): Promise<string> => {
    child.stdin.write(JSON.stringify(command) + "\n");
    return lineOf(child);
  };

  expect(await ask(["ddoc", "new", "_design/t", ddoc])).toBe("true\n");
  expect(await ask(["ddoc", "_design/t", ["lists", "l"], [{}, {}]])).toBe(
    '["start",[],{"headers":{}}]\n',
  );
  expect(await ask(["list_row", { key: "a" }])).toBe('["chunks",["a"]]\n');
  expect(await ask(["list_end"])).toBe('["end",["1"]]\n');
  expect(await ask(["reset"])).toBe("true\n");
  child.stdin.end();
  await once(child, "exit");
});

test("a host that stops reading and goes away takes the server with it", async () => {
  const child = start();
  child.stdin.write('["reset"]\n["add_fun","function(d){emit(d.s,1)}"]\n');
  const line = `["map_doc",{"s":"${"x".repeat(10_000)}"}]\n`;
  for (let i = 0; i < 500; i++) child.stdin.write(line);
  await once(child.stdout, "readable");
  child.stdout.destroy();
  child.stdin.end();
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];

  expect(signal).toBeNull();
  expect(code).toBe(0);
});

test("a line of many megabytes is one command", async () => {
  const size = 20_000_000;
  const { stdout, exit } = await runProgram(
    `["reset"]\n["add_fun","function(d){emit(d.s.length,d.t)}"]\n["map_doc",{"s":"${"é".repeat(size / 2)}","t":"é"}]\n`,
  );

  expect(stdout).toBe(`true\ntrue\n[[[${size / 2},"é"]]]\n`);
  expect(exit).toBe(0);
});

test("options: named functions when lenient, limits, and a usage text for mistakes", async () => {
  const input =
    '["reset"]\n["add_fun","function f(d){for(var i=0;i<d.n;i++)emit(i,1)}"]\n["map_doc",{"n":2}]\n["map_doc",{"n":3}]\n';
  const lenient = await runProgram(input, { args: ["--lenient", "--rows-max", "2"] });
  const unknown = await runProgram("", { args: ["--nope"] });
  const wrong = await runProgram("", { args: ["--rows-max", "many"] });

  expect(lenient.stdout.split("\n").slice(0, 3)).toEqual(["true", "true", "[[[0,1],[1,1]]]"]);
  expect(lenient.stdout).toContain("emit_limit");
  for (const { exit, stderr, stdout } of [unknown, wrong]) {
    expect(exit).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toContain("usage: viewmill-server");
  }
});

const PERMISSION =
  Number(process.versions.node.split(".")[0]) >= 23 ? "--permission" : "--experimental-permission";
const ROOT = path.join(import.meta.dirname, "../../..");
const SETPRIV = "/usr/bin/setpriv";

// The command line that README.md has for CouchDB.
(existsSync(SETPRIV) ? test : test.skip)(
  "behind the flag it ends with its host even inside a function that does not, when setpriv sees to it",
  async () => {
    const server = [
      ...["/usr/bin/env", "-i", SETPRIV, "--pdeathsig", "KILL", process.execPath],
      ...[PERMISSION, `--allow-fs-read=${ROOT}/*`, "--disallow-code-generation-from-strings"],
      path.join(ROOT, "dist/viewserver/main.js"),
    ];
    const input = '["reset"]\n["add_fun","function(d){ for (;;) ; }"]\n["map_doc",{}]\n';
    const program = path.join(import.meta.dirname, "../helpers/orphaning-host.js");
    const host = spawn(process.execPath, [program, JSON.stringify(server), input], {
      stdio: ["ignore", "ignore", "ignore", "pipe"],
    });
    const output = host.stdio[3] as Readable;
    let text = "";
    for await (const piece of output.setEncoding("utf8")) {
      text += String(piece);
      if (text === "true\ntrue\n") host.kill("SIGKILL");
    }

    // The pipe has ended: nobody holds its other side any more.
    expect(text).toBe("true\ntrue\n");
  },
);

test("it runs behind node's permission flag, with read access to the package folder only", async () => {
  const { stdout, exit } = await runProgram(
    '["reset"]\n["add_fun","function(d){emit(d.n,1)}"]\n["map_doc",{"n":2}]\n',
    {
      nodeArgs: [
        PERMISSION,
        `--allow-fs-read=${ROOT}/*`,
        "--disallow-code-generation-from-strings",
      ],
    },
  );

  expect(stdout).toBe("true\ntrue\n[[[2,1]]]\n");
  expect(exit).toBe(0);
});
