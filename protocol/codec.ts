// Commands to lines, and the replies of the map and reduce commands checked for their shape, with the path to the fault. Pure.

import { ProtocolError } from "./errors.js";

/**
 * The line of a command, with its LF.
 * @throws TypeError if the command is not an array that begins with its name, or has no JSON form.
 */
export function encodeCommand(command: readonly unknown[]): Uint8Array {
  if (!Array.isArray(command) || typeof command[0] !== "string") {
    throw new TypeError("a command is an array that begins with its name");
  }
  return Buffer.from(`${JSON.stringify(command)}\n`);
}

/**
 * Checks the answer to `reset`, `add_lib`, `add_fun` and `ddoc new`: `true`.
 * @throws ProtocolError PROTOCOL_BAD_REPLY
 */
export function readAcknowledgement(reply: unknown): void {
  if (reply !== true) throw badReply("reply", "true", reply);
}

/** The pairs one map function emitted, in order. */
export type EmittedPairs = readonly (readonly [key: unknown, value: unknown])[];

/**
 * Checks the answer to `map_doc`: one array of `[key, value]` pairs for each of `functionCount` functions.
 * @throws ProtocolError PROTOCOL_BAD_REPLY
 */
export function readMapReply(reply: unknown, functionCount: number): readonly EmittedPairs[] {
  const perFunction = arrayAt("reply", reply, functionCount);
  for (let index = 0; index < perFunction.length; index++) {
    const path = `reply[${index}]`;
    const pairs = arrayAt(path, perFunction[index]);
    for (let pair = 0; pair < pairs.length; pair++) arrayAt(`${path}[${pair}]`, pairs[pair], 2);
  }
  return perFunction as readonly EmittedPairs[];
}

/**
 * Checks the answer to `reduce` and `rereduce`: `[true, results]` with `functionCount` results, which are returned.
 * @throws ProtocolError PROTOCOL_BAD_REPLY
 */
export function readReduceReply(reply: unknown, functionCount: number): readonly unknown[] {
  const [flag, results] = arrayAt("reply", reply, 2);
  if (flag !== true) throw badReply("reply[0]", "true", flag);
  return arrayAt("reply[1]", results, functionCount);
}

function arrayAt(path: string, value: unknown, length?: number): readonly unknown[] {
  if (!Array.isArray(value)) throw badReply(path, "an array", value);
  const array: readonly unknown[] = value;
  if (length !== undefined && array.length !== length) {
    throw badReply(path, `an array of ${length}`, value);
  }
  return array;
}

/** Characters of an offending value that an error shows. */
const EXCERPT_CHARACTERS = 80;

function badReply(path: string, expected: string, found: unknown): ProtocolError {
  const shown = (JSON.stringify(found) as string | undefined) ?? "nothing";
  const excerpt = shown.slice(0, EXCERPT_CHARACTERS);
  return new ProtocolError(
    "PROTOCOL_BAD_REPLY",
    `the view server's answer is not what the command asks for: ${path} should be ${expected}, not ${excerpt}`,
    { path },
  );
}
