// Our own view server's flags are a fence for code that has left its realm: it must not hold a gate.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "@jest/globals";
import { ownServer } from "../../../indexer/mapping/server-process.js";

test("behind our flags no thread can be started, which would not be held by them", async () => {
  const { file, args, env } = ownServer(64, false);
  const flags = args.slice(
    0,
    args.findIndex((arg) => !arg.startsWith("--")),
  );
  const code = `
    const { Worker } = require("node:worker_threads");
    try { new Worker("", { eval: true, execArgv: [] }); console.log("started"); } catch (e) { console.log(e.code); }
  `;
  const { stdout } = await promisify(execFile)(file, [...flags, "-e", code], { env });

  expect(stdout).toBe("ERR_ACCESS_DENIED\n");
});
