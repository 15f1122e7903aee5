// Collation keys: JSON values as bytes whose plain order is CouchDB's order of keys. See COLLATION.md.
export { ByteBuffer, type ByteSink } from "./bytes.js";
export { decodeKey } from "./decode.js";
export { encodeKeyText, KeyEncoder } from "./encoder.js";
export { groupPrefix, keyEnd } from "./structure.js";
export { HIGHEST, LOWEST, type CollationKind } from "./tags.js";
export { collation, isCollationKnown, newestCollation } from "./versions.js";
