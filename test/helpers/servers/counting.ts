// Our own session on stdin and stdout, which notes the id of every document that it is asked to map in the file argv[2], before it does.

import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { Session } from "../../../viewserver/index.js";

const [, , file = ""] = process.argv;
const session = new Session({ mode: "lenient" });
const MAP_DOC = '["map_doc",';

for await (const line of createInterface({ input: process.stdin })) {
  if (line.startsWith(MAP_DOC)) {
    const { _id } = JSON.parse(line.slice(MAP_DOC.length, -1)) as { _id: string };
    appendFileSync(file, `${_id}\n`);
  }
  const { output, exit } = session.handle(line);
  process.stdout.write(output);
  if (exit !== undefined) process.exit(exit);
}
