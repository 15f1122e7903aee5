// Looking after an index directory: what it holds, whether it is whole, making it small again, and removing what nobody uses.

import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

import type { NodeCache, Reducer } from "../btree/index.js";
import { IndexerError } from "./errors.js";
import type { ResolvedOptions } from "./options.js";
import type { DesignsInUse } from "./view-index-designs.js";
import type { GroupInfo, IndexInfo } from "./view-index-types.js";
import type { IndexUpdates } from "./view-index-updates.js";
import { Compactions, type CompactOptions, type GroupCompaction } from "./views/compaction.js";
import type { DesignDocument } from "./views/design-document.js";
import type { DiskRoom } from "./views/disk-room.js";
import type { DocumentError } from "./views/error-entry.js";
import { reducersOfGroup, type GroupIndex } from "./views/group-index.js";
import { groupInfo } from "./views/group-info.js";
import { ERRORS_TREE } from "./views/group-reducers.js";
import type { IndexDirectory } from "./views/index-directory.js";
import { indexFileName } from "./views/manifest.js";
import type { MappingRuntime } from "./views/runtime.js";
import { verifyGroup, type GroupVerification, type VerifyOptions } from "./views/verification.js";

export interface UpkeepHost {
  readonly options: ResolvedOptions;
  readonly directory: IndexDirectory;
  readonly designs: DesignsInUse;
  readonly updates: IndexUpdates;
  readonly runtime: MappingRuntime;
  readonly room: DiskRoom;
  readonly cache: NodeCache;
  /** Queries that wait for an update of the group. */
  readonly waiting: (group: GroupIndex) => number;
  /** @throws IndexerError INDEXER_CLOSED. */
  readonly requireOpen: () => void;
}

export class IndexUpkeep {
  readonly #host: UpkeepHost;
  readonly #options: ResolvedOptions;
  readonly #directory: IndexDirectory;
  readonly #designs: DesignsInUse;
  readonly #compactions: Compactions;

  constructor(host: UpkeepHost) {
    const { options, directory, cache } = host;
    this.#host = host;
    this.#options = options;
    this.#directory = directory;
    this.#designs = host.designs;
    this.#compactions = new Compactions({
      dir: options.dir,
      cache,
      generation: (signature) => directory.generation(signature),
      publish: (signature, generation, collation) => {
        directory.publish(signature, generation, collation);
      },
      betweenUpdates: (work) => host.updates.between(work),
      onWarning: options.onWarning,
    });
  }

  async *errors(
    designDocument: string | undefined,
  ): AsyncGenerator<DocumentError & { readonly designDocument: string }> {
    await this.#directory.follow();
    for (const design of this.#designs.built(designDocument)) {
      const group = await this.#directory.openOne(design);
      const release = group.hold();
      const snapshot = group.store.snapshot();
      try {
        for (const slice of snapshot.tree(ERRORS_TREE).slices({}))
          for (let i = 0; i < slice.length; i++) {
            const record = JSON.parse(
              Buffer.from(slice.value(i)).toString("utf8"),
            ) as DocumentError;
            yield { designDocument: design.id, ...record };
          }
      } finally {
        snapshot.release();
        release();
      }
    }
  }

  async info(): Promise<IndexInfo> {
    await this.#directory.follow();
    const groups: GroupInfo[] = [];
    const refused: { designDocument: string; reason: string }[] = [];
    for (const [id, { design }] of this.#directory.designs.entries()) {
      if (design instanceof IndexerError)
        refused.push({ designDocument: id, reason: design.message });
      else groups.push(await this.#groupInfo(design));
    }
    return {
      dir: this.#options.dir,
      source: this.#directory.manifest.source,
      groups,
      refused,
      pausedForRoom: this.#host.room.paused,
    };
  }

  async compact(
    designDocument: string | undefined,
    options: CompactOptions,
  ): Promise<GroupCompaction[]> {
    if (this.#options.readOnly)
      throw new TypeError("an index that was opened with readOnly cannot be compacted");
    const done: GroupCompaction[] = [];
    for (const group of await this.#directory.open(this.#designs.built(designDocument))) {
      this.#host.requireOpen();
      if (group.state.seq !== null) done.push(await this.#compactions.run(group, options));
    }
    return done;
  }

  async verify(
    designDocument: string | undefined,
    options: VerifyOptions,
  ): Promise<GroupVerification[]> {
    await this.#directory.follow();
    const groups = new Map(
      this.#designs.built(designDocument).map(({ group }) => [group.signature, group]),
    );
    const { dir, reduceLimits: limits, strict } = this.#options;
    const { runtime } = this.#host;
    const done: GroupVerification[] = [];
    for (const [signature, spec] of groups) {
      const js = runtime.reducer.bind(runtime);
      const reducers = (collation: number): ((tree: string) => Reducer) =>
        reducersOfGroup({ spec, limits, strict, js }, collation).byName;
      for (;;) {
        const generation = this.#directory.generation(signature);
        const file = join(dir, indexFileName(signature, generation));
        const report = await verifyGroup({ ...options, path: file, spec, reducers });
        await this.#directory.follow();
        // A compaction may have taken the file away meanwhile.
        if (report.faults.length > 0 && this.#directory.generation(signature) !== generation)
          continue;
        done.push({ signature, file, ...report });
        break;
      }
    }
    return done;
  }

  async cleanup(options: { readonly dryRun?: boolean }): Promise<string[]> {
    await this.#designs.refresh();
    return this.#host.updates.between(async () => {
      const { designs, manifest } = this.#directory;
      const used = new Set([
        ...[...designs.valid()].map((design) => design.group.signature),
        ...Object.values(manifest.designs).map(({ signature }) => signature),
      ]);
      const removed: string[] = [];
      for (const name of readdirSync(this.#options.dir)) {
        const signature = /^([0-9a-f]{32})\.(\d+\.(?:vmx|sort)|runs)/.exec(name)?.[1];
        if (signature === undefined || used.has(signature)) continue;
        removed.push(name);
        if (options.dryRun) continue;
        await this.#compactions.stop(signature);
        await this.#directory.drop(signature);
        rmSync(join(this.#options.dir, name), { recursive: true, force: true });
      }
      if (!options.dryRun && removed.length > 0) {
        const groups = Object.fromEntries(
          Object.entries(this.#directory.manifest.groups).filter(([s]) => used.has(s)),
        );
        this.#directory.save({ groups });
      }
      return removed;
    });
  }

  /** Ends compactions under way; what they have made so far is removed. */
  stop(): Promise<void> {
    return this.#compactions.stop();
  }

  /** Resolves when nothing of them is left. */
  async settled(): Promise<void> {
    await this.#compactions.settled();
  }

  async #groupInfo(design: DesignDocument): Promise<GroupInfo> {
    const { signature } = design.group;
    const [group] = this.#directory.holds(design) ? await this.#directory.open([design]) : [];
    if (group && this.#options.readOnly) group.store.refresh();
    const update = this.#host.updates.stateOf(signature, group);
    return groupInfo(design, group, {
      updaterRunning: update.running,
      updaterStarted: update.started,
      progress: update.progress,
      waitingClients: group ? this.#host.waiting(group) : 0,
      waitingCommit: update.waitsForSync,
    });
  }
}
