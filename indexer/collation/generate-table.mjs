// Makes table-VERSION.ts, a collation table of the root order, from Unicode's published files. Deterministic.
//
//   apt-get install unicode-cldr-core unicode-data
//   node generate-table.mjs VERSION [FractionalUCA.txt [UnicodeData.txt]]
//
// FractionalUCA.txt is CLDR's root collation in the form ICU is built from: the same order as allkeys_CLDR.txt, plus what only ICU
// knows: the radical-stroke order of ideographs and the contractions of its index characters. Only the *order* of its weights is
// used; their bytes are assigned anew here. UnicodeData.txt gives combining classes. COLLATION.md describes the result.
//
// A table that is in a release is frozen: another one needs a new version number beside it, never a new run over the old file.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";

const [
  version,
  fractionalFile = "/usr/share/unicode/cldr/common/uca/FractionalUCA.txt",
  unicodeDataFile = "/usr/share/unicode/UnicodeData.txt",
] = process.argv.slice(2);
if (!/^[0-9]+$/.test(version ?? ""))
  throw new Error("usage: node generate-table.mjs VERSION [FractionalUCA.txt [UnicodeData.txt]]");

const COMMON = "05";
/** The only weight below the common one: small kana. */
const BELOW_COMMON = "03";
/** What remains of the common weight for a primary that has small kana: just above the common one. */
const ABOVE_COMMON = "05 01";
const FIRST_LEAD = 0x02;
const FIRST_TRAIL = 0x02;
const TRAILS = 254;
const CODE_POINTS = 0x110000;

// ---- read ---------------------------------------------------------------------------------------------------------------------

/** { points, ces: [{ primary: "" | hex bytes | "U+XXXX", secondary, tertiary }] } */
const mappings = [];
/** Ideographs in radical-stroke order. */
const ideographs = [];
let unicodeVersion = "";
for (const line of readFileSync(fractionalFile, "utf8").split("\n")) {
  const uca = /^\[UCA version = (.*)\]/.exec(line);
  if (uca) unicodeVersion = uca[1];
  const radical = /^\[radical [^:]*:(.*)\]/.exec(line);
  if (radical) readRadical(radical[1]);
  const mapping = /^([0-9A-F |]+);\s*((?:\[[^\]]*\])+)/.exec(line);
  // Lines of U+FDD0 tell only where lead bytes and homeless elements are; ICU takes no contractions from them.
  if (!mapping || line.startsWith("FDD0 ")) continue;
  const points = mapping[1]
    .replace("|", " ")
    .trim()
    .split(/ +/)
    .map((hex) => parseInt(hex, 16));
  const ces = [...mapping[2].matchAll(/\[([^\]]*)\]/g)]
    .map((match) => readElement(match[1]))
    .filter((ce) => ce !== undefined);
  // This one marks where unassigned code points begin, which have no rank here.
  if (mapping[1] === "FDD1 FDD0") ces[0].primary = `U+${CODE_POINTS.toString(16)}`;
  mappings.push({ points, ces, context: mapping[1].includes("|") });
}

function readRadical(text) {
  const chars = [...text];
  for (let i = 0; i < chars.length; i++) {
    const first = chars[i].codePointAt(0);
    const last = chars[i + 1] === "-" ? chars[(i += 2)].codePointAt(0) : first;
    for (let c = first; c <= last; c++) ideographs.push(c);
  }
}

function readElement(text) {
  const [primary, ...rest] = text.split(",").map((part) => part.trim());
  if (primary.startsWith("U+")) {
    // [U+XXXX], [U+XXXX, tertiary] or [U+XXXX, secondary, tertiary]
    return {
      primary,
      secondary: rest.length === 2 ? rest[0] : COMMON,
      tertiary: withoutCase(rest.at(-1) ?? COMMON),
    };
  }
  const secondary = rest[0];
  const tertiary = withoutCase(rest[1]);
  if (primary === "" && secondary === "" && tertiary === "") return undefined;
  if (secondary === "" || tertiary === "") throw new Error(`a partly ignorable element: [${text}]`);
  return { primary, secondary, tertiary };
}

/** The two upper bits say which case a letter has; they count only for collators that put upper or lower case first. */
function withoutCase(tertiary) {
  return tertiary === ""
    ? ""
    : tertiary.replace(/^../, (byte) =>
        (parseInt(byte, 16) & 0x3f).toString(16).toUpperCase().padStart(2, "0"),
      );
}

// A character in context ("l | ·") becomes a contraction of both: the first one's elements, then its own.
const single = new Map(mappings.filter((m) => m.points.length === 1).map((m) => [m.points[0], m]));
for (const mapping of mappings) {
  if (mapping.context) mapping.ces = [...single.get(mapping.points[0]).ces, ...mapping.ces];
}

// ---- no weight below the common one ---------------------------------------------------------------------------------------------

// Third-level weights are only ever compared between elements of the same primary, so they may be renumbered primary by primary.
const withBelow = new Set(
  mappings
    .flatMap((m) => m.ces)
    .filter((ce) => ce.tertiary === BELOW_COMMON)
    .map((ce) => ce.primary),
);
for (const { ces } of mappings) {
  for (const ce of ces) {
    if (!withBelow.has(ce.primary)) continue;
    if (ce.tertiary === COMMON) ce.tertiary = ABOVE_COMMON;
    else if (ce.tertiary === BELOW_COMMON) ce.tertiary = COMMON;
  }
}

const ranked = (values) => [...new Set(values)].sort((a, b) => (a < b ? -1 : 1));
const elements = mappings.flatMap((m) => m.ces);
const secondaries = ranked(elements.map((ce) => ce.secondary));
const tertiaries = ranked(elements.map((ce) => ce.tertiary));
if (secondaries[0] !== COMMON || tertiaries[0] !== COMMON)
  throw new Error("a weight below the common one");
/** Third-level rank of upper-case ASCII letters, the same for all of them. */
const UPPER_RANK = 32;
if (tertiaries.length > UPPER_RANK) throw new Error("too many third-level weights");
const upperOf = new Map();
for (let c = 0x41; c <= 0x5a; c++) {
  const { ces } = single.get(c);
  if (ces.length !== 1 || ces[0].primary !== single.get(c + 0x20).ces[0].primary)
    throw new Error("an upper-case letter is not simple");
  upperOf.set(ces[0].primary, ces[0].tertiary);
}

/** Rank of an element's third-level weight. */
function tertiaryRank(ce) {
  const rank = tertiaries.indexOf(ce.tertiary);
  const upper = upperOf.get(ce.primary);
  if (upper === undefined || ce.tertiary < upper) return rank;
  return UPPER_RANK + rank - tertiaries.indexOf(upper);
}
// What makes leaving out trailing common weights right: second-level weights of elements without a primary are above all others.
const highestWithPrimary = ranked(
  elements.filter((ce) => ce.primary !== "").map((ce) => ce.secondary),
).at(-1);
if (elements.some((ce) => ce.primary === "" && ce.secondary <= highestWithPrimary))
  throw new Error("the table is not well-formed (WF2)");

// ---- bytes for primaries ----------------------------------------------------------------------------------------------------------

const primaries = ranked(
  elements.map((ce) => ce.primary).filter((p) => p !== "" && !p.startsWith("U+")),
);
const rankOf = new Map(primaries.map((p, i) => [p, i]));
const asciiOf = new Map();
for (let c = 0x20; c < 0x7f; c++) {
  if (c >= 0x41 && c <= 0x5a) continue;
  const { ces } = single.get(c);
  if (ces.length !== 1 || ces[0].secondary !== COMMON || ces[0].tertiary !== COMMON)
    throw new Error(`U+00${c.toString(16)} is not simple`);
  asciiOf.set(rankOf.get(ces[0].primary), c);
}

/** Runs of primaries that share lead bytes: { count, width, leads }. In order; leads are handed out one after the other. */
const groups = [];
/** First bytes (of CLDR's weights) of the scripts whose letters get two bytes; ancient ones get three. */
const TWO_BYTE_SCRIPTS = new Set(
  "60 61 62 63 64 65 66 67 68 69 6A 6B 6C 6D 6E 6F 70 71 72 73 74 75 76 77 78 79 7A 7B".split(" "),
);
const lastAscii = Math.max(...asciiOf.keys());
for (let rank = 0; rank < primaries.length;) {
  if (asciiOf.has(rank)) {
    groups.push({ count: 1, width: 1 });
    rank++;
    continue;
  }
  let end = rank;
  if (rank < lastAscii) {
    while (!asciiOf.has(end)) end++;
    groups.push({ count: end - rank, width: 2 });
  } else if (primaries[rank].startsWith("EF")) {
    // U+FFFD and U+FFFF stand above all ideographs and unassigned code points, which have no rank.
    break;
  } else {
    const lead = primaries[rank].slice(0, 2);
    const two = TWO_BYTE_SCRIPTS.has(lead);
    const same = (i) =>
      two ? primaries[i].startsWith(lead) : !TWO_BYTE_SCRIPTS.has(primaries[i].slice(0, 2));
    while (end < primaries.length && !primaries[end].startsWith("EF") && same(end)) end++;
    groups.push({ count: end - rank, width: two ? 2 : 3 });
  }
  rank = end;
}
// Ideographs, unassigned code points by their number, after the mark of their beginning, then the last two primaries.
groups.push(
  { count: ideographs.length, width: 3 },
  { count: CODE_POINTS + 1, width: 4 },
  { count: primaries.length - sum(groups), width: 2 },
);
let lead = FIRST_LEAD;
for (const group of groups) {
  group.firstLead = lead;
  lead += Math.ceil(group.count / TRAILS ** (group.width - 1));
}
if (lead > 0x100) throw new Error(`out of lead bytes: ${lead}`);

function sum(list) {
  return list.reduce((total, group) => total + group.count, 0);
}

const asciiPrimary = new Uint8Array(0x80);
{
  let rank = 0;
  for (const group of groups) {
    const c = asciiOf.get(rank);
    if (c !== undefined) asciiPrimary[c] = group.firstLead;
    rank += group.count;
  }
}

// ---- streams ------------------------------------------------------------------------------------------------------------------------

class Stream {
  bytes = [];
  unsigned(value) {
    while (value >= 0x80) {
      this.bytes.push((value & 0x7f) | 0x80);
      value = Math.floor(value / 0x80);
    }
    this.bytes.push(value);
  }
  signed(value) {
    this.unsigned(value < 0 ? -2 * value - 1 : 2 * value);
  }
}

const singles = [...single.values()].sort((a, b) => a.points[0] - b.points[0]);
const contractions = mappings
  .filter((m) => m.points.length > 1)
  .sort((a, b) => {
    const i = a.points.findIndex((p, at) => p !== b.points[at]);
    return i < 0 ? a.points.length - b.points.length : a.points[i] - (b.points[i] ?? -1);
  });

const layout = new Stream();
layout.unsigned(groups.length);
for (const { count, width } of groups) {
  layout.unsigned(count);
  layout.unsigned(width);
}

/** Ranges of mapped code points: gap, length. Sequences are numbered in this order. */
const ranges = new Stream();
{
  let next = 0;
  for (let i = 0; i < singles.length;) {
    const first = singles[i].points[0];
    let n = 1;
    while (singles[i + n]?.points[0] === first + n) n++;
    ranges.unsigned(first - next);
    ranges.unsigned(n);
    next = first + n;
    i += n;
  }
}

/** Contractions, numbered after the single code points: how much they share with the one before, and the rest. */
const contractionPoints = new Stream();
contractionPoints.unsigned(contractions.length);
{
  let before = [];
  for (const { points } of contractions) {
    let shared = 0;
    while (shared < before.length && before[shared] === points[shared]) shared++;
    contractionPoints.unsigned(shared);
    contractionPoints.unsigned(points.length - shared);
    for (const p of points.slice(shared)) contractionPoints.unsigned(p);
    before = points;
  }
}

const counts = new Stream();
const primaryDeltas = new Stream();
const secondaryRanks = new Stream();
const tertiaryRanks = new Stream();
const secondaryRank = new Map(secondaries.map((w, i) => [w, i]));
{
  let before = 0;
  for (const { ces } of [...singles, ...contractions]) {
    counts.unsigned(ces.length);
    for (const ce of ces) {
      // 0: none; 1 + rank; above the ranks: an ideograph's code point.
      let value = 0;
      if (ce.primary.startsWith("U+"))
        value = 1 + primaries.length + parseInt(ce.primary.slice(2), 16);
      else if (ce.primary !== "") value = 1 + rankOf.get(ce.primary);
      primaryDeltas.signed(value - before);
      before = value;
      secondaryRanks.unsigned(secondaryRank.get(ce.secondary));
      tertiaryRanks.unsigned(tertiaryRank(ce));
    }
  }
}

/** Combining classes of a mark's first and last part (they differ only where the mark decomposes): gap, first, last. */
const classes = new Stream();
{
  const classOf = new Map(
    readFileSync(unicodeDataFile, "utf8")
      .split("\n")
      .map((line) => line.split(";"))
      .map((f) => [parseInt(f[0], 16), Number(f[3])]),
  );
  let next = 0;
  for (const { points } of singles) {
    const parts = [...String.fromCodePoint(points[0]).normalize("NFD")].map(
      (part) => classOf.get(part.codePointAt(0)) ?? 0,
    );
    if (parts[0] === 0) continue;
    classes.unsigned(points[0] - next);
    classes.unsigned(parts[0]);
    classes.unsigned(parts.at(-1));
    next = points[0] + 1;
  }
}

/** Ideographs in order: runs of successive code points as start (delta from the end of the run before), length. */
const ideographStarts = new Stream();
const ideographLengths = new Stream();
{
  let next = 0;
  for (let i = 0; i < ideographs.length;) {
    let n = 1;
    while (ideographs[i + n] === ideographs[i] + n) n++;
    ideographStarts.signed(ideographs[i] - next);
    ideographLengths.unsigned(n);
    next = ideographs[i] + n;
    i += n;
  }
}

function pack(streams) {
  const parts = streams.flatMap((stream) => {
    const size = Buffer.alloc(4);
    size.writeUInt32LE(stream.bytes.length);
    return [size, Buffer.from(stream.bytes)];
  });
  return deflateRawSync(Buffer.concat(parts), { level: 9 })
    .toString("base64")
    .replace(/.{1000}/g, "$&\n");
}

const text = `// Generated by generate-table.mjs from CLDR's root collation for Unicode ${unicodeVersion}; see NOTICE for its licence. Frozen: never edit,
// never regenerate for a released version. What the streams hold is written where they are read, in table.ts.

/** For each ASCII code (two hex digits) the one-byte primary weight; 00 where the way through the table is needed. */
export const ASCII_PRIMARIES =
  "${Buffer.from(asciiPrimary).toString("hex")}";

/** The third-level weight byte of an upper-case ASCII letter. */
export const ASCII_UPPER_TERTIARY = 0x${(0x80 + UPPER_RANK - 1).toString(16)};

/** Raw deflate of eight streams, in base64. */
export const TABLE = \`
${pack([layout, ranges, contractionPoints, counts, primaryDeltas, secondaryRanks, tertiaryRanks, classes])}
\`;

/** Raw deflate of two streams, in base64: the order of ideographs. */
export const IDEOGRAPHS = \`
${pack([ideographStarts, ideographLengths])}
\`;
`;
writeFileSync(fileURLToPath(new URL(`table-${version}.ts`, import.meta.url)), text);
process.stdout.write(
  `${singles.length} code points, ${contractions.length} contractions, ${elements.length} elements, ${primaries.length} primaries, ` +
    `${secondaries.length} secondaries, ${tertiaries.length} tertiaries, ${ideographs.length} ideographs, leads up to ${(lead - 1).toString(16)}, ${text.length} characters\n`,
);
