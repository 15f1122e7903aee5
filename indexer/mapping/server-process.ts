// One view server in a process of its own (execa), spoken to over the pipelined client. Its life: started, configured for a group by
// reset, add_lib and add_fun, used, and when it dies or misbehaves, replaced by its owner.

import { existsSync, readFileSync, realpathSync } from "node:fs";
import type { Socket } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { execa, parseCommandString } from "execa";

import { ProtocolClient, ProtocolError, streamTransport } from "../../protocol/index.js";
import { IndexerError } from "../errors.js";
import { compilationError } from "./compilation-error.js";
import { killWithUs } from "./reaper.js";
import type { FunctionLimits, GroupConfig } from "./types.js";

const OPTIONS = {
  stdin: "pipe",
  stdout: "pipe",
  stderr: "pipe",
  buffer: false,
  reject: false,
  extendEnv: false,
  forceKillAfterDelay: 500,
} as const;

function start(command: ServerCommand) {
  return execa(command.file, command.args, { ...OPTIONS, env: command.env });
}

const STDERR_TAIL = 2000;
const MEMORY_INTERVAL_MS = 100;

/** How to start a view server. */
export interface ServerCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Our own program. */
  readonly own: boolean;
}

/**
 * Our own view server: without an environment, and behind Node's permission flag, which lets it read its own package and nothing else
 * (viewserver/SECURITY.md says what that stops). It answers as the session of a thread does.
 */
export function ownServer(
  heapMb: number,
  strict: boolean,
  limits: FunctionLimits = {},
): ServerCommand {
  const program = fileURLToPath(new URL("../../viewserver/main.js", import.meta.url));
  return {
    file: process.execPath,
    args: [
      `--max-old-space-size=${heapMb}`,
      // What a document leaves behind is little: a small young generation costs no time, and saves some 20 MB a server.
      "--max-semi-space-size=8",
      "--disallow-code-generation-from-strings",
      ...permissionFlags(program),
      program,
      ...(strict ? [] : ["--lenient"]),
      "--exceptions-json",
      ...(limits.rowsMax === undefined ? [] : ["--rows-max", String(limits.rowsMax)]),
      ...(limits.outputCharsMax === undefined
        ? []
        : ["--output-max", String(limits.outputCharsMax)]),
      ...(limits.logLinesMax === undefined ? [] : ["--log-lines-max", String(limits.logLinesMax)]),
    ],
    env: {},
    own: true,
  };
}

/** The flag has two names; Nodes without it run without the second fence. */
function permissionFlags(program: string): string[] {
  const known = process.allowedNodeEnvironmentFlags;
  const flag = ["--permission", "--experimental-permission"].find((name) => known.has(name));
  if (flag === undefined) return [];
  const readable = [join(dirname(program), "../..", "*")];
  for (const dependency of ["acorn", "lru-cache"])
    readable.push(...dependencyPaths(program, dependency));
  return [
    flag,
    ...readable.map((path) => `--allow-fs-read=${path}`),
    "--disable-warning=ExperimentalWarning",
    "--disable-warning=SecurityWarning",
  ];
}

/** What Node reads to find a dependency of the program: its folder, and the link that leads there, if it is one. */
function dependencyPaths(program: string, name: string): string[] {
  for (let folder = dirname(program); folder !== dirname(folder); folder = dirname(folder)) {
    const found = join(folder, "node_modules", name);
    if (!existsSync(found)) continue;
    const real = realpathSync(found);
    return real === found ? [join(real, "*")] : [found, join(real, "*")];
  }
  return [];
}

/** A command line as a person writes it. It inherits PATH and HOME only. */
export function parseServerCommand(line: string): ServerCommand {
  const [file, ...args] = parseCommandString(line);
  if (file === undefined)
    throw new IndexerError(
      "INDEXER_SERVER_NOT_FOUND",
      "--server needs a command, e.g. --server 'couchjs main.js'",
    );
  const env: Record<string, string> = {};
  for (const name of ["PATH", "HOME", "LANG"]) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  return { file, args, env, own: false };
}

export interface ServerProcessOptions {
  readonly timeoutMs: number;
  /** Resident memory, in MiB, beyond which the process is killed (Linux only). */
  readonly memoryMb: number;
  /** Commands on their way at once; 1 leaves no document in doubt but the one that the server died of. Default: the client's. */
  readonly windowCommands?: number;
}

export class ServerProcess {
  readonly client: ProtocolClient;
  readonly #child: ReturnType<typeof start>;
  readonly #command: ServerCommand;
  #stderr = "";
  #configured: string | undefined;
  #memory: NodeJS.Timeout | undefined;
  #outgrown = false;
  #exit:
    | { exitCode?: number | undefined; signal?: string | undefined; code?: string | undefined }
    | undefined;

  constructor(command: ServerCommand, options: ServerProcessOptions) {
    this.#command = command;
    this.#child = start(command);
    const { pid } = this.#child;
    const release = command.own && pid !== undefined ? killWithUs(pid) : undefined;
    void this.#child.then((result) => {
      release?.();
      clearInterval(this.#memory);
      this.#exit = { exitCode: result.exitCode, signal: result.signal, code: result.code };
    });
    this.#child.stderr.setEncoding("utf8");
    this.#child.stderr.on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_TAIL);
    });
    this.client = new ProtocolClient(streamTransport(this.#child.stdout, this.#child.stdin), {
      timeoutMs: options.timeoutMs,
      ...(options.windowCommands === undefined ? {} : { windowCommands: options.windowCommands }),
    });
    if (process.platform === "linux") this.#watchMemory(options.memoryMb * 2 ** 20);
    this.#letGo();
  }

  /** An idle server must not keep its host from ending; while it owes an answer, the client's deadline does. */
  #letGo(): void {
    for (const handle of this.#handles()) handle.unref?.();
  }

  /** Waits until the process is gone, or is known never to have started. */
  async #gone(): Promise<void> {
    for (const handle of this.#handles()) handle.ref?.();
    await this.#child;
  }

  #handles(): readonly Partial<Pick<Socket, "ref" | "unref">>[] {
    const { stdin, stdout, stderr } = this.#child;
    return [this.#child as object, stdin, stdout, stderr];
  }

  /** True when the process was killed for its size. */
  get outgrown(): boolean {
    return this.#outgrown;
  }

  /** True until the client closed. */
  get usable(): boolean {
    return this.client.state === "open";
  }

  /**
   * Makes the server hold the group's map functions.
   * @throws IndexerError INDEXER_DDOC_COMPILATION, INDEXER_SERVER_NOT_FOUND, INDEXER_SERVER_EXITED, INDEXER_SERVER_TIMEOUT.
   */
  async configure(config: GroupConfig): Promise<void> {
    if (this.#configured === config.key) return;
    this.#configured = undefined;
    const { reduceLimit, threshold, ratio } = config.limits;
    try {
      await this.#tell([
        "reset",
        {
          reduce_limit: reduceLimit,
          reduce_limit_threshold: threshold,
          reduce_limit_ratio: ratio,
          timeout: 5000,
        },
      ]);
      if (config.lib !== undefined) await this.#tell(["add_lib", JSON.parse(config.lib)]);
      for (const [tree, source] of config.maps.entries()) {
        try {
          await this.#tell(["add_fun", source]);
        } catch (error) {
          if (error instanceof ProtocolError && error.code === "PROTOCOL_ERROR_REPLY")
            throw compilationError(config, tree, ["error", error.id, error.reason]);
          throw error;
        }
      }
    } catch (error) {
      throw await this.explain(error);
    }
    this.#configured = config.key;
  }

  /** A command that is answered by `true`, and by nothing else: a program that says other things is no view server. */
  async #tell(command: unknown[]): Promise<void> {
    const reply = await this.client.prompt(command);
    if (reply === true) return;
    const line = [this.#command.file, ...this.#command.args].join(" ");
    throw new IndexerError(
      "INDEXER_SERVER_PROTOCOL",
      `${line} is no view server: it answered ${String(command[0])} with ${JSON.stringify(reply).slice(0, 80)}`,
    );
  }

  /** Asks a server that is not ours whether batches can be fenced; one that cannot stand the question is broken afterwards. */
  async knowsFence(): Promise<boolean> {
    try {
      await this.client.prompt(["reset"]);
      return await this.client.probeFence();
    } catch (error) {
      const explained = await this.explain(error);
      if ((explained as { code?: string }).code === "INDEXER_SERVER_NOT_FOUND") throw explained;
      return false;
    }
  }

  /** Turns a failure of the client into an error that says what happened to the process. */
  async explain(error: unknown): Promise<unknown> {
    if (!(error instanceof ProtocolError)) return error;
    const line = [this.#command.file, ...this.#command.args].join(" ");
    if (error.code === "PROTOCOL_TIMEOUT")
      return new IndexerError(
        "INDEXER_SERVER_TIMEOUT",
        `the view server (${line}) gave no answer in time`,
        {},
        { cause: error },
      );
    if (error.code !== "PROTOCOL_CLOSED")
      return new IndexerError(
        "INDEXER_SERVER_PROTOCOL",
        `the view server (${line}) broke the protocol: ${error.message}`,
        {},
        { cause: error },
      );
    await this.#gone();
    const { exitCode, signal, code } = this.#exit ?? {};
    if (code === "ENOENT" || code === "EACCES")
      return new IndexerError(
        "INDEXER_SERVER_NOT_FOUND",
        `the view server cannot be started: ${line} (${code})`,
        {},
        { cause: error },
      );
    const how =
      signal === undefined ? `exited with code ${String(exitCode)}` : `was ended by ${signal}`;
    const tail = this.#stderr.trim();
    return new IndexerError(
      "INDEXER_SERVER_EXITED",
      `the view server (${line}) ${how}${tail === "" ? "" : `; its last words: ${tail}`}`,
      {
        ...(exitCode === undefined ? {} : { exitCode }),
        ...(signal === undefined ? {} : { signal }),
        stderr: tail,
      },
      { cause: error },
    );
  }

  /** Ends the process and waits until it is gone. */
  async stop(): Promise<void> {
    this.client.close();
    clearInterval(this.#memory);
    // One that could not be started has no pid, and Node would pass 0 on: that is this process' whole group.
    if (this.#child.pid !== undefined) this.#child.kill("SIGKILL");
    await this.#gone();
  }

  #watchMemory(bytesMax: number): void {
    this.#memory = setInterval(() => {
      const { pid } = this.#child;
      if (pid === undefined) return;
      let pages: number;
      try {
        pages = Number(readFileSync(`/proc/${pid}/statm`, "latin1").split(" ")[1]);
      } catch {
        return;
      }
      if (pages * 4096 <= bytesMax) return;
      this.#outgrown = true;
      this.#child.kill("SIGKILL");
    }, MEMORY_INTERVAL_MS).unref();
  }
}
