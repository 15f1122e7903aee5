// `viewmill compact`: rewrites index files as small as a first build makes them, older ones in the newest order of keys.

import { EXIT } from "./exit.js";
import { stoppable } from "./stoppable.js";
import { ViewIndex } from "../view-index.js";
import type { CommonFlags } from "./flags.js";

const MIB = 2 ** 20;

/** Works from DIR alone: the source is not opened. */
export async function compact(
  dir: string,
  ddoc: string | undefined,
  flags: CommonFlags,
): Promise<number> {
  return stoppable((signal) => compactFiles(dir, ddoc, flags, signal));
}

async function compactFiles(
  dir: string,
  ddoc: string | undefined,
  flags: CommonFlags,
  signal: AbortSignal,
): Promise<number> {
  const talk = (line: string): void => {
    if (!flags.quiet) process.stderr.write(`${line}\n`);
  };
  const index = await ViewIndex.open({
    dir,
    offline: true,
    onWarning: (message) => {
      talk(`viewmill: ${message}`);
    },
  });
  try {
    const { groups } = await index.info();
    const namesOf = (signature: string): string[] =>
      groups
        .filter((group) => group.signature === signature)
        .map(({ designDocument }) => designDocument);
    let told = "";
    const results = await index.compact(ddoc, {
      signal,
      onProgress: ({ signature, phase, rows, rowsTotal }) => {
        const tenth = `${phase} ${Math.floor((rows * 10) / Math.max(1, rowsTotal))}`;
        if (phase === "catch-up" || tenth === told) return;
        told = tenth;
        if (flags.json)
          process.stdout.write(
            `${JSON.stringify({ progress: { designDocuments: namesOf(signature), phase, rows, rowsTotal } })}\n`,
          );
        else
          talk(
            `${namesOf(signature).join(", ")}: ${rows.toLocaleString("en-US")} of ${rowsTotal.toLocaleString("en-US")} rows ${phase === "sort" ? "sorted" : "copied"}`,
          );
      },
    });
    if (results.length === 0)
      talk("viewmill: nothing was built yet, so there is nothing to compact");
    if (flags.json)
      process.stdout.write(
        `${JSON.stringify({ done: results.map((result) => ({ designDocuments: namesOf(result.signature), ...result })) })}\n`,
      );
    else
      for (const { signature, bytesBefore, bytesAfter, collationBefore, collation } of results)
        process.stdout.write(
          `${namesOf(signature).join(", ")}  ${size(bytesBefore)}, now ${size(bytesAfter)}${
            collation === collationBefore
              ? ""
              : `; order of keys version ${collationBefore}, now ${collation}`
          }\n`,
        );
    return EXIT.done;
  } finally {
    await index.close();
  }
}

/** Small files are told exactly: half of one is not 0.0 MiB. */
function size(bytes: number): string {
  return bytes < MIB ? `${bytes.toLocaleString("en-US")} bytes` : `${(bytes / MIB).toFixed(1)} MiB`;
}
