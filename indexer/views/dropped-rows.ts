// The rows that an id tree holds as dropped (id-entry.ts), tree by tree, for a renewal (renewal.ts): gathered in one pass, sorted on disk, so
// that memory does not grow with the index.

import type { EntryTarget } from "../../btree/index.js";
import { droppedRows, ID_DROPPED } from "./id-entry.js";
import { RowSorter } from "./row-sorter.js";

const TREE_BYTES = 2;

export class DroppedRows {
  readonly #sorter: RowSorter;
  #sorted: ReturnType<RowSorter["sorted"]> | undefined;
  #next: ReturnType<ReturnType<RowSorter["sorted"]>["next"]> | undefined;

  /** @param path - of the file in which they are sorted. */
  constructor(path: string) {
    this.#sorter = new RowSorter(path);
  }

  /** Takes the entries of the id tree. */
  get target(): EntryTarget {
    return {
      needsDrain: false,
      drain: () => Promise.resolve(),
      add: (kb, ks, ke, vb, vs, ve) => {
        if (((vb[vs] as number) & ID_DROPPED) === 0) return;
        for (const { tree, row } of droppedRows(vb.subarray(vs, ve)))
          this.#add(tree, kb.subarray(ks, ke), row);
      },
    };
  }

  /** Those of one tree, by document. To be asked for trees by ascending number, once each, after all entries were taken. */
  *of(tree: number): IterableIterator<{ readonly id: Uint8Array; readonly row: Uint8Array }> {
    this.#sorted ??= this.#sorter.sorted();
    this.#next ??= this.#sorted.next();
    while (this.#next.done !== true) {
      const { key, value } = this.#next.value;
      const found = ((key[0] as number) << 8) | (key[1] as number);
      if (found > tree) return;
      if (found === tree) yield { id: key.subarray(TREE_BYTES), row: value };
      this.#next = this.#sorted.next();
    }
  }

  close(): void {
    this.#sorter.close();
  }

  #add(tree: number, id: Uint8Array, row: Uint8Array): void {
    const { batch } = this.#sorter;
    batch.ensure(TREE_BYTES + id.length + row.length);
    const start = batch.used;
    batch.bytes[start] = tree >>> 8;
    batch.bytes[start + 1] = tree & 0xff;
    const keyEnd = start + TREE_BYTES + id.length;
    batch.bytes.set(id, start + TREE_BYTES);
    batch.bytes.set(row, keyEnd);
    batch.used = keyEnd + row.length;
    this.#sorter.push(start, keyEnd, batch.used);
  }
}
