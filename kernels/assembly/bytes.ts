// What kernels that write records have in common.

/** Writes a varint at `p`; returns where it ends. */
export function putVarint(p: usize, value: u32): usize {
  while (value >= 0x80) {
    store<u8>(p++, value | 0x80);
    value >>= 7;
  }
  store<u8>(p, value);
  return p + 1;
}

/** Up to 15 bytes behind the copy are overwritten. */
export function copy(from: usize, to: usize, length: usize): void {
  for (let i: usize = 0; i < length; i += 16) v128.store(to + i, v128.load(from + i));
}
