// Small statistics and tables for the benches.

/** The middle of the numbers; NaN for none. */
export function median(numbers: readonly number[]): number {
  return percentile(numbers, 0.5);
}

/** The smallest number that so large a share of the numbers does not exceed; the mean of the middle two for an even median. */
export function percentile(numbers: readonly number[], share: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  if (sorted.length === 0) return NaN;
  if (share === 0.5 && sorted.length % 2 === 0) {
    const upper = sorted[sorted.length / 2] as number;
    return (upper + (sorted[sorted.length / 2 - 1] as number)) / 2;
  }
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length - 1e-9) - 1)] as number;
}

/** For example `1.93 (1.88–2.40)`: the median, and what lies between the least and the greatest. */
export function spread(numbers: readonly number[], digits = 3): string {
  if (numbers.length === 0) return "–";
  const middle = short(median(numbers), digits);
  if (numbers.length === 1) return middle;
  return `${middle} (${short(Math.min(...numbers), digits)}–${short(Math.max(...numbers), digits)})`;
}

/** So many significant digits, thousands grouped, never an exponent. */
export function short(number: number, digits = 3): string {
  if (!Number.isFinite(number)) return "–";
  const rounded = Number(number.toPrecision(digits));
  return rounded.toLocaleString("en-US", { maximumFractionDigits: 6 }).replaceAll(",", " ");
}

/** Bytes as MB (10⁶). */
export function megabytes(bytes: number): string {
  return short(bytes / 1e6, 4);
}

/** A table: its head, and rows of as many cells. */
export interface Table {
  readonly title?: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The table in Markdown, padded so that it can be read as it is. */
export function markdown({ title, head, rows }: Table): string {
  const widths = head.map((cell, i) =>
    Math.max(cell.length, ...rows.map((row) => row[i]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, i) => (cells[i] ?? "").padEnd(width)).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  const table = [line(head), rule, ...rows.map(line)].join("\n");
  return title === undefined ? table : `**${title}**\n\n${table}`;
}

/** What a straight line through the points (least squares) says: y = start + slope · x, and how much of the variance it explains. */
export function linearFit(points: readonly (readonly [x: number, y: number])[]): {
  start: number;
  slope: number;
  r2: number;
} {
  const n = points.length;
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / n;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / n;
  let xx = 0;
  let xy = 0;
  let yy = 0;
  for (const [x, y] of points) {
    xx += (x - meanX) ** 2;
    xy += (x - meanX) * (y - meanY);
    yy += (y - meanY) ** 2;
  }
  const slope = xy / xx;
  return { start: meanY - slope * meanX, slope, r2: xy ** 2 / (xx * yy) };
}
