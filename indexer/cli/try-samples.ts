// The documents that `viewmill try` runs views over: from stdin, or the first ones of any source.

import type { Sample } from "./try-engine.js";
import { UsageError } from "./exit.js";
import { readObjects } from "./try-ndjson.js";
import {
  FileRangeReader,
  malformedLine,
  memberText,
  openSource,
  type Chunk,
} from "../sources/index.js";

export interface SampleOptions {
  /** As on the command line; undefined or `-` is stdin. */
  readonly source: string | undefined;
  readonly limit: number;
  /** Only these documents. */
  readonly ids: readonly string[];
  readonly idField: string | undefined;
}

const CHUNK_BYTES = 64 * 1024;
const LF = 0x0a;

/**
 * Design documents and deletions are passed over.
 * @throws UsageError, IndexerError SOURCE_*.
 */
export async function readSamples(options: SampleOptions): Promise<Sample[]> {
  const { source, ids } = options;
  const samples =
    source === undefined || source === "-"
      ? await fromStdin(options)
      : await fromSource(source, options);
  const missing = ids.filter((id) => !samples.some((sample) => sample.id === id));
  if (missing.length > 0)
    throw new UsageError(`no document ${missing.join(", ")} in ${source ?? "stdin"}`);
  return samples;
}

async function fromStdin({ limit, ids, idField }: SampleOptions): Promise<Sample[]> {
  if (process.stdin.isTTY)
    throw new UsageError(
      "nothing to try the views on: name a source with --source, or pipe documents in, one a line",
    );
  const documents = await readObjects(
    process.stdin as AsyncIterable<Uint8Array>,
    "stdin",
    ids.length > 0 ? Number.POSITIVE_INFINITY : limit,
  );
  return samplesOf(documents, idField).filter(({ id }) => ids.length === 0 || ids.includes(id));
}

/** Documents as samples; those without an id are numbered. */
export function samplesOf(
  documents: readonly Record<string, unknown>[],
  idField = "_id",
): Sample[] {
  return documents.map((document, i) => {
    const given = document[idField];
    const id = typeof given === "string" ? given : String(i + 1);
    return { id, json: JSON.stringify(document["_id"] === id ? document : withId(document, id)) };
  });
}

/** As functions see a document whose id is in another member, or nowhere. */
function withId(document: object, id: string): object {
  return { ...document, _id: id };
}

async function fromSource(spec: string, { limit, ids, idField }: SampleOptions): Promise<Sample[]> {
  const source = await openSource(spec, idField === undefined ? {} : { idField });
  const reader = new FileRangeReader();
  const samples: Sample[] = [];
  try {
    for await (const chunk of source.changes({ until: "now", chunkBytes: CHUNK_BYTES })) {
      const data = "path" in chunk.data ? reader.read(chunk.data) : chunk.data;
      for (const sample of samplesIn(chunk, data, spec, idField ?? "_id")) {
        if (ids.length > 0 && !ids.includes(sample.id)) continue;
        samples.push(sample);
        if (samples.length >= (ids.length > 0 ? ids.length : limit)) return samples;
      }
    }
    return samples;
  } finally {
    reader.close();
    await source.close();
  }
}

function* samplesIn(
  chunk: Chunk,
  data: Uint8Array,
  label: string,
  idField: string,
): Generator<Sample> {
  for (let start = 0; start < data.length;) {
    const end = data.indexOf(LF, start) < 0 ? data.length : data.indexOf(LF, start);
    const line = data.subarray(start, end);
    if (line.some((byte) => byte > 0x20)) {
      const fail = (problem: string): Error =>
        malformedLine(data, start, end, problem, { label, firstLine: chunk.firstLine });
      const sample =
        chunk.format === "changes" ? ofChange(line, fail) : ofDocument(line, idField, fail);
      if (sample && !sample.id.startsWith("_design/")) yield sample;
    }
    start = end + 1;
  }
}

function ofDocument(
  line: Uint8Array,
  idField: string,
  fail: (problem: string) => Error,
): Sample | undefined {
  const id = text(line, idField, fail);
  if (id === undefined)
    throw fail(`no string "${idField}"; name the member that holds the id with --id-field`);
  if (memberText(line, "_deleted") === "true") return undefined;
  const json = Buffer.from(line).toString("utf8");
  if (idField === "_id") return { id, json };
  try {
    return { id, json: JSON.stringify(withId(JSON.parse(json) as object, id)) };
  } catch {
    throw fail("not JSON");
  }
}

function ofChange(line: Uint8Array, fail: (problem: string) => Error): Sample | undefined {
  const id = text(line, "id", fail);
  if (id === undefined) throw fail("not a row of a changes feed");
  const json = memberText(line, "doc");
  return memberText(line, "deleted") === "true" || json === undefined ? undefined : { id, json };
}

function text(
  line: Uint8Array,
  name: string,
  fail: (problem: string) => Error,
): string | undefined {
  const raw = memberText(line, name);
  if (raw === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(raw);
    return typeof value === "string" ? value : undefined;
  } catch {
    throw fail("not JSON");
  }
}
