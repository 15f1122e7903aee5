// Strings of the raw order: the UTF-8 bytes themselves. 0x00 and 0x01 are written as two bytes so that 0x00 can end a string.
import { CodePoints } from "../json/index.js";
import type { ByteSink } from "./bytes.js";
import { END, RAW_TAGS } from "./tags.js";

export class RawStrings {
  /** Always: every character can be told from the bytes. */
  readonly exact = true;
  readonly #points = new CodePoints();

  /** Encodes the JSON string whose opening quote is at `pos`; returns the index after it, or -1 when it is not canonical. */
  write(src: Uint8Array, pos: number, sink: ByteSink): number {
    const end = this.#points.read(src, pos);
    if (end < 0) return end;
    const points = this.#points.points;
    const n = this.#points.length;
    sink.ensure(n * 4 + 2);
    const bytes = sink.bytes;
    let at = sink.used;
    bytes[at++] = RAW_TAGS.STRING;
    for (let i = 0; i < n; i++) {
      const c = points[i] as number;
      if (c < 2) {
        bytes[at++] = 1;
        bytes[at++] = 1 + c;
      } else if (c < 0x80) {
        bytes[at++] = c;
      } else if (c < 0x800) {
        bytes[at++] = 0xc0 | (c >>> 6);
        bytes[at++] = 0x80 | (c & 0x3f);
      } else if (c < 0x10000) {
        bytes[at++] = 0xe0 | (c >>> 12);
        bytes[at++] = 0x80 | ((c >>> 6) & 0x3f);
        bytes[at++] = 0x80 | (c & 0x3f);
      } else {
        bytes[at++] = 0xf0 | (c >>> 18);
        bytes[at++] = 0x80 | ((c >>> 12) & 0x3f);
        bytes[at++] = 0x80 | ((c >>> 6) & 0x3f);
        bytes[at++] = 0x80 | (c & 0x3f);
      }
    }
    bytes[at++] = END;
    sink.used = at;
    return end;
  }
}
