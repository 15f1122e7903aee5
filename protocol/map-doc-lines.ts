// Documents to map_doc command lines, for a whole chunk at once. A document's text is never looked at.

const PREFIX = new TextEncoder().encode('["map_doc",');
const CLOSE = 0x5d;
const LF = 0x0a;

/**
 * The command lines `["map_doc",<document>]` for `count` documents, in one buffer, ready for `ProtocolClient.batch`.
 *
 * @param chunk - holds the documents' JSON texts; a text must not contain a LF (compact JSON never does)
 * @param starts - document `i` is `chunk[starts[i] … ends[i])`
 * @param lineEnds - is given the offset after the LF of each line, for `BatchOptions.lineEnds`
 */
export function mapDocLines(
  chunk: Uint8Array,
  starts: Uint32Array,
  ends: Uint32Array,
  count: number,
  lineEnds?: Uint32Array,
): Uint8Array {
  let size = count * (PREFIX.length + 2);
  for (let index = 0; index < count; index++) {
    size += (ends[index] as number) - (starts[index] as number);
  }
  // A buffer of its own, not a slice of Node's pool: it may be large, and its owner may transfer it.
  const out = Buffer.allocUnsafeSlow(size);
  let position = 0;
  for (let index = 0; index < count; index++) {
    const start = starts[index] as number;
    const end = ends[index] as number;
    // Byte by byte: for so few, a call costs more.
    for (let at = 0; at < PREFIX.length; at++) out[position + at] = PREFIX[at] as number;
    position += PREFIX.length;
    out.set(chunk.subarray(start, end), position);
    position += end - start;
    out[position] = CLOSE;
    out[position + 1] = LF;
    position += 2;
    if (lineEnds) lineEnds[index] = position;
  }
  return out;
}
