// The text of several answers.

import { type ViewAnswer } from "./answer.js";

/** The answers of several queries in CouchDB's bytes (VIEWS §18, §20), each asked for when the one before has been read. */
export async function* queriesText(
  answers: Iterable<ViewAnswer> | AsyncIterable<ViewAnswer>,
): AsyncGenerator<string, void, undefined> {
  let before = '{"results":[\r\n';
  for await (const answer of answers) {
    yield* answer.textWithin(before);
    before = ",\r\n";
  }
  yield before === ",\r\n" ? "\r\n]}\n" : `${before}]}\n`;
}
