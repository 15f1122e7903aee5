// Does an index hold what the naive computation says? Reads every row and every group of every view.

import { ViewIndex } from "../../indexer/index.js";
import { check } from "./subject.js";
import {
  addRow,
  emptyContent,
  KINDS,
  nearlyEqual,
  reductionOf,
  type Expected,
  type Kind,
} from "./views.js";

/** @throws WrongAnswer naming the view and what differs. */
export async function verifyIndex(dir: string, kind: Kind, expected: Expected): Promise<void> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  try {
    await verifyOpen(index, kind, expected);
  } finally {
    await index.close();
  }
}

/** The same for an index that is open. */
export async function verifyOpen(index: ViewIndex, kind: Kind, expected: Expected): Promise<void> {
  for (const [view, { reduce }] of Object.entries(KINDS[kind])) {
    const wanted = expected.views[view] ?? emptyContent();
    const found = emptyContent();
    const rows = await index.query(kind, view, { reduce: false, update: "false" });
    check(
      rows.totalRows === wanted.rows,
      `${view}: total_rows ${String(rows.totalRows)}, expected ${wanted.rows}`,
    );
    let last: { key: unknown; id: string } | undefined;
    for await (const page of rows.pages())
      for (const text of page) {
        const row = JSON.parse(text) as { id: string; key: unknown; value: unknown };
        addRow(found, row.id, JSON.stringify(row.key), JSON.stringify(row.value));
        // Within a key the ids are in order; a document may have emitted a key twice.
        if (last !== undefined && last.key === row.key)
          check(last.id <= row.id, `${view}: ids out of order at ${row.id}`);
        last = row;
      }
    check(found.rows === wanted.rows, `${view}: ${found.rows} rows, expected ${wanted.rows}`);
    check(found.digest === wanted.digest, `${view}: the rows differ from the naive ones`);
    let groups = 0;
    const reduced = await index.query(kind, view, { group: true, update: "false" });
    for await (const page of reduced.pages())
      for (const text of page) {
        const row = JSON.parse(text) as { key: unknown; value: unknown };
        const group = wanted.groups.get(JSON.stringify(row.key));
        check(
          group !== undefined,
          `${view}: a group ${JSON.stringify(row.key)} that should not be`,
        );
        check(
          nearlyEqual(row.value, reductionOf(reduce, group)),
          `${view}: ${text}, expected ${JSON.stringify(reductionOf(reduce, group))}`,
        );
        groups++;
      }
    check(
      groups === wanted.groups.size,
      `${view}: ${groups} groups, expected ${wanted.groups.size}`,
    );
  }
}
