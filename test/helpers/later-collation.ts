// A later version of the root order for tests, made from the present one: some characters trade places, one that was not known is now a
// kind of "d", and another one is now ignored, so that keys which differed before are equal; others that were equal differ.

import { deflateRawSync, inflateRawSync } from "node:zlib";

import type { TableSource } from "../../indexer/collation/table.js";
import * as table1 from "../../indexer/collation/table-1.js";
import { addCollation } from "../../indexer/collation/versions.js";

export const LATER = 2;
/** Unassigned in the old version, where it sorts above all letters; a variant of "d" in the new one. */
export const NEWLY_KNOWN = "\u0378";
/** Unassigned in the old version; without any weight in the new one. */
export const NEWLY_IGNORED = "\u0379";
/** Without any weight in the old version; a variant of "d" in the new one. */
export const IGNORED_ONCE = "\u200b";
/** The second is equal to the first in the old version, and follows it in the new one. */
export const EQUAL_ONCE = ["e\u0301", "\u00e9"] as const;
/** These trade places. */
export const TRADED: readonly (readonly [string, string])[] = [
  ["b", "y"],
  ["m", "q"],
  ["-", "7"],
];

const TERTIARY_OF_VARIANT = 9;

/** Makes it known, and the newest, to this thread and those that it starts. @returns takes it back. */
export function addLaterCollation(): () => void {
  return addCollation(LATER, laterTable());
}

interface Element {
  readonly primary: number;
  readonly secondary: number;
  readonly tertiary: number;
}

let takeBack: (() => void) | undefined;

/** From now on this thread is of the later release. */
export function upgrade(): void {
  takeBack ??= addLaterCollation();
}

/** … and now of the earlier one again. */
export function downgrade(): void {
  takeBack?.();
  takeBack = undefined;
}

export function isUpgraded(): boolean {
  return takeBack !== undefined;
}

let made: TableSource | undefined;

function laterTable(): TableSource {
  return (made ??= {
    ...table1,
    ASCII_PRIMARIES: tradedAscii(),
    TABLE: changedTable(),
  });
}

function tradedAscii(): string {
  const primaries = Buffer.from(table1.ASCII_PRIMARIES, "hex");
  for (const [a, b] of TRADED) {
    const [i, j] = [a.charCodeAt(0), b.charCodeAt(0)];
    [primaries[i], primaries[j]] = [primaries[j] ?? 0, primaries[i] ?? 0];
  }
  return primaries.toString("hex");
}

function changedTable(): string {
  const [layout, ranges, contractions, counts, primaries, secondaries, tertiaries, classes] =
    unpack(table1.TABLE).map(numbers);
  if (!layout || !ranges || !contractions || !counts || !classes)
    throw new Error("the table has not the streams it should have");
  const points: number[] = [];
  for (let i = 0, point = 0; i < ranges.length; i += 2) {
    point += ranges[i] ?? 0;
    for (let n = ranges[i + 1] ?? 0; n > 0; n--) points.push(point++);
  }
  let value = 0;
  const elements = (primaries ?? []).map((delta, e) => ({
    primary: (value += (delta & 1) === 0 ? delta >>> 1 : -(delta >>> 1) - 1),
    secondary: secondaries?.[e] ?? 0,
    tertiary: tertiaries?.[e] ?? 0,
  }));
  // Sequences: one for each code point, then one for each contraction.
  let at = 0;
  const sequences = counts.map((count) => elements.slice(at, (at += count)));
  const primaryOf = (char: string): number => {
    const [element] = sequences[points.indexOf(char.codePointAt(0) ?? 0)] ?? [];
    if (!element) throw new Error(`${char} has no weight`);
    return element.primary;
  };
  const trade = new Map<number, number>();
  for (const [a, b] of TRADED)
    trade.set(primaryOf(a), primaryOf(b)).set(primaryOf(b), primaryOf(a));
  const variant = { primary: primaryOf("d"), secondary: 0, tertiary: TERTIARY_OF_VARIANT };
  for (const element of elements) element.primary = trade.get(element.primary) ?? element.primary;
  for (const [char, of] of [
    [NEWLY_KNOWN, [variant]],
    [NEWLY_IGNORED, []],
  ] as const) {
    const point = char.codePointAt(0) ?? 0;
    const place = points.findIndex((other) => other > point);
    points.splice(place, 0, point);
    sequences.splice(place, 0, [...of]);
  }
  const change = (char: string, to: (sequence: readonly Element[]) => readonly Element[]): void => {
    const place = points.indexOf(char.codePointAt(0) ?? 0);
    sequences[place] = [...to(sequences[place] ?? [])];
  };
  change(IGNORED_ONCE, () => [{ ...variant, tertiary: TERTIARY_OF_VARIANT + 1 }]);
  change(EQUAL_ONCE[1], (sequence) =>
    sequence.map((element) => ({ ...element, tertiary: TERTIARY_OF_VARIANT })),
  );
  const all = sequences.flat();
  let before = 0;
  return pack([
    layout,
    runs(points),
    contractions,
    sequences.map(({ length }) => length),
    all.map(({ primary }) => {
      const delta = primary - before;
      before = primary;
      return delta < 0 ? -2 * delta - 1 : 2 * delta;
    }),
    all.map(({ secondary }) => secondary),
    all.map(({ tertiary }) => tertiary),
    classes,
  ]);
}

/** Code points as pairs: how far from the end of the last run, and how many in a row. */
function runs(points: readonly number[]): number[] {
  const pairs: number[] = [];
  for (let i = 0, end = 0; i < points.length;) {
    const start = points[i] as number;
    let n = 1;
    while (points[i + n] === start + n) n++;
    pairs.push(start - end, n);
    end = start + n;
    i += n;
  }
  return pairs;
}

function unpack(packed: string): Buffer[] {
  const bytes = inflateRawSync(Buffer.from(packed, "base64"));
  const streams: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = bytes.readUInt32LE(at);
    streams.push(bytes.subarray(at + 4, (at += 4 + length)));
  }
  return streams;
}

function pack(streams: readonly (readonly number[])[]): string {
  const parts = streams.flatMap((stream) => {
    const bytes = Buffer.from(stream.flatMap(varint));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    return [length, bytes];
  });
  return deflateRawSync(Buffer.concat(parts)).toString("base64");
}

function numbers(stream: Buffer): number[] {
  const all: number[] = [];
  for (let at = 0; at < stream.length;) {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = stream[at++] as number;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    all.push(value);
  }
  return all;
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 0x80; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
  return [...bytes, value];
}
