// Folders for tests, removed when the suite ends.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll } from "@jest/globals";

const made: string[] = [];

/** A new, empty folder. Call `removeTempDirs` once at the top of the suite. */
export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "viewmill-test-"));
  made.push(dir);
  return dir;
}

/** Registers the removal. */
export function removeTempDirs(): void {
  afterAll(() => {
    for (const dir of made.splice(0)) rmSync(dir, { recursive: true, force: true });
  });
}
