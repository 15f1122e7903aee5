// PROVISIONAL tables, replaced by generated ones.
const ORDER = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz";
export const ASCII_PRIMARY = new Uint8Array(256);
/** Primary byte → its character. */
export const ASCII_OF_PRIMARY = new Uint8Array(256);
for (let i = 0; i < ORDER.length; i++) {
  const c = ORDER.charCodeAt(i);
  const p = 0x10 + 2 * i;
  ASCII_OF_PRIMARY[p] = c;
  ASCII_PRIMARY[c < 0x20 || c === 0x22 || c === 0x5c ? c + 0x80 : c] = p;
}
export const ASCII_UPPER_TERTIARY = 0x90;
