// The way into sources/: everything other folders may use.

export { ContentHasher, contentHashHex } from "./content-hash.js";
export { ChangesFileSource } from "./changes-file-source.js";
export { FileRangeReader } from "./file-range-reader.js";
export { DocumentCache } from "./document-cache.js";
export { displaySeq } from "./file-seq.js";
export type { FileSourceOptions } from "./file-source.js";
export { LINE_BYTES_MAX_DEFAULT, malformedLine, type LineOrigin } from "./line-errors.js";
export { memberText, withoutMembers } from "./member-scan.js";
export { NdjsonSource, type NdjsonSourceOptions } from "./ndjson-source.js";
export { sliceChanges } from "./slice-changes.js";
export { sliceDocuments, type SliceOptions } from "./slice.js";
export { SLICE_DELETED, SLICE_DESIGN, Slices } from "./slices.js";
export * from "./source.js";
export { FileStamp } from "./stamp.js";
export { StdinSource, type StdinSourceOptions } from "./stdin-source.js";
export { MemorySource, type MemoryDocument } from "./memory-source.js";
export { CouchSource, type CouchSourceOptions } from "./couch-source.js";
export { fileBytes, openSource, type OpenSourceOptions } from "./open-source.js";
export { openPouchSource, PouchSource, type PouchDatabase } from "./pouch-source.js";
