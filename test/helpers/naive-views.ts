// Views as VIEWS.md tells them, over all rows in memory, without a thought for speed: what a query must answer. It shares no code with the
// indexer, and is meant to be read beside that document; the numbers are its sections.

export interface Doc {
  readonly _id: string;
  /** What the map function emits, in order. */
  readonly rows: readonly (readonly [key: unknown, value: unknown])[];
}

export type Kind =
  "none" | "_sum" | "_count" | "_stats" | "_first" | "_last" | "_top_2" | "_bottom_2" | "custom";

interface Row {
  readonly id: string;
  readonly key: unknown;
  readonly value: unknown;
}

export type Parameters = Readonly<Record<string, unknown>>;

/** An answer, or what an error says. */
export type Outcome = Readonly<Record<string, unknown>> | { readonly refused: string };

const collator = new Intl.Collator("en", {
  usage: "sort",
  sensitivity: "variant",
  ignorePunctuation: false,
  numeric: false,
  caseFirst: "false",
});

type Compare = (a: unknown, b: unknown) => number;

function bytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** 6 */
function rank(value: unknown): number {
  if (value === null) return 0;
  if (value === false) return 1;
  if (value === true) return 2;
  if (typeof value === "number") return 3;
  if (typeof value === "string") return 4;
  return Array.isArray(value) ? 5 : 6;
}

/** 6, raw: numbers < false < null < true < objects < arrays < strings. */
function rawRank(value: unknown): number {
  return [2, 1, 3, 0, 6, 5, 4][rank(value)] as number;
}

function lexical(a: readonly unknown[], b: readonly unknown[], compare: Compare): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const order = compare(a[i], b[i]);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function comparing(rankOf: (value: unknown) => number, strings: (a: string, b: string) => number) {
  const compare = (a: unknown, b: unknown): number => {
    const order = rankOf(a) - rankOf(b);
    if (order !== 0) return order;
    if (typeof a === "number") return a - (b as number);
    if (typeof a === "string") return strings(a, b as string);
    if (Array.isArray(a)) return lexical(a, b as unknown[], compare);
    if (a === null || typeof a !== "object") return 0;
    // Member by member in the order written: a name, its value, the next name.
    return lexical(Object.entries(a).flat(), Object.entries(b as object).flat(), compare);
  };
  return compare;
}

export const collate = comparing(rank, (a, b) => collator.compare(a, b));
export const rawCollate = comparing(rawRank, bytes);

/** 3, 5 */
export function rowsOf(docs: readonly Doc[], order: Compare): Row[] {
  const slots: { readonly id: string; readonly key: unknown; readonly values: unknown[] }[] = [];
  for (const { _id: id, rows } of docs) {
    const own: { id: string; key: unknown; values: unknown[] }[] = [];
    for (const [key, value] of rows) {
      const same = own.find((slot) => JSON.stringify(slot.key) === JSON.stringify(key));
      if (same) same.values.push(value);
      else own.push({ id, key, values: [value] });
    }
    // Keys of one document that collate equally are one row: that of the higher bytes.
    for (const slot of own) {
      slot.values.sort(rawCollate);
      const higher = own.some(
        (other) =>
          other !== slot &&
          order(other.key, slot.key) === 0 &&
          bytes(JSON.stringify(other.key), JSON.stringify(slot.key)) > 0,
      );
      if (!higher) slots.push(slot);
    }
  }
  slots.sort((a, b) => order(a.key, b.key) || bytes(a.id, b.id));
  return slots.flatMap(({ id, key, values }) => values.map((value) => ({ id, key, value })));
}

function refuse(reason: string): { refused: string } {
  return { refused: `400 query_parse_error: ${reason}` };
}

/** Has a place in the range: before it, in it, behind it. */
type Place = -1 | 0 | 1;

interface Range {
  readonly start: unknown;
  readonly startId: string | undefined;
  readonly end: unknown;
  readonly endId: string | undefined;
  readonly inclusive: boolean;
}

const ABSENT = Symbol("absent");

/** 9; in the direction of the scan. */
function placeOf(row: Row, range: Range, order: Compare, descending: boolean): Place {
  const sign = descending ? -1 : 1;
  const against = (key: unknown, id: string | undefined): number =>
    sign * (order(row.key, key) || (id === undefined ? 0 : bytes(row.id, id)));
  if (range.start !== ABSENT && against(range.start, range.startId) < 0) return -1;
  if (range.end === ABSENT) return 0;
  const behind = against(range.end, range.endId);
  return behind > 0 || (behind === 0 && !range.inclusive) ? 1 : 0;
}

/** Slots come in the order of the scan, values within one always in theirs (5). */
function inScanOrder(rows: readonly Row[], descending: boolean): Row[] {
  if (!descending) return [...rows];
  const slots: Row[][] = [];
  for (const row of rows) {
    const last = slots.at(-1)?.[0];
    if (last?.id === row.id && JSON.stringify(last.key) === JSON.stringify(row.key))
      slots.at(-1)?.push(row);
    else slots.push([row]);
  }
  return slots.reverse().flat();
}

function add(a: unknown, b: unknown): unknown {
  if (typeof a === "number" && typeof b === "number") return a + b;
  const [x, y] = [a, b].map((side) =>
    Array.isArray(side) ? (side as number[]) : [side as number],
  );
  return Array.from(
    { length: Math.max(x?.length ?? 0, y?.length ?? 0) },
    (_, i) => (x?.[i] ?? 0) + (y?.[i] ?? 0),
  );
}

/** 16 */
function reduced(kind: Kind, rows: readonly Row[]): unknown {
  const values = rows.map(({ value }) => value);
  const numbers = values as number[];
  const distinct = values
    .toSorted(collate)
    .filter((value, i, all) => i === 0 || collate(value, all[i - 1]) !== 0);
  // By ICU, in raw views too; in whatever direction the rows are asked for.
  const byRow = rows.toSorted(
    (a, b) => collate(a.key, b.key) || bytes(a.id, b.id) || rawCollate(a.key, b.key),
  );
  const sameRow = (a: Row, b: Row | undefined): boolean =>
    b !== undefined && a.id === b.id && collate(a.key, b.key) === 0;
  switch (kind) {
    case "_sum":
      return values.reduce(add, 0);
    case "_count":
    case "custom":
      return values.length;
    case "_stats":
      return {
        sum: numbers.reduce((a, b) => a + b, 0),
        count: numbers.length,
        min: Math.min(...numbers),
        max: Math.max(...numbers),
        sumsqr: numbers.reduce((a, b) => a + b * b, 0),
      };
    case "_first":
      // Several values of one document and key are folded from the last on (REDUCES.md, as CouchDB was seen to do).
      return byRow.findLast((row) => sameRow(row, byRow[0]))?.value;
    case "_last":
      return byRow.find((row) => sameRow(row, byRow.at(-1)))?.value;
    case "_top_2":
      return distinct.toReversed().slice(0, 2);
    case "_bottom_2":
      return distinct.slice(0, 2);
    case "none":
      throw new Error("a view without a reduce");
  }
}

export function ask(
  docs: readonly Doc[],
  kind: Kind,
  raw: boolean,
  parameters: Parameters,
): Outcome {
  const order = raw ? rawCollate : collate;
  const p = new Map<string, unknown>();
  // 7: `key` sets both ends where it stands.
  for (const [name, value] of Object.entries(parameters)) {
    if (name === "key") p.set("startkey", value).set("endkey", value);
    // 10: a list of one key is that key.
    else if (name === "keys" && (value as unknown[]).length === 1)
      p.set("startkey", (value as unknown[])[0]).set("endkey", (value as unknown[])[0]);
    else p.set(name, value);
  }
  const get = (name: string, fallback?: unknown): unknown => (p.has(name) ? p.get(name) : fallback);
  const group = get("group");
  const groupLevel = get("group_level") as number | undefined;
  const keys = get("keys") as unknown[] | undefined;
  const descending = get("descending", false) as boolean;
  const limit = get("limit", Infinity) as number;
  const skip = get("skip", 0) as number;
  const isReduce = kind !== "none" && get("reduce") !== false;
  const level = groupLevel ?? (group === true ? "exact" : 0);

  // 8
  if (group === false && groupLevel !== undefined && groupLevel > 0)
    return refuse("Can't specify group=false and group_level>0 at the same time");
  if (kind === "none" && get("reduce") === true)
    return refuse("Reduce is invalid for map-only views.");
  if (isReduce && keys && level !== "exact")
    return refuse("Multi-key fetches for reduce views must use `group=true`");
  if (keys && keys.length > 0 && (p.has("startkey") || p.has("endkey")))
    return refuse("`keys` is incompatible with `key`, `start_key` and `end_key`");
  if (!isReduce && level !== 0) return refuse("Invalid use of grouping on a map view.");
  if (isReduce && get("include_docs") === true)
    return refuse("`include_docs` is invalid for reduce");
  if (isReduce && p.has("conflicts")) return refuse("`conflicts` is invalid for reduce views.");

  const startId = get("startkey_docid") as string | undefined;
  const endId = get("endkey_docid") as string | undefined;
  const inclusive = get("inclusive_end", true) as boolean;
  const rangeOf = (start: unknown, end: unknown): Range => ({
    start,
    startId,
    end,
    endId,
    inclusive,
  });
  const whole = rangeOf(get("startkey", ABSENT), get("endkey", ABSENT));
  // 9: impossible ranges
  if (
    p.has("startkey") &&
    p.has("endkey") &&
    JSON.stringify(whole.start) !== JSON.stringify(whole.end)
  ) {
    const [low, high] = descending ? [1, 0] : [0, 1];
    const idOrder =
      startId === undefined && endId === undefined
        ? low - high
        : startId === undefined
          ? descending
            ? 1
            : -1
          : endId === undefined
            ? descending
              ? 1
              : -1
            : bytes(startId, endId);
    const before = (order(whole.start, whole.end) || idOrder) < 0;
    if (before === descending)
      return refuse(
        `No rows can match your key range, reverse your start_key and end_key or set descending=${String(!descending)}`,
      );
  }

  const all = inScanOrder(rowsOf(docs, order), descending);
  const scan = (range: Range): Row[] =>
    all.filter((row) => placeOf(row, range, order, descending) === 0);

  if (isReduce) {
    const result = (key: unknown, rows: readonly Row[]): unknown => ({
      key,
      value: reduced(kind, rows),
    });
    let results: unknown[] = [];
    if (keys)
      for (const key of keys) {
        const rows = scan(rangeOf(key, key));
        if (rows[0]) results.push(result(rows[0].key, rows));
      }
    else {
      const cut = (key: unknown): unknown => {
        if (level === 0) return null;
        return typeof level === "number" && Array.isArray(key) && key.length > level
          ? key.slice(0, level)
          : key;
      };
      const groups: Row[][] = [];
      for (const row of scan(whole)) {
        const last = groups.at(-1)?.[0];
        if (last && order(cut(last.key), cut(row.key)) === 0) groups.at(-1)?.push(row);
        else groups.push([row]);
      }
      results = groups.map((rows) => result(cut(rows[0]?.key), rows));
    }
    return { rows: results.slice(skip, skip + limit) };
  }

  // 11
  const shown = (rows: readonly Row[]): unknown[] =>
    rows.slice(skip, skip + limit).map(({ id, key, value }) => ({ id, key, value }));
  const total = all.length;
  const positionOf = (range: Range): number => {
    const first = all.findIndex((row) => placeOf(row, range, order, descending) >= 0);
    return first < 0 ? total : first;
  };
  if (keys) {
    if (keys.length === 0) return { total_rows: total, offset: Math.min(total, skip), rows: [] };
    const ordered = descending ? keys.toReversed() : keys;
    const found = ordered.flatMap((key) => scan(rangeOf(key, key)));
    // Where the rows begin is told for a list only roughly: who compares leaves it out.
    return { total_rows: total, rows: shown(found) };
  }
  const rows = shown(scan(whole));
  return { total_rows: total, offset: Math.min(total, positionOf(whole) + skip), rows };
}
