// Our own session on stdin and stdout, which notes its process in the file argv[2] when it has started, and answers ["pid"] with it.

import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { Session } from "../../../viewserver/index.js";

const [, , file = ""] = process.argv;
const session = new Session({ mode: "lenient" });

appendFileSync(file, `${process.pid}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  if (line === '["pid"]') {
    process.stdout.write(`${process.pid}\n`);
    continue;
  }
  const { output, exit } = session.handle(line);
  process.stdout.write(output);
  if (exit !== undefined) process.exit(exit);
}
