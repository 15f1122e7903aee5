// Starts one of the programs of `servers/` as a child process, with a client on its streams.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import {
  ProtocolClient,
  type ProtocolClientOptions,
  streamTransport,
} from "../../protocol/index.js";
import { READY } from "./servers/line-server.js";

export interface ServerChild {
  readonly client: ProtocolClient;
  readonly child: ChildProcess;
  /** Exit code and signal, once it is gone. */
  readonly exited: Promise<unknown[]>;
}

/** Runs `use` with a fresh child that has started, and kills it afterwards. */
export async function withServer<T>(
  program: string,
  options: ProtocolClientOptions,
  use: (server: ServerChild) => Promise<T>,
): Promise<T> {
  const path = fileURLToPath(new URL(`./servers/${program}.js`, import.meta.url));
  const child = spawn(process.execPath, [path], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  let ready: () => void = () => undefined;
  const started = new Promise<void>((resolve) => {
    ready = resolve;
  });
  const client = new ProtocolClient(streamTransport(child.stdout, child.stdin), {
    ...options,
    onLog: (text) => {
      if (text === READY) ready();
      else options.onLog?.(text);
    },
  });
  try {
    if (program !== "exits-at-start") await started;
    return await use({ client, child, exited });
  } finally {
    client.close();
    child.kill("SIGKILL");
    await exited;
  }
}

/** The command lines for some documents, as one buffer. */
export function mapDocs(documents: readonly object[]): Uint8Array {
  return Buffer.from(documents.map((doc) => `["map_doc",${JSON.stringify(doc)}]\n`).join(""));
}

/** The replies of a batch as texts without LF. */
export function replyTexts(reply: { replies: Uint8Array; lineStarts: Uint32Array }): string[] {
  const buffer = Buffer.from(reply.replies);
  return Array.from({ length: reply.lineStarts.length - 1 }, (_, index) =>
    buffer.subarray(reply.lineStarts[index], (reply.lineStarts[index + 1] ?? 0) - 1).toString(),
  );
}
