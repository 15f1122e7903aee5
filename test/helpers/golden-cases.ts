// Cases made from faults that people met in systems of this kind: what each gives and expects, read from the fixture.

import { readFileSync } from "node:fs";

import { fixturePath } from "./fixtures.js";

type JsonObject = Readonly<Record<string, unknown>>;

/** One request of a case. */
export interface CaseQuery {
  /** Default `v`. */
  readonly view?: string;
  readonly params?: JsonObject;
  readonly body?: JsonObject;
  readonly post?: boolean;
  /** Another path than the view's, e.g. with `/queries` behind it. */
  readonly path?: string;
  readonly all_docs?: boolean;
}

/** One step of a case: exactly one of its members. */
export interface CaseStep {
  readonly query?: CaseQuery;
  readonly put?: readonly JsonObject[];
  readonly del?: string;
  readonly purge?: string;
  readonly bulk?: { readonly docs: readonly JsonObject[] };
}

export interface CaseReply {
  readonly status: number;
  readonly [member: string]: unknown;
}

export interface Case {
  readonly id: string;
  readonly area: string;
  readonly why: string;
  /** Objects, or raw JSON texts. */
  readonly docs?: readonly (string | JsonObject)[];
  /** A JavaScript expression that gives them. */
  readonly docs_js?: string;
  readonly ddoc?: JsonObject;
  readonly steps?: readonly CaseStep[];
  readonly query?: CaseQuery;
  readonly queries?: readonly CaseQuery[];
  readonly variants?: readonly {
    readonly name: string;
    readonly ddoc: JsonObject;
    readonly other?: boolean;
  }[];
  readonly expected?: JsonObject;
  /** The raw bodies, where digits matter. */
  readonly expected_text?: readonly string[];
  /** What must hold, in words. */
  readonly expected_property?: string;
  readonly procedure?: string;
  readonly protocol_lines?: readonly string[];
  readonly stdin?: string;
  readonly stdin_chunks?: readonly { readonly text?: string; readonly hex?: string }[];
  readonly stdin_js?: string;
}

export const goldenCases = JSON.parse(
  readFileSync(fixturePath("golden/cases/cases.json"), "utf8"),
) as readonly Case[];

/** How a case is told to hold: by its answers, by a property in words, by lines on the wire, or by a situation to be built. */
export type CaseKind = "answers" | "property" | "protocol" | "system";

export function kindOf(one: Case): CaseKind {
  if (one.area === "protocol") return "protocol";
  if (one.area === "system") return "system";
  return one.expected === undefined && one.expected_text === undefined ? "property" : "answers";
}

export function casesOf(kind: CaseKind): Case[] {
  return goldenCases.filter((one) => kindOf(one) === kind);
}

export function caseOf(id: string): Case {
  const found = goldenCases.find((one) => one.id === id);
  if (!found) throw new Error(`there is no case ${id}`);
  return found;
}

/** The documents of a case, as texts. */
export function documentsOf(one: Case): string[] {
  const docs = (one.docs_js === undefined ? (one.docs ?? []) : (0, eval)(one.docs_js)) as readonly (
    string | JsonObject
  )[];
  return docs.map((doc) => (typeof doc === "string" ? doc : JSON.stringify(doc)));
}

/** All queries of a case that come after its steps. */
export function queriesOf(one: Case): CaseQuery[] {
  return [...(one.query ? [one.query] : []), ...(one.queries ?? [])];
}

/** What is written to a view server, in the pieces in which it arrives. */
export function inputOf(one: Case): Uint8Array[] {
  if (one.stdin !== undefined) return [Buffer.from(one.stdin)];
  if (one.stdin_js !== undefined) return [Buffer.from((0, eval)(one.stdin_js) as string)];
  if (one.protocol_lines) return [Buffer.from(one.protocol_lines.map((l) => `${l}\n`).join(""))];
  return (one.stdin_chunks ?? []).map(({ text, hex }) =>
    text === undefined ? Buffer.from(hex ?? "", "hex") : Buffer.from(text),
  );
}

/** The members that were recorded; those of the answer that were not are left out of it. */
export function recordedMembers(want: JsonObject, got: JsonObject): JsonObject {
  return Object.fromEntries(Object.keys(want).map((name) => [name, got[name]]));
}

/** Without revisions and sequences, which are the recording server's. */
export function withoutRevisions(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutRevisions);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => name !== "_rev" && name !== "update_seq")
      .map(([name, member]) => [name, withoutRevisions(member)]),
  );
}
