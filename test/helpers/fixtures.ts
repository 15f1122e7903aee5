// Fixtures lie in the source tree; compiled tests run from dist/test/….

import { fileURLToPath } from "node:url";

/** Path of a file or folder below `test/fixtures/`. */
export function fixturePath(name: string): string {
  return fileURLToPath(new URL(`../../../test/fixtures/${name}`, import.meta.url));
}
