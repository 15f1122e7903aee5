// The code points of a JSON string, straight from its bytes.
import { isCanonicalControlEscape, utf8Size } from "./scan.js";
import { BACKSLASH, hexValue, QUOTE } from "./syntax.js";

/** Decodes one string at a time into a growing array. */
export class CodePoints {
  /** The first `length` words are the string last read. */
  points = new Uint32Array(256);
  length = 0;

  /**
   * Reads the string whose opening quote is at `pos` and returns the index after its closing quote, or -1 when the string is
   * not canonical JSON (or not JSON at all): then the text must be scanned and rewritten first.
   */
  read(src: Uint8Array, pos: number): number {
    let n = 0;
    let points = this.points;
    const size = src.length;
    let i = pos + 1;
    while (i < size) {
      const c = src[i] as number;
      if (n === points.length) points = this.#grow();
      if (c < 0x80) {
        if (c === QUOTE) {
          this.length = n;
          return i + 1;
        }
        if (c === BACKSLASH) {
          const escape = src[i + 1];
          const plain = unescaped(escape);
          if (plain >= 0) {
            points[n++] = plain;
            i += 2;
          } else {
            if (escape !== 0x75 || i + 6 > size || !isCanonicalControlEscape(src, i)) return -1;
            const low = hexValue(src[i + 5] as number);
            if (low < 0) return -1;
            points[n++] = hexValue(src[i + 4] as number) * 16 + low;
            i += 6;
          }
          continue;
        }
        if (c < 0x20) return -1;
        points[n++] = c;
        i++;
        continue;
      }
      const length = utf8Size(src, i);
      if (length === 2) {
        points[n++] = ((c & 0x1f) << 6) | ((src[i + 1] as number) & 0x3f);
      } else if (length === 3) {
        points[n++] =
          ((c & 0x0f) << 12) |
          (((src[i + 1] as number) & 0x3f) << 6) |
          ((src[i + 2] as number) & 0x3f);
      } else if (length === 4) {
        const high = ((c & 0x07) << 18) | (((src[i + 1] as number) & 0x3f) << 12);
        points[n++] =
          high | (((src[i + 2] as number) & 0x3f) << 6) | ((src[i + 3] as number) & 0x3f);
      } else {
        return -1;
      }
      i += length;
    }
    return -1;
  }

  #grow(): Uint32Array<ArrayBuffer> {
    const bigger = new Uint32Array(this.points.length * 2);
    bigger.set(this.points);
    this.points = bigger;
    return bigger;
  }
}

/** What a one-letter escape that JSON.stringify prints stands for, or -1. */
function unescaped(escape: number | undefined): number {
  switch (escape) {
    case QUOTE:
    case BACKSLASH:
      return escape;
    case 0x62:
      return 0x08;
    case 0x66:
      return 0x0c;
    case 0x6e:
      return 0x0a;
    case 0x72:
      return 0x0d;
    case 0x74:
      return 0x09;
    case undefined:
    default:
      return -1;
  }
}
