// The compiled view server as a child process, with a client on its streams.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import {
  ProtocolClient,
  streamTransport,
  type ProtocolClientOptions,
} from "../../protocol/index.js";

const PROGRAM = fileURLToPath(new URL("../../viewserver/main.js", import.meta.url));

export function programClient(options: ProtocolClientOptions): {
  readonly client: ProtocolClient;
  readonly stop: () => Promise<void>;
} {
  const child = spawn(process.execPath, [PROGRAM], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const client = new ProtocolClient(streamTransport(child.stdout, child.stdin), options);
  return {
    client,
    stop: async () => {
      client.close();
      child.kill("SIGKILL");
      await exited;
    },
  };
}
