// Which reduce sources are built-ins, and what CouchDB says of those that are none (VIEWS §1).

/** The built-ins, by the prefix that recognises them; `_top_` and `_bottom_` are followed by their N. */
export type BuiltInKind =
  | "_approx_count_distinct"
  | "_bottom_"
  | "_count"
  | "_first"
  | "_last"
  | "_stats"
  | "_sum"
  | "_top_";

const KINDS: readonly BuiltInKind[] = [
  "_sum",
  "_count",
  "_stats",
  "_approx_count_distinct",
  "_first",
  "_last",
  "_top_",
  "_bottom_",
];

const RANK_MAX = 100;

/** Anything that begins with an underscore is meant as a built-in, never compiled. */
export function isBuiltIn(source: string): boolean {
  return source.startsWith("_");
}

/** The built-in a source names, or undefined. Anything may follow all but the ranks. */
export function builtInKind(source: string): BuiltInKind | undefined {
  return KINDS.find((kind) => source.startsWith(kind));
}

/** N of `_top_N` and `_bottom_N`; NaN when it is no integer. */
export function rankOf(source: string): number {
  const digits = source.slice(source.startsWith("_top_") ? "_top_".length : "_bottom_".length);
  return /^[+-]?\d+$/.test(digits) ? Number(digits) : Number.NaN;
}

/**
 * The reason CouchDB gives for refusing a reduce source in a design document, or undefined if it is a
 * known built-in or JavaScript (which is not compiled here).
 */
export function validateReduce(source: string): string | undefined {
  if (!isBuiltIn(source)) return undefined;
  const kind = builtInKind(source);
  if (kind === undefined) return `\`${source}\` is not a supported reduce function.`;
  if (kind !== "_top_" && kind !== "_bottom_") return undefined;
  const rank = rankOf(source);
  if (Number.isNaN(rank)) return "invalid rank reducer";
  return rank >= 1 && rank <= RANK_MAX ? undefined : `rank value must be between 1 and ${RANK_MAX}`;
}
