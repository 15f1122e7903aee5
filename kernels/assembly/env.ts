// What the module asks of whoever made it.

/** Makes one value of the entries in places [first, last], puts it where `encodeEntries` was told, and returns its length; -1: no room. */
export declare function combine(first: u32, last: u32): i32;

/** Reads on behind the n-th cursor: sets its POSITION and BLOCK_END. False when there is no more. */
export declare function refill(n: u32): bool;

/** The n-th cursor's block is not as it must be. Throws. */
export declare function malformed(n: u32): void;

/** The n-th cursor's entry lost against one of its key. */
export declare function superseded(n: u32): void;

/** How many rows an entry with this value is. */
export declare function rowsOf(value: usize, length: u32): f64;

/** Puts a long value elsewhere, leaves what stands for it at the place for pointers, and returns its length. */
export declare function placeValue(value: usize, length: u32, rows: f64): u32;
