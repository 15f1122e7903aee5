// Feed ordinals: which of two states of a document is the later one.

/** Room for the documents of a chunk: its number times this is the ordinal of its first document. */
export const ORDINALS_A_CHUNK = 2 ** 24;
