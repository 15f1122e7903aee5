// Compiled into both halves.

/** Raised whenever an exported function changes what it takes or gives: a module that was built from other sources is not used. */
export const REVISION = 5;
