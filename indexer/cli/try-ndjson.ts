// Small streams of JSON lines that people write and read: samples, examples, results. The ndjson package parses and prints them. What it
// would do silently is caught here: a line that holds just `null` would end the stream, a bad line has no number, and a long line costs
// the square of its length. Sources of documents do not come this way: they are never parsed as a whole (sources/).

import { once } from "node:events";

import ndjson from "ndjson";

import { UsageError } from "./exit.js";

/** Longer lines are refused: samples are for people. */
const LINE_BYTES_MAX = 1024 * 1024;
const LF = 0x0a;

function shown(line: string): string {
  return line.trim().slice(0, 60);
}

/**
 * The objects of a stream, at most `max`; reads no further than it must.
 *
 * @param label - what messages call the stream.
 * @throws UsageError naming the line that is no JSON object.
 */
export async function readObjects(
  input: AsyncIterable<Uint8Array | string>,
  label: string,
  max = Number.POSITIVE_INFINITY,
): Promise<Record<string, unknown>[]> {
  const found: unknown[] = [];
  const parser = ndjson.parse();
  let number = 0;
  let fault: UsageError | undefined;
  parser.on("data", (value: unknown) => found.push(value));
  const feed = (bytes: Buffer): void => {
    number++;
    const text = bytes.toString("utf8").trim();
    const refuse = (why: string): void => {
      fault ??= new UsageError(`${label}, line ${number}: ${why}: ${shown(text)}`);
    };
    if (bytes.length > LINE_BYTES_MAX)
      refuse(`longer than ${LINE_BYTES_MAX} bytes; give large documents with --source FILE`);
    else if (text !== "" && !text.startsWith("{")) refuse("expected a JSON object");
    // A line of blanks is no bad one.
    if (fault || text === "") return;
    // The parser tells of a bad line while it is written.
    parser.once("error", () => {
      refuse("not JSON");
    });
    parser.write(bytes);
    parser.removeAllListeners("error");
  };
  let rest: Buffer = Buffer.alloc(0);
  let objects = 0;
  reading: for await (const chunk of input) {
    rest = Buffer.concat([rest, typeof chunk === "string" ? Buffer.from(chunk) : chunk]);
    for (let end = rest.indexOf(LF); end >= 0; end = rest.indexOf(LF)) {
      const line = rest.subarray(0, end + 1);
      rest = rest.subarray(end + 1);
      feed(line);
      if (fault) throw fault;
      if (line.some((byte) => byte > 0x20) && ++objects >= max) break reading;
    }
    if (rest.length > LINE_BYTES_MAX) feed(rest);
  }
  if (objects < max && rest.some((byte) => byte > 0x20))
    feed(Buffer.concat([rest, Buffer.from([LF])]));
  if (fault) throw fault;
  const ended = once(parser, "end");
  parser.end();
  await ended;
  return found as Record<string, unknown>[];
}

/** Prints objects as lines on stdout; `end` resolves when all are handed over. */
export function objectWriter(output: NodeJS.WritableStream): {
  write(object: object): void;
  end(): Promise<void>;
} {
  const printer = ndjson.stringify();
  printer.pipe(output, { end: false });
  return {
    write: (object) => {
      printer.write(object);
    },
    end: async () => {
      const ended = once(printer, "end");
      printer.end();
      await ended;
    },
  };
}
