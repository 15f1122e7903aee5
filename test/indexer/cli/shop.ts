// A small design document in TypeScript, as a folder, and documents for it.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { tempDir } from "../../helpers/temp-dir.js";

export const MAP_TS = `import { dayOf } from "./day.ts";

interface Order { _id: string; at?: { day: string }; total: number }

export default function (doc: Order): void {
  log("seen " + doc._id);
  emit(dayOf(doc), doc.total);
}
`;
export const DAY_TS = `type Dated = { at?: { day: string } };

export function dayOf(doc: Dated): string {
  const at = doc.at as { day: string };
  return at.day.slice(0, 10);
}
`;
export const DOCS = [
  { _id: "b", at: { day: "2024-01-03T1" }, total: 4 },
  { _id: "a", at: { day: "2024-01-02T3" }, total: 7 },
  { _id: "c", total: 1 },
];

/** A folder with a design document whose map is TypeScript in two files, and three documents of which one fails. */
export function shop(): string {
  const dir = tempDir();
  const view = join(dir, "shop", "views", "by_day");
  mkdirSync(view, { recursive: true });
  writeFileSync(join(view, "map.ts"), MAP_TS);
  writeFileSync(join(view, "day.ts"), DAY_TS);
  writeFileSync(join(view, "reduce"), "_sum\n");
  writeFileSync(join(dir, "docs.ndjson"), DOCS.map((doc) => `${JSON.stringify(doc)}\n`).join(""));
  return dir;
}
