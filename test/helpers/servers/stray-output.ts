// Our own session, which prints "hello" in front of the answer to a document with `stray`, answers one with `twice` twice, and gives
// one with `list` a list too many.

import { createInterface } from "node:readline";

import { Session } from "../../../viewserver/index.js";

const session = new Session({ mode: "lenient" });
const MAP_DOC = '["map_doc",';

for await (const line of createInterface({ input: process.stdin })) {
  const { output } = session.handle(line);
  const document = line.startsWith(MAP_DOC)
    ? (JSON.parse(line.slice(MAP_DOC.length, -1)) as Readonly<Record<string, unknown>>)
    : {};
  if (document["stray"] === true) process.stdout.write("hello\n");
  if (document["twice"] === true) process.stdout.write(output);
  process.stdout.write(document["list"] === true ? output.replace(/\]\n$/, ",[]]\n") : output);
}
