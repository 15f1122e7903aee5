// A group cut down to one of its views: to find out which of them a document fails in.
import type { GroupConfig } from "./types.js";

export function singleView(config: GroupConfig, tree: number): GroupConfig {
  const only = <T>(list: readonly T[]): readonly T[] => list.slice(tree, tree + 1);
  return {
    ...config,
    key: `${config.key} ${tree}`,
    maps: only(config.maps),
    collations: only(config.collations),
    reduces: only(config.reduces),
    labels: only(config.labels),
  };
}
