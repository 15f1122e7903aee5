// JSON text as bytes: finding where a value ends, telling whether its text is canonical, and rewriting it when it is not.
export { JsonScanner, scanValue } from "./scan.js";
export { canonicalJson } from "./canonical.js";
export { CodePoints } from "./code-points.js";
export { MemberNames } from "./names.js";
export * as syntax from "./syntax.js";
