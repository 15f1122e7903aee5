// The loop of the program: bytes in, commands handled in order, replies gathered and written in large pieces. Everything is synchronous,
// because a list function reads its rows in the middle of a command. Replies go out when no complete line waits, when they are many, and
// at the latest 20 ms after the oldest of them was made (a running function cannot be interrupted: then right after it).
import { isAscii } from "node:buffer";
import { LineSplitter, ProtocolError } from "../protocol/index.js";
import type { Session } from "./session.js";

export interface ServeIo {
  /** Reads at most `length` bytes into `buffer` at `offset`, waiting for at least one; 0 at the end. */
  read(buffer: Uint8Array, offset: number, length: number): number;
  /** Writes all of it; false when the reader has gone. */
  write(bytes: Uint8Array): boolean;
  /** For people: the host ignores it. */
  warn(text: string): void;
  /** Milliseconds of a clock that does not go back. */
  now(): number;
}

const SLAB_BYTES = 1024 * 1024;
const READ_BYTES_MIN = 64 * 1024;
const BLOCK_LINES = 4096;
const PENDING_CHARS_MAX = 128 * 1024;
const DELAY_MS_MAX = 20;
const MAP_DOC = '["map_doc"';

/** Serves until the end of input, a closed output or a fatal error; answers the exit code. */
export function serve(session: Session, io: ServeIo): number {
  const server = new Server(io);
  session.connectRows({
    read: () => {
      server.flush();
      return server.nextLine();
    },
    write: (text) => {
      server.put(text);
    },
  });
  try {
    return server.run(session);
  } catch (e) {
    if (!(e instanceof ProtocolError)) throw e;
    server.flush();
    io.warn(e.message);
    return 1;
  }
}

class Server {
  readonly #io: ServeIo;
  readonly #splitter = new LineSplitter();
  readonly #ends = new Uint32Array(BLOCK_LINES);
  #slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
  #slabUsed = 0;
  #text = "";
  #position = 0;
  #pending = "";
  #pendingSince = 0;
  #closed = false;

  constructor(io: ServeIo) {
    this.#io = io;
  }

  run(session: Session): number {
    for (let line = this.nextLine(); line !== undefined; line = this.nextLine()) {
      const { output, exit } = session.handle(line);
      if (output !== "") this.put(output);
      // Only documents come in numbers. What else there is to say is said before one of them can take the process down.
      if (!line.startsWith(MAP_DOC)) this.flush();
      if (exit !== undefined) {
        this.flush();
        if (exit === 1) this.#io.warn(`viewmill-server: not JSON: ${line.slice(0, 80)}`);
        return exit;
      }
      if (this.#closed) return 0;
    }
    this.flush();
    const rest = this.#splitter.end();
    if (rest === undefined) return 0;
    this.#io.warn(`viewmill-server: the input ended inside a line of ${rest.length} bytes`);
    return 1;
  }

  put(text: string): void {
    const now = this.#io.now();
    if (this.#pending === "") this.#pendingSince = now;
    this.#pending += text;
    if (this.#pending.length >= PENDING_CHARS_MAX || now - this.#pendingSince >= DELAY_MS_MAX)
      this.flush();
  }

  flush(): void {
    if (this.#pending === "") return;
    const bytes = Buffer.from(this.#pending);
    this.#pending = "";
    if (!this.#closed && !this.#io.write(bytes)) this.#closed = true;
  }

  /** The next complete line without its LF, read when none waits; undefined at the end. */
  nextLine(): string | undefined {
    if (this.#position >= this.#text.length && !this.#fill()) return undefined;
    const end = this.#text.indexOf("\n", this.#position);
    const line = this.#text.slice(this.#position, end);
    this.#position = end + 1;
    return line;
  }

  #fill(): boolean {
    for (;;) {
      const block = this.#splitter.nextBlock(this.#ends);
      if (block !== undefined) {
        this.#text = decode(block);
        this.#position = 0;
        return true;
      }
      this.flush();
      if (this.#closed || !this.#read()) return false;
    }
  }

  // A chunk must stay as it is while the splitter holds a part of it; so reads walk through a slab instead of reusing it.
  #read(): boolean {
    if (SLAB_BYTES - this.#slabUsed < READ_BYTES_MIN) {
      this.#slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
      this.#slabUsed = 0;
    }
    const n = this.#io.read(this.#slab, this.#slabUsed, SLAB_BYTES - this.#slabUsed);
    if (n === 0) return false;
    this.#splitter.push(this.#slab.subarray(this.#slabUsed, this.#slabUsed + n));
    this.#slabUsed += n;
    return true;
  }
}

// Bytes that are not UTF-8 become U+FFFD. Pure ASCII, the usual case, decodes several times faster as Latin-1.
function decode(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return isAscii(bytes) ? buffer.toString("latin1") : buffer.toString("utf8");
}
