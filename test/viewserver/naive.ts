// What the attacks are measured against: a context with the host's own functions and objects in it, as one would write it at first.
// Run as a program it takes an attack's source from its arguments, and ends when the attack lets it.
import { runInNewContext } from "node:vm";

/** Runs a map function; answers the emitted keys, to which later ones are still added. */
export function runNaively(source: string): unknown[] {
  const emitted: unknown[] = [];
  const doc: unknown = JSON.parse('{"_id":"x","tags":["a","b"],"o":{"p":1}}');
  const sandbox = {
    doc,
    emit: (key: unknown) => {
      emitted.push(key);
    },
    log: (value: { toString(): string }) => {
      if (value.toString().length > 1e6) throw new Error("too long");
    },
    sum: (values: number[]) => values.reduce((a, b) => a + b, 0),
    setTimeout,
    console,
  };
  runInNewContext(`(${source}).call(this, doc)`, sandbox);
  // A host prints what it got.
  JSON.stringify(emitted);
  return emitted;
}

/** The program's exit code for an attack that worked at once. */
export const ESCAPED_EXIT = 42;

if (process.argv[2] === "--attack" && runNaively(process.argv[3] ?? "").includes("ESCAPED")) {
  process.exitCode = ESCAPED_EXIT;
}
