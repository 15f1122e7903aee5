// What names the state that an answer was made from: the sequence it shows, and the opening of the file it came from.

import { randomBytes } from "node:crypto";

import type { Store } from "../../btree/index.js";
import { displaySeq } from "../sources/index.js";
import { decodeState } from "./group-index.js";

/** Decoded once a state, not once a query. */
const shownSeqs = new WeakMap<Uint8Array, string>();

/** JSON text of the sequence of a group's state. */
export function shownSeqOf(state: Uint8Array): string {
  let shown = shownSeqs.get(state);
  if (shown === undefined) {
    const { seq } = decodeState(state);
    shownSeqs.set(state, (shown = seq === null ? '"0"' : displaySeq(seq)));
  }
  return shown;
}

/** Offsets in a file are used again after a loss of power, so a root is known by this process' opening of the file. */
const instances = new WeakMap<Store, string>();

export function instanceOf(store: Store): string {
  let instance = instances.get(store);
  if (instance === undefined) instances.set(store, (instance = randomBytes(9).toString("hex")));
  return instance;
}
