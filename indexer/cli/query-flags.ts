// CouchDB's query parameters as flags: every name and alias, with dashes or underscores, handed on in the order given, because the
// order of key, startkey and endkey counts (VIEWS §7).

import { Option } from "commander";

// Not through the folder's index: this is loaded at every start, and the rest of the folder only by queries.
import { PARAMETER_NAMES } from "../query/parameters.js";

const BOOLEAN = new Set([
  "inclusive_end",
  "descending",
  "reduce",
  "group",
  "include_docs",
  "conflicts",
  "attachments",
  "att_encoding_info",
  "stable",
  "update_seq",
  "sorted",
  "explain",
]);

/** One option for each spelling; a flag that is met adds to `parameters`. */
export function queryParameter(parameters: [string, string][]): Option[] {
  const options: Option[] = [];
  for (const name of [...PARAMETER_NAMES].filter((n) => n !== "queries")) {
    const spellings = new Set([name.replaceAll("_", "-"), name]);
    for (const spelling of spellings) {
      const value = BOOLEAN.has(name) ? "[value]" : "<value>";
      const option = new Option(`--${spelling} ${value}`, `CouchDB's ${name}`)
        .preset("true")
        .argParser((text: string) => {
          parameters.push([name, text]);
          return text;
        });
      if (spelling !== name.replaceAll("_", "-")) option.hideHelp();
      options.push(option);
    }
  }
  return options;
}
