// Links between documents, and from documents to sources, lead somewhere.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

import { describe, expect, test } from "@jest/globals";

import { anchors, filesBelow, links, readDocument, ROOT } from "./documents.js";

const documents = filesBelow(".", ".md");

function broken(path: string, target: string): string | undefined {
  if (/^[a-z]+:/.test(target)) return target.startsWith("http://") ? "use https" : undefined;
  const [file = "", anchor] = target.split("#");
  const other = file === "" ? path : join(dirname(path), decodeURI(file));
  if (!existsSync(join(ROOT, other))) return `there is no ${other}`;
  if (anchor !== undefined && !anchors(readDocument(other)).has(anchor))
    return `${other} has no heading for #${anchor}`;
  return undefined;
}

describe("documents", () => {
  test("are found", () => {
    expect(documents).toEqual(expect.arrayContaining(["README.md", join("btree", "FORMAT.md")]));
  });

  test.each(documents)("%s links to what exists", (path) => {
    const faults = links(readDocument(path)).flatMap((target) => {
      const why = broken(path, target);
      return why === undefined ? [] : [`${target}: ${why}`];
    });

    expect(faults).toEqual([]);
  });

  test.each(documents)("%s names no path of somebody's machine", (path) => {
    expect(readDocument(path)).not.toMatch(/\/(?:home|Users|work|tmp\/vm)\/\w/);
  });
});
