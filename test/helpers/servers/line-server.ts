// The skeleton of the misbehaving view servers: reads 4 KiB at a time, answers a command before it looks at the next, and blocks
// in its writes. So it is as strictly half-duplex as a server can be: it does not read while an answer of its own is unread.

import { readSync, writeSync } from "node:fs";

/** What a server logs when it has started, so that no test depends on how long that takes. */
export const READY = "ready";

/** A command as the server sees it. */
export interface Received {
  readonly name: string;
  /** The document of a map_doc, else an empty object. */
  readonly document: Readonly<Record<string, unknown>>;
}

/**
 * Logs READY, and answers each command with the text that `answer` returns (its LFs included), or `behave` where that is
 * undefined. Returns at the end of the input.
 */
export function serve(answer: (command: Received) => string | undefined): void {
  let carry = Buffer.alloc(0);
  print(`["log","${READY}"]\n`);
  for (;;) {
    const input = Buffer.allocUnsafe(4096);
    const length = retry(() => readSync(0, input, 0, input.length, null));
    if (length === 0) return;
    carry = Buffer.concat([carry, input.subarray(0, length)]);
    for (let lf = carry.indexOf(10); lf !== -1; lf = carry.indexOf(10)) {
      const command = parse(carry.subarray(0, lf).toString("utf8"));
      carry = carry.subarray(lf + 1);
      print(answer(command) ?? behave(command));
    }
  }
}

/** What a good server says: `true`, or one row with the document's id, or the answer to an empty reduce. */
export function behave({ name, document }: Received): string {
  if (name === "map_doc") return `${JSON.stringify([[[document["_id"], null]]])}\n`;
  if (name === "reduce") return "[true,[]]\n";
  return "true\n";
}

/** Writes all of it, waiting for the reader. */
export function print(text: string): void {
  const bytes = Buffer.from(text);
  let written = 0;
  while (written < bytes.length) {
    written += retry(() => writeSync(1, bytes, written));
  }
}

/** Never returns, never reads. */
export function hang(): never {
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000);
}

function parse(line: string): Received {
  const [name, first] = JSON.parse(line) as [string, unknown];
  return { name, document: name === "map_doc" ? (first as Record<string, unknown>) : {} };
}

/** A descriptor may be non-blocking, depending on who made it. */
function retry(call: () => number): number {
  for (;;) {
    try {
      return call();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EOF") return 0;
      if (code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
