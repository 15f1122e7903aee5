// Rows as a table for people. Widths are taken from the first rows, so that a long answer can stream.

const WIDTH_MAX = 60;
const SAMPLE_ROWS = 200;

/** Display columns of a text: wide East Asian characters take two, combining marks none. */
function columns(text: string): number {
  let width = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (/\p{Mn}/u.test(character)) continue;
    width +=
      (code >= 0x1100 && code <= 0x115f) ||
      (code >= 0x2e80 && code <= 0xffdc && code !== 0x303f) ||
      code > 0x1f000
        ? 2
        : 1;
  }
  return width;
}

function cut(text: string): string {
  // Control characters would garble the terminal.
  const shown = text.replace(/\p{Cc}/gu, "·");
  return columns(shown) <= WIDTH_MAX
    ? shown
    : `${Array.from(shown)
        .slice(0, WIDTH_MAX - 1)
        .join("")}…`;
}

/** Prints `rows` under `heads`; a column whose cells are all numbers is aligned to the right. */
export async function printTable(
  heads: readonly string[],
  rows: AsyncIterable<readonly string[]> | Iterable<readonly string[]>,
  write: (line: string) => void,
): Promise<number> {
  const sample: string[][] = [];
  let widths: number[] | undefined;
  let numeric: boolean[] = [];
  let count = 0;
  const line = (cells: readonly string[]): void => {
    const padded = cells.map((cell, i) => {
      const blank = " ".repeat(Math.max(0, (widths?.[i] ?? 0) - columns(cell)));
      return numeric[i] ? blank + cell : cell + blank;
    });
    write(padded.join("  ").trimEnd());
  };
  const begin = (): void => {
    widths = heads.map((head, i) =>
      Math.max(columns(head), ...sample.map((cells) => columns(cells[i] ?? ""))),
    );
    numeric = heads.map(
      (_, i) =>
        sample.length > 0 && sample.every((cells) => /^-?\d[\d.e+-]*$/i.test(cells[i] ?? "")),
    );
    line(heads);
    write(widths.map((width) => "─".repeat(width)).join("  "));
    for (const cells of sample) line(cells);
  };
  for await (const row of rows) {
    count++;
    const cells = row.map(cut);
    if (widths) line(cells);
    else {
      sample.push(cells);
      if (sample.length === SAMPLE_ROWS) begin();
    }
  }
  if (!widths) begin();
  return count;
}

/** A number of things: `1 row`, `2,000 rows`. */
export function counted(count: number, thing: string): string {
  return `${count.toLocaleString("en-US")} ${thing}${count === 1 ? "" : "s"}`;
}
