// What the attacks are measured against: a context with the host's own functions and objects in it, as one would write it at first.
// Run as a program it takes an attack's source from its arguments, and ends when the attack lets it.
import { runInNewContext } from "node:vm";

function documentOf(): unknown {
  return JSON.parse('{"_id":"x","tags":["a","b"],"o":{"p":1}}');
}

/** The host's helpers; `log` is the naive program's own. */
function sandboxOf(emit: (key: unknown, value: unknown) => void, log: (value: unknown) => void) {
  return {
    doc: documentOf(),
    emit,
    log,
    sum: (values: number[]) => values.reduce((a, b) => a + b, 0),
    setTimeout,
    console,
  };
}

function checkLength(value: unknown): void {
  if ((value as { toString(): string }).toString().length > 1e6) throw new Error("too long");
}

/** Runs a map function; answers the emitted keys, to which later ones are still added. */
export function runNaively(source: string): unknown[] {
  const emitted: unknown[] = [];
  const sandbox = sandboxOf((key) => {
    emitted.push(key);
  }, checkLength);
  runInNewContext(`(${source}).call(this, doc)`, sandbox);
  // A host prints what it got.
  JSON.stringify(emitted);
  return emitted;
}

/** Runs two map functions over one document, as a host does that keeps one context; answers the rows of the second. */
export function runNeighbours(first: string, second: string): unknown {
  let rows: unknown[] = [];
  const sandbox = sandboxOf((key, value) => {
    rows.push([key, value]);
  }, checkLength);
  for (const source of [first, second]) {
    rows = [];
    runInNewContext(`(${source}).call(this, doc)`, sandbox);
  }
  return JSON.parse(JSON.stringify(rows));
}

/** Runs a map function and prints the protocol's lines as one would write them by hand. */
function serveNaively(source: string): void {
  const rows: unknown[] = [];
  const print = (text: unknown): void => {
    process.stdout.write(`["log","${String(text)}"]\n`);
  };
  const sandbox = sandboxOf((key, value) => {
    rows.push([key, value]);
  }, print);
  try {
    runInNewContext(`(${source}).call(this, doc)`, sandbox);
  } catch (error) {
    print(`function raised exception ${String(error)}`);
  }
  process.stdout.write(`${JSON.stringify([rows])}\n`);
}

/** The program's exit code for an attack that worked at once. */
export const ESCAPED_EXIT = 42;

const [, , how, attack = ""] = process.argv;
if (how === "--attack" && runNaively(attack).includes("ESCAPED")) process.exitCode = ESCAPED_EXIT;
if (how === "--serve") serveNaively(attack);
