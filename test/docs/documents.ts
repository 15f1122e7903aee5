// Reads the repository's Markdown as tests need it: files, headings, links, tables and code blocks.

import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

/** The root of the source tree. */
export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

const SKIPPED = new Set(["node_modules", "dist", "coverage", "fixtures", "rivals"]);

export function readDocument(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** Paths below the root, without folders whose names begin with a dot. */
export function filesBelow(folder: string, ending: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory())
      return SKIPPED.has(entry.name) || entry.name.startsWith(".") ? [] : filesBelow(path, ending);
    return entry.name.endsWith(ending) ? [relative(".", path)] : [];
  });
}

/** The text without fenced code blocks. */
export function prose(markdown: string): string {
  return markdown.replace(/^```[^\n]*\n[\s\S]*?^```[^\n]*$/gm, "");
}

/** Contents of fenced blocks of this language, in order. */
export function codeBlocks(markdown: string, language: string): string[] {
  return [...markdown.matchAll(/^```([^\n]*)\n([\s\S]*?)^```[^\n]*$/gm)]
    .filter(([, info]) => info?.trim() === language)
    .map(([, , code]) => code ?? "");
}

/** Anchors that GitHub makes from the headings. */
export function anchors(markdown: string): Set<string> {
  return new Set(
    [...prose(markdown).matchAll(/^#{1,6} +(.+)$/gm)].map(([, heading]) =>
      (heading ?? "")
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\p{M} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

/** Targets of links, without code. */
export function links(markdown: string): string[] {
  const text = prose(markdown).replace(/`[^`\n]*`/g, "");
  return [...text.matchAll(/\]\(([^()\s]+(?:\([^()]*\))?[^()\s]*)\)/g)].map(
    ([, target]) => target ?? "",
  );
}

/** Cells of all table rows, head and rule included. */
export function tableRows(markdown: string): string[][] {
  return prose(markdown)
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) =>
      line
        .slice(1, line.lastIndexOf("|"))
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim()),
    );
}
