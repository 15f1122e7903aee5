// The index directory as it is open: its manifest, its design documents, and the groups' files, each opened once and shared. A reader
// follows what the writer puts into the manifest; a file that was replaced stays open while an answer is read from it.

import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

import { newestCollation } from "../collation/index.js";
import { IndexerError } from "../errors.js";
import type { ResolvedOptions } from "../options.js";
import type { GroupPlace } from "../view-index-types.js";
import type { DesignDocument, ViewGroupSpec } from "./design-document.js";
import { Designs } from "./designs.js";
import type { GroupIndex } from "./group-index.js";
import {
  indexFileName,
  manifestStamp,
  readManifest,
  writeManifest,
  type Manifest,
  type SourceRecord,
} from "./manifest.js";

/** Opens a group's file. `unrecorded`: the manifest does not know of it, so nothing in it can be of use. */
export type OpenGroup = (
  spec: ViewGroupSpec,
  generation: number,
  unrecorded: boolean,
) => Promise<GroupIndex>;

export class IndexDirectory {
  readonly designs: Designs;
  readonly #dir: string;
  readonly #readOnly: boolean;
  /** As its user says; else the manifest tells. */
  readonly #partitioned: boolean | undefined;
  readonly #openGroup: OpenGroup;
  readonly #groups = new Map<string, Promise<GroupIndex>>();
  readonly #settled = new WeakMap<Promise<GroupIndex>, GroupIndex>();
  /** Groups that were replaced and are still read. */
  readonly #retired = new Set<GroupIndex>();
  /** With `readOnly`: which of the writer's files the open groups are. */
  readonly #instances = new Map<string, string>();
  /** Design documents whose views were changed, by id: as recorded before, until the changed ones are built. */
  readonly #unbuilt = new Set<string>();
  #manifest: Manifest;
  #stamp: string | undefined;
  /** Everything is built anew from another source. Until that is done the directory stays what it was for everybody else. */
  #rebuilding = false;

  constructor(options: ResolvedOptions, manifest: Manifest, openGroup: OpenGroup) {
    this.#dir = options.dir;
    this.#readOnly = options.readOnly;
    this.#manifest = manifest;
    this.#openGroup = openGroup;
    this.#partitioned = options.partitioned;
    this.designs = new Designs(options.partitioned ?? partitionedOf(manifest));
    this.designs.load(manifest);
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  /** Writes the manifest with these changes, and the design documents as they are known now; nothing when nothing changed. */
  save(changes: Partial<Pick<Manifest, "source" | "groups">> = {}): void {
    if (this.#readOnly || this.#rebuilding) return;
    const recorded = this.#manifest.designs;
    const designs = Object.fromEntries(
      [...this.designs.entries()].map(([id, { json, origin, design }]) => {
        const signature = design instanceof IndexerError ? "" : design.group.signature;
        return [id, (this.#unbuilt.has(id) && recorded[id]) || { json, origin, signature }];
      }),
    );
    const next = { ...this.#manifest, ...changes, designs };
    if (JSON.stringify(next) === JSON.stringify(this.#manifest)) return;
    writeManifest(this.#dir, next);
    this.#manifest = next;
  }

  /** Makes another generation of a group's file the current one; when that fails the old one stays. */
  publish(signature: string, generation: number, collation: number): void {
    this.save({ groups: { ...this.#manifest.groups, [signature]: { generation, collation } } });
  }

  generation(signature: string): number {
    const recorded = this.#manifest.groups[signature]?.generation;
    if (recorded === undefined) return 1;
    return this.#rebuilding ? recorded + 1 : recorded;
  }

  /**
   * Design documents were given. Where one changes the views of a recorded one, that stays recorded until the new views are built: a
   * build that fails takes nothing away.
   */
  given(ids: readonly string[]): void {
    for (const id of ids) {
      const recorded = this.#manifest.designs[id];
      if (recorded && recorded.signature !== this.designs.require(id).group.signature)
        this.#unbuilt.add(id);
    }
    this.save();
  }

  /** Another source takes the place of the recorded one: groups are built into files beside the present ones. */
  beginRebuild(): void {
    this.#rebuilding = true;
    const current = new Set(
      Object.entries(this.#manifest.groups).map(([s, { generation }]) =>
        indexFileName(s, generation),
      ),
    );
    for (const name of readdirSync(this.#dir))
      if (name.endsWith(".vmx") && !current.has(name)) rmSync(join(this.#dir, name));
    for (const signature of [...this.#groups.keys()]) void this.drop(signature);
  }

  /** Groups were brought up to the source: what was built is recorded, and what it replaces is removed. */
  built(groups: readonly GroupIndex[], source: SourceRecord | undefined): void {
    const signatures = new Set(groups.map(({ spec }) => spec.signature));
    for (const id of this.#unbuilt)
      if (signatures.has(this.designs.require(id).group.signature)) this.#unbuilt.delete(id);
    if (!this.#rebuilding) {
      this.save();
      return;
    }
    const built = Object.fromEntries(
      [...signatures].map((signature) => [signature, { generation: this.generation(signature) }]),
    );
    this.#rebuilding = false;
    this.save({ source, groups: built });
    for (const name of readdirSync(this.#dir)) {
      const [, signature = "", generation] =
        /^([0-9a-f]{32})\.(?:(\d+)\.vmx|runs)$/.exec(name) ?? [];
      if (signature === "" || String(built[signature]?.generation) === generation) continue;
      rmSync(join(this.#dir, name), { recursive: true, force: true });
    }
  }

  /** Version of the root order that the group's file is kept in, without opening it: for one that is to be made, the newest. */
  collation(signature: string): number {
    const group = this.#manifest.groups[signature];
    return group ? (group.collation ?? 1) : newestCollation();
  }

  /** Whether anything was built for the design document. */
  holds({ group }: DesignDocument): boolean {
    return (
      this.#groups.has(group.signature) || this.#manifest.groups[group.signature] !== undefined
    );
  }

  /** The groups of the design documents, opened; identical ones share one. */
  async open(designs: readonly DesignDocument[]): Promise<GroupIndex[]> {
    const bySignature = new Map(designs.map(({ group }) => [group.signature, group]));
    const open: GroupIndex[] = [];
    for (const [signature, spec] of bySignature) {
      let opening = this.#groups.get(signature);
      if (!opening) {
        opening = this.#openAnew(spec);
        this.#groups.set(signature, opening);
        opening.catch(() => this.#groups.delete(signature));
      }
      const group = await opening;
      this.#settled.set(opening, group);
      open.push(group);
    }
    return open;
  }

  async openOne(design: DesignDocument): Promise<GroupIndex> {
    const [group] = await this.open([design]);
    if (!group) throw new Error("viewmill bug: a design document without a group");
    return group;
  }

  /** The group, if it is open already: most queries need not wait. */
  openNow({ group }: DesignDocument): GroupIndex | undefined {
    const opening = this.#groups.get(group.signature);
    return opening && this.#settled.get(opening);
  }

  /** Only with `readOnly`: takes up what another process wrote into the manifest. */
  async reload(): Promise<void> {
    const manifest = readManifest(this.#dir);
    if (!this.#readOnly || !manifest) return;
    const before = this.#manifest;
    this.#manifest = manifest;
    const partitioned = this.#partitioned ?? partitionedOf(manifest);
    if (partitioned !== undefined) this.designs.setPartitioned(partitioned);
    this.designs.reload(manifest);
    for (const signature of [...this.#groups.keys()]) {
      if (manifest.groups[signature]?.generation === before.groups[signature]?.generation) continue;
      await this.drop(signature);
    }
  }

  /** Only with `readOnly`: another process may have put a compacted file in the place of one. */
  async follow(): Promise<void> {
    if (!this.#readOnly) return;
    const stamp = manifestStamp(this.#dir);
    if (stamp === this.#stamp) return;
    await this.reload();
    this.#stamp = stamp;
  }

  /** Another file may have taken the place of the one that is open here. Mostly not: then there is nothing to wait for. */
  followTo(place: GroupPlace): Promise<void> | undefined {
    const { signature, generation, instance } = place;
    if (generation === this.generation(signature) && this.#instances.get(signature) === instance)
      return undefined;
    return this.#followTo(place);
  }

  async #followTo({ signature, generation, instance }: GroupPlace): Promise<void> {
    if (generation !== this.generation(signature)) await this.reload();
    if (this.#instances.get(signature) !== instance) await this.drop(signature);
    this.#instances.set(signature, instance);
  }

  /** Answers that are half read hold the file; the next query opens it anew. */
  async drop(signature: string): Promise<void> {
    const opening = this.#groups.get(signature);
    if (!opening) return;
    this.#groups.delete(signature);
    const group = await opening.catch(() => undefined);
    if (!group) return;
    this.#retired.add(group);
    group.retire().then(
      () => this.#retired.delete(group),
      () => undefined,
    );
  }

  /**
   * The group's file could not be written. It is closed, even under an answer, because what that reads may never have been written; the
   * next query or update opens it anew, as it was last committed.
   */
  async discard(signature: string): Promise<void> {
    const opening = this.#groups.get(signature);
    this.#groups.delete(signature);
    const group = await opening?.catch(() => undefined);
    await group?.close();
  }

  /** Removes every index file and unfinished build. */
  removeIndexes(): void {
    for (const name of readdirSync(this.#dir))
      if (/\.(vmx|runs|sort)$/.test(name))
        rmSync(join(this.#dir, name), { recursive: true, force: true });
    this.#manifest = { ...this.#manifest, groups: {} };
  }

  async closeGroups(): Promise<void> {
    for (const opening of this.#groups.values())
      await opening.then(
        (group) => group.close(),
        () => undefined,
      );
    this.#groups.clear();
    for (const group of this.#retired) await group.close();
  }

  async #openAnew(spec: ViewGroupSpec): Promise<GroupIndex> {
    const { signature } = spec;
    const generation = this.generation(signature);
    let group: GroupIndex;
    try {
      group = await this.#openGroup(
        spec,
        generation,
        this.#manifest.groups[signature] === undefined,
      );
    } catch (error) {
      // Another process may have compacted the file since the manifest was read.
      await this.follow();
      if (this.generation(signature) === generation) throw error;
      return this.#openAnew(spec);
    }
    this.publish(signature, generation, group.collation);
    return group;
  }
}

/** Undefined before a source was recorded. */
function partitionedOf({ source }: Manifest): boolean | undefined {
  return source && (source.partitioned ?? false);
}
