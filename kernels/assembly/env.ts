// What the module asks of whoever made it.

/** Makes one value of the entries in places [first, last], puts it where `encodeEntries` was told, and returns its length; -1: no room. */
export declare function combine(first: u32, last: u32): i32;
