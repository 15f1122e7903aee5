// The error tree: documents whose map function failed. Key: document id (UTF-8), 0xFF, tree number (u16, big endian; 0xFFFF
// when the whole document failed before any view could be told). Value: JSON, see DocumentError.

export interface DocumentError {
  /** Document id. */
  readonly id: string;
  /** View name, or null when the failure cannot be put down to one view. */
  readonly view: string | null;
  /** A stable kind: `exception`, `timeout`, `memory`, `crash`, `error_reply`, `output`, `document_id`. */
  readonly kind: string;
  /** The error's name as the function or the server gave it. */
  readonly error: string;
  readonly reason: string;
  readonly stack?: string;
  /** `log()` lines of the failed call. */
  readonly logs?: readonly string[];
  /** The feed position (opaque) at which the document was mapped. */
  readonly seq?: string;
}

/** Stands for "no single view". */
export const ERROR_NO_TREE = 0xffff;

export function errorKey(docId: Uint8Array, tree: number): Uint8Array {
  const key = new Uint8Array(docId.length + 3);
  key.set(docId);
  key[docId.length] = 0xff;
  key[docId.length + 1] = tree >> 8;
  key[docId.length + 2] = tree & 0xff;
  return key;
}

/** Bounds [gte, lt) of a document's records. Ids are UTF-8, so 0xFF occurs only after them. */
export function errorRange(docId: Uint8Array): { gte: Uint8Array; lt: Uint8Array } {
  const gte = new Uint8Array(docId.length + 1);
  gte.set(docId);
  gte[docId.length] = 0xff;
  const lt = new Uint8Array(docId.length + 4);
  lt.set(docId);
  lt.fill(0xff, docId.length);
  return { gte, lt };
}
