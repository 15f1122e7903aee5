// Map functions that try to put a line of their own on the server's output, where it would pass for the reply to another document.
import type { Attack } from "./attacks.js";

/** The line that must not stand on stdout. */
export const FORGED_LINE = '[[["ESCAPED",1]]]';

const LINE = JSON.stringify(FORGED_LINE);
const forges = (name: string, body: string): Attack => ({ name, body, naive: "forges a reply" });

export const forgeries: readonly Attack[] = [
  forges("a line of the console", `console.log(${LINE});`),
  forges("a log text with line ends and quotes", `log('x"]\\n' + ${LINE} + '\\n["log","');`),
  forges(
    "a log value whose toString has line ends",
    `log({ toString: function () { return 'x"]\\n' + ${LINE} + '\\n'; } });`,
  ),
  forges("an exception's message", `throw new Error('x"]\\n' + ${LINE} + '\\n');`),
  forges("a thrown text", `throw 'x"]\\n' + ${LINE} + '\\n';`),
  forges(
    "an exception's name",
    `var e = new Error("x"); e.name = 'x"]\\n' + ${LINE} + '\\n'; throw e;`,
  ),
];
