// PROVISIONAL: strings with anything but printable ASCII.
import { CodePoints } from "../json/index.js";
import { ASCII_PRIMARY, ASCII_UPPER_TERTIARY } from "./ascii.js";
import type { ByteSink } from "./bytes.js";
import { END, LEVEL, ROOT_TAGS } from "./tags.js";

/** A run of n common weights before another weight is written as RUN_LIMIT - n: more of them sort lower. */
export const RUN_LIMIT = 0x80;
const RUN_MAX = RUN_LIMIT - 2;

/** Writes `count` common weights that another weight follows, and ensures room for two more bytes. */
export function writeRunsBefore(count: number, sink: ByteSink): void {
  sink.ensure(3 + Math.floor(count / RUN_MAX));
  let left = count;
  while (left > RUN_MAX) {
    sink.bytes[sink.used++] = RUN_LIMIT - RUN_MAX;
    left -= RUN_MAX;
  }
  if (left > 0) sink.bytes[sink.used++] = RUN_LIMIT - left;
}

export class RootStrings {
  exact = true;
  readonly #points = new CodePoints();
  write(src: Uint8Array, pos: number, sink: ByteSink): number {
    const end = this.#points.read(src, pos);
    if (end < 0) return end;
    this.exact = false;
    sink.ensure(this.#points.length * 6 + 8);
    sink.bytes[sink.used++] = ROOT_TAGS.STRING;
    const upper: number[] = [];
    for (let i = 0; i < this.#points.length; i++) {
      const c = this.#points.points[i] as number;
      const isUpper = c >= 0x41 && c <= 0x5a;
      upper.push(isUpper ? 1 : 0);
      const p = c < 0x80 ? ASCII_PRIMARY[isUpper ? c + 32 : c] || ASCII_PRIMARY[c + 0x80] : 0;
      if (p) sink.bytes[sink.used++] = p;
      else if (c >= 0x80) {
        sink.bytes[sink.used++] = 0xfe;
        sink.bytes[sink.used++] = 2 + (c >>> 14);
        sink.bytes[sink.used++] = 0x80 + ((c >>> 7) & 127);
        sink.bytes[sink.used++] = 0x80 + (c & 127);
      }
    }
    if (upper.includes(1)) {
      sink.bytes[sink.used++] = LEVEL;
      sink.bytes[sink.used++] = LEVEL;
      let run = 0;
      for (const u of upper) {
        if (u) {
          writeRunsBefore(run, sink);
          sink.bytes[sink.used++] = ASCII_UPPER_TERTIARY;
          run = 0;
        } else run++;
      }
    }
    sink.ensure(1);
    sink.bytes[sink.used++] = END;
    return end;
  }
}
