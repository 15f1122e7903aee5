// The recorder that an instrumented copy calls. Evaluated inside the documents' realm.

export interface Recorder {
  /** For the copy: becomes a global of its realm. */
  readonly calls: object;
  reset(): void;
  /** Frames at the last throw, innermost first: `at name (line:column)` lines. */
  text(): string;
}

export function createRecorder(): Recorder {
  const FRAMES_MAX = 30;
  let names: string[] = [];
  let places: string[] = [];
  let depth = 0;
  let last: unknown;
  let seen = false;
  let found = "";

  const calls = {
    enter(name: string, line: number, column: number): number {
      names[depth] = name;
      places[depth] = `${line}:${column}`;
      return depth++;
    },
    at(line: number, column: number): void {
      if (depth > 0) places[depth - 1] = `${line}:${column}`;
    },
    thrown(e: unknown): void {
      if (seen && e === last) return;
      seen = true;
      last = e;
      found = "";
      for (let i = depth - 1, n = 0; i >= 0 && n < FRAMES_MAX; i--, n++) {
        found += `${found === "" ? "" : "\n"}at ${names[i] as string} (${places[i] as string})`;
      }
    },
    leave(to: number): void {
      depth = to;
    },
    expression(name: string, line: number, column: number, run: () => unknown): unknown {
      const to = calls.enter(name, line, column);
      try {
        return run();
      } catch (e) {
        calls.thrown(e);
        throw e;
      } finally {
        calls.leave(to);
      }
    },
  };
  return {
    calls,
    reset() {
      names = [];
      places = [];
      depth = 0;
      last = undefined;
      seen = false;
      found = "";
    },
    text: () => found,
  };
}
