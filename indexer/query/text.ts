// Bytes of the tree to text. Ids, keys and values are mostly short ASCII: for those a loop beats a call into Node.

const { utf8Slice } = Buffer.prototype as unknown as {
  utf8Slice: (this: Uint8Array, start: number, end: number) => string;
};

const SHORT = 24;

/** UTF-8 to a string. */
export function textOf(bytes: Uint8Array, start: number, end: number): string {
  if (end - start > SHORT) return utf8Slice.call(bytes, start, end);
  let out = "";
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number;
    if (byte >= 0x80) return utf8Slice.call(bytes, start, end);
    out += String.fromCharCode(byte);
  }
  return out;
}

/** UTF-8 to the JSON text of the string. */
export function jsonStringOf(bytes: Uint8Array, start: number, end: number): string {
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number;
    if (byte < 0x20 || byte === 0x22 || byte === 0x5c) {
      return JSON.stringify(textOf(bytes, start, end));
    }
  }
  return `"${textOf(bytes, start, end)}"`;
}
