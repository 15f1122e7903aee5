// Reads a source as the indexer's workers do, and keeps what came.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect } from "@jest/globals";
import type { IndexerErrorCode } from "../../../indexer/errors.js";
import {
  FileRangeReader,
  SLICE_DELETED,
  Slices,
  sliceChanges,
  sliceDocuments,
  type ChangesOptions,
  type Chunk,
  type Seq,
  type Source,
} from "../../../indexer/sources/index.js";

export interface Seen {
  readonly id: string;
  readonly deleted: boolean;
  readonly doc: string;
  readonly hash: string;
}

/** The documents of a chunk. */
export function sliceChunk(chunk: Chunk, source: Source, label = "test"): Seen[] {
  const { data } = chunk;
  const range = "path" in data ? data : undefined;
  const reader = new FileRangeReader();
  const bytes = "path" in data ? reader.read(data) : data;
  reader.close();
  const slices = new Slices();
  const slice = chunk.format === "changes" ? sliceChanges : sliceDocuments;
  slice(bytes, slices, source.slicing, {
    label,
    path: range?.path,
    start: range?.start,
    firstLine: chunk.firstLine,
  });
  return seenOf(slices);
}

export function seenOf(slices: Slices): Seen[] {
  return Array.from({ length: slices.count }, (_, i) => ({
    id: slices.id(i),
    deleted: ((slices.flags[i] as number) & SLICE_DELETED) !== 0,
    doc: slices.doc(i),
    hash: slices.hash(i),
  }));
}

/** A whole drain. */
export async function drain(
  source: Source,
  options: Partial<ChangesOptions> = {},
): Promise<{ seen: Seen[]; chunks: Chunk[]; lastSeq: Seq | undefined }> {
  const seen: Seen[] = [];
  const chunks: Chunk[] = [];
  for await (const chunk of source.changes({ until: "now", ...options })) {
    chunks.push(chunk);
    seen.push(...sliceChunk(chunk, source));
  }
  return { seen, chunks, lastSeq: chunks.at(-1)?.lastSeq };
}

export function ids(seen: readonly Seen[]): string[] {
  return seen.map((one) => one.id);
}

/** For toThrow: an error of ours with this code. */
export function withCode(code: IndexerErrorCode): Error {
  return expect.objectContaining({ code }) as unknown as Error;
}

/** Lone surrogates replaced, as UTF-8 must. */
export function wellFormed(text: string): string {
  return Buffer.from(text).toString("utf8");
}

/** What an operation rejects with; fails when it does not. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it was expected to fail");
}

const folders: string[] = [];

/** A folder that goes away after the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "viewmill-test-"));
  folders.push(folder);
  return folder;
}

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});
