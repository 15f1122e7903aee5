// Tables of documents say what the code says, both ways: error codes, exit codes, commands and their options.

import { afterEach, describe, expect, jest, test } from "@jest/globals";

import { BTREE_ERROR_CODES } from "../../btree/index.js";
import { EXIT } from "../../indexer/cli/exit.js";
import { runCli } from "../../indexer/cli/program.js";
import { INDEXER_ERROR_CODES } from "../../indexer/index.js";
import { PROTOCOL_ERROR_CODES } from "../../protocol/index.js";
import { VIEWSERVER_ERROR_CODES } from "../../viewserver/index.js";
import { filesBelow, readDocument, tableRows } from "./documents.js";

const CODES: Readonly<Record<string, string>> = {
  ...INDEXER_ERROR_CODES,
  ...BTREE_ERROR_CODES,
  ...PROTOCOL_ERROR_CODES,
  ...VIEWSERVER_ERROR_CODES,
};

afterEach(() => {
  jest.restoreAllMocks();
});

/** What `viewmill ARGS` prints. */
async function printed(...args: string[]): Promise<string> {
  let text = "";
  jest.spyOn(process.stdout, "write").mockImplementation((chunk) => {
    text += String(chunk);
    return true;
  });
  await runCli(args);
  jest.restoreAllMocks();
  return text;
}

async function commands(): Promise<string[]> {
  const [, list = ""] = (await printed("--help")).split("Commands:");
  return [...list.matchAll(/^ {2}([a-z]+) /gm)]
    .map(([, name]) => name ?? "")
    .filter((name) => name !== "help");
}

async function optionsOf(command: string): Promise<string[]> {
  const [, list = ""] = (await printed(command, "--help")).split("Options:");
  return [...list.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, name]) => name ?? "");
}

describe("the README", () => {
  const readme = readDocument("README.md");

  test("has every error code with its meaning, and no other", () => {
    const told = tableRows(readme).flatMap(([code = "", meaning]) =>
      /^`[A-Z]+_[A-Z_]+`$/.test(code) ? [[code.slice(1, -1), meaning]] : [],
    );

    expect(Object.fromEntries(told)).toEqual(CODES);
    expect(told).toHaveLength(Object.keys(CODES).length);
  });

  test("has every exit code, as docs/cli.md has, and no other", () => {
    const codes = Object.values(EXIT).sort((a, b) => a - b);

    for (const document of [readme, readDocument("docs/cli.md")])
      expect(
        tableRows(document).flatMap(([code = ""]) => (/^\d+$/.test(code) ? [Number(code)] : [])),
      ).toEqual(codes);
  });

  test("has every command, and no other", async () => {
    const told = tableRows(readme).flatMap(([name = ""]) =>
      /^`[a-z]+`$/.test(name) ? [name.slice(1, -1)] : [],
    );

    expect(told.sort()).toEqual((await commands()).sort());
  });
});

describe("docs/cli.md", () => {
  const document = readDocument("docs/cli.md");

  test("has every command, and no other", async () => {
    const told = tableRows(document).flatMap(
      ([name = ""]) => /^`viewmill ([a-z]+)[^`]*`$/.exec(name)?.[1] ?? [],
    );

    expect(told.sort()).toEqual((await commands()).sort());
  });

  test("has every option of every command, and no other", async () => {
    const known = new Set(["--help", "--version", "--lenient"]);
    for (const command of await commands())
      for (const option of await optionsOf(command)) known.add(option);
    const told = new Set(document.match(/(?<![\w-])--[a-z][a-z-]+/g));

    expect([...told].filter((option) => !known.has(option))).toEqual([]);
    expect([...known].filter((option) => !told.has(option))).toEqual(["--lenient"]);
  });
});

describe("docs/library.md", () => {
  test("has every option of an index, and no other", () => {
    const [, , table = ""] =
      /^## Options$([\s\S]*?)(\|[\s\S]*?)\n\n/m.exec(readDocument("docs/library.md")) ?? [];
    const told = tableRows(table).flatMap(([names = ""]) =>
      [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name),
    );
    const [, members = ""] =
      /export interface ViewIndexOptions \{([\s\S]*?)^\}/m.exec(
        readDocument("indexer/options.ts"),
      ) ?? [];

    expect(told.sort()).toEqual(
      [...members.matchAll(/^ {2}readonly (\w+)/gm)].map(([, name]) => name).sort(),
    );
  });
});

describe("documents", () => {
  test.each(filesBelow(".", ".md"))(
    "%s shows commands with options that they have",
    async (path) => {
      const known = new Set(await commands());
      const shown =
        readDocument(path)
          .replaceAll("\\\n", " ")
          .match(/^(?: {4}|\$ )?viewmill [a-z]+ .*$/gm) ?? [];
      const faults: string[] = [];
      for (const line of shown) {
        const [, command = ""] = /viewmill ([a-z]+)/.exec(line) ?? [];
        if (!known.has(command)) continue;
        const options = new Set(await optionsOf(command));
        for (const option of line.match(/ --[a-z-]+/g) ?? [])
          if (!options.has(option.trim())) faults.push(line);
      }

      expect(faults).toEqual([]);
    },
  );
});
