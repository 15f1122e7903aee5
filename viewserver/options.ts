// What a session may be told, with its defaults, filled in once.
import type { Limits } from "./realm/types.js";

export interface SessionOptions {
  /**
   * `"stock"`: as both couchjs engines answer, also where nobody wants it: a declared function with a name is refused, a thrown
   * `null` or a row that cannot be printed fails the whole command. `"lenient"`: such a function is accepted, and such an
   * exception only costs its own document.
   * @defaultValue `"lenient"`
   */
  readonly mode?: "stock" | "lenient";
  /** Rows one function may emit for one document; more is the exception `emit_limit`. @defaultValue 1 000 000 */
  readonly rowsMax?: number;
  /** UTF-16 units that the rows of one function for one document may take as JSON; more is `output_limit`. @defaultValue 64 Mi */
  readonly outputCharsMax?: number;
  /** Log lines kept for one document; further ones are counted in a line `log_limit`. @defaultValue 1000 */
  readonly logLinesMax?: number;
  /** Longer log texts are cut. @defaultValue 1 Mi */
  readonly logCharsMax?: number;
  /** How often a failing function is run again, instrumented, to find where it throws. 0 = never. @defaultValue 20 */
  readonly tracesMax?: number;
  /**
   * What `handle` puts out for an exception of a map function: `"text"`, the line that couchjs logs; or `"json"`, the whole
   * {@link LogLine} as JSON behind {@link EXCEPTION_MARK}, for a host that wants to know function, name, message and stack.
   * @defaultValue `"text"`
   */
  readonly exceptions?: "text" | "json";
  /** The host's configuration until a `reset` brings one: `reduce_limit` and friends (PROTOCOL §3). */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Called once, before the first source is evaluated that cannot be proved to end: time to see to it that somebody watches. */
  readonly mayNotEnd?: () => void;
  /** How a running list function gets its next line, and puts out what must be read before it (PROTOCOL §8). */
  readonly rows?: RowExchange;
}

/** Begins a log text that tells an exception as JSON. User code may print it too, and so invent exceptions of its own document. */
export const EXCEPTION_MARK = "viewmill:exception ";

export interface RowExchange {
  /** The next command line without LF, or undefined at the end of input. Waits. */
  read(): string | undefined;
  /** Complete reply lines, each with LF. */
  write(text: string): void;
}

export function limitsOf(o: SessionOptions): Limits {
  return {
    rowsMax: positive(o.rowsMax, 1_000_000, "rowsMax"),
    outputCharsMax: positive(o.outputCharsMax, 64 * 1024 * 1024, "outputCharsMax"),
    logLinesMax: positive(o.logLinesMax, 1000, "logLinesMax"),
    logCharsMax: positive(o.logCharsMax, 1024 * 1024, "logCharsMax"),
    stock: o.mode === "stock",
  };
}

function positive(value: number | undefined, byDefault: number, name: string): number {
  if (value === undefined) return byDefault;
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`${name} must be a whole number of 0 or more, not ${value}`);
  }
  return value;
}
