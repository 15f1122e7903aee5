// The mapping threads' program, which can note the id of every document whose functions it calls, before it calls them. The functions must
// read `_id`.

import { appendFileSync } from "node:fs";

import { Session } from "../../../viewserver/index.js";

export { default } from "../../../indexer/mapping/worker.js";

/** @param file - gets a line a call. */
export function noteInto(file: string): void {
  const note = (documents: string): void => {
    for (const { _id } of JSON.parse(documents) as { _id: string }[])
      appendFileSync(file, `${_id}\n`);
  };
  /* eslint-disable @typescript-eslint/unbound-method -- applied to each session */
  const { mapDocument, mapDocuments } = Session.prototype;
  /* eslint-enable @typescript-eslint/unbound-method */
  Session.prototype.mapDocument = function (text) {
    note(`[${text}]`);
    return mapDocument.call(this, text);
  };
  Session.prototype.mapDocuments = function (list) {
    note(list);
    return mapDocuments.call(this, list);
  };
}
