// What `info` tells of one design document's index.

import { statSync } from "node:fs";

import { newestCollation } from "../collation/index.js";
import { displaySeq } from "../sources/index.js";
import type { GroupInfo } from "../view-index-types.js";
import type { DesignDocument } from "./design-document.js";
import type { GroupIndex } from "./group-index.js";
import { ERRORS_TREE, IDS_TREE, viewTreeName } from "./group-reducers.js";

/** What is going on with the group, as who runs it knows. */
export type GroupActivity = Pick<
  GroupInfo,
  "updaterRunning" | "updaterStarted" | "progress" | "waitingClients" | "waitingCommit"
>;

/** @param group - undefined when nothing was built yet. */
export function groupInfo(
  design: DesignDocument,
  group: GroupIndex | undefined,
  activity: GroupActivity,
): GroupInfo {
  const { signature, language, trees } = design.group;
  const nothing = {
    designDocument: design.id,
    signature,
    language,
    file: "",
    state: "building",
    updateSeq: null,
    purgeSeq: null,
    documents: 0,
    errors: 0,
    rows: {},
    sizes: { file: 0, active: 0, external: 0 },
    collation: newestCollation(),
    collatorVersions: [String(newestCollation())],
    ...activity,
  } as const;
  if (!group) return nothing;
  const { trees: snapshot, state } = group.snapshot();
  try {
    const stats = group.store.stats();
    // A view may be called `__proto__`.
    const rows = Object.fromEntries(
      trees.flatMap((tree) => {
        const { count } = snapshot.tree(viewTreeName(tree.number));
        return [...tree.mapOnly, ...tree.reduces.map((r) => r.name)].map(
          (name) => [name, count] as const,
        );
      }),
    );
    return {
      ...nothing,
      file: group.path,
      state: state.seq === null ? "building" : "ready",
      updateSeq: state.seq === null ? null : displaySeq(state.seq),
      purgeSeq: state.purgeSeq,
      documents: snapshot.tree(IDS_TREE).count,
      errors: snapshot.tree(ERRORS_TREE).count,
      rows,
      sizes: {
        file: statSync(group.path).size,
        active: stats.liveBytes,
        external: stats.trees.reduce((sum, { bytes }) => sum + bytes, 0),
      },
      collation: state.collation,
      collatorVersions: [...new Set([state.collation, newestCollation()])].map(String),
    };
  } finally {
    snapshot.release();
  }
}
