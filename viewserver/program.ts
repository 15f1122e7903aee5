// The program `viewmill-server`: its options, its input and its output. See README.md.
import { readSync, writeSync } from "node:fs";
import { parseArgs } from "node:util";
import { endWithParent, ParentWatch } from "./parent-watch.js";
import { serve, type ServeIo } from "./serve.js";
import { Session, type SessionOptions } from "./index.js";

const USAGE = `usage: viewmill-server [--lenient] [--rows-max N] [--output-max N] [--log-lines-max N] [--exceptions-json]

A view server for CouchDB: one JSON command a line on stdin, one JSON reply a line on stdout.

  --lenient          accept named functions; a document whose map function throws null or emits what
                     cannot be printed is skipped instead of failing its command
  --rows-max N       rows one function may emit for one document (1000000)
  --output-max N     characters these rows may take as JSON (67108864)
  --log-lines-max N  log lines kept for one document (1000)
  --exceptions-json  log exceptions of map functions as JSON, with function, name, message and stack
`;

const waiter = new Int32Array(new SharedArrayBuffer(4));

// A pipe may be in non-blocking mode because someone else at its other side wants it so; then we wait here.
function patiently(call: () => number): number {
  for (let ms = 0; ; ms = Math.min(ms + 1, 10)) {
    try {
      return call();
    } catch (e) {
      if ((e as NodeJS.ErrnoException).code !== "EAGAIN") throw e;
      if (ms > 0) Atomics.wait(waiter, 0, 0, ms);
    }
  }
}

const io: ServeIo = {
  read(buffer, offset, length) {
    try {
      return patiently(() => readSync(0, buffer, offset, length, null));
    } catch (e) {
      const code = (e as NodeJS.ErrnoException).code;
      // The host is gone: as good as the end of input.
      if (code === "EOF" || code === "ECONNRESET" || code === "EIO") return 0;
      throw e;
    }
  },
  write(bytes) {
    try {
      for (let at = 0; at < bytes.length;) {
        at += patiently(() => writeSync(1, bytes, at, bytes.length - at));
      }
      return true;
    } catch (e) {
      const code = (e as NodeJS.ErrnoException).code;
      if (code === "EPIPE" || code === "ECONNRESET") return false;
      throw e;
    }
  },
  warn(text) {
    try {
      writeSync(2, `${text}\n`);
    } catch {
      // Nobody listens.
    }
  },
  now: () => performance.now(),
};

/** Runs the program until its input ends; answers the exit code. `parent` is the process that started it. */
export function run(parent: number): number {
  let options: SessionOptions;
  const watch = new ParentWatch(() => {
    endWithParent(parent);
  });
  try {
    const { values } = parseArgs({
      options: {
        lenient: { type: "boolean" },
        "rows-max": { type: "string" },
        "output-max": { type: "string" },
        "log-lines-max": { type: "string" },
        "exceptions-json": { type: "boolean" },
        help: { type: "boolean" },
      },
    });
    if (values.help === true) {
      writeSync(1, USAGE);
      return 0;
    }
    options = {
      mode: values.lenient === true ? "lenient" : "stock",
      ...(values["rows-max"] === undefined ? {} : { rowsMax: Number(values["rows-max"]) }),
      ...(values["output-max"] === undefined
        ? {}
        : { outputCharsMax: Number(values["output-max"]) }),
      ...(values["log-lines-max"] === undefined
        ? {}
        : { logLinesMax: Number(values["log-lines-max"]) }),
      mayNotEnd: () => {
        watch.mayNotEnd();
      },
      ...(values["exceptions-json"] === true ? { exceptions: "json" } : { tracesMax: 0 }),
    };
    return serve(new Session(options), {
      ...io,
      write(bytes) {
        watch.aged(performance.now());
        return io.write(bytes);
      },
    });
  } catch (e) {
    const code = (e as { code?: unknown }).code;
    const usage =
      e instanceof RangeError || (typeof code === "string" && code.startsWith("ERR_PARSE_ARGS"));
    if (!usage) throw e;
    io.warn(`viewmill-server: ${e instanceof Error ? e.message : String(e)}\n${USAGE}`);
    return 2;
  }
}
