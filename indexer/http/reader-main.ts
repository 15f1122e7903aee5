// A process that answers: started by the writer, which it asks for everything but rows, and with which it ends.

import process from "node:process";

import { ViewIndex } from "../view-index.js";
import type { FromReader, ReaderStart, ToReader } from "./messages.js";
import { Metrics } from "./metrics.js";
import { ReaderService, WriterLink } from "./reader-service.js";
import { listen, type RunningServer } from "./server.js";

const metrics = new Metrics();
const link = new WriterLink(send);
let stop: (() => Promise<void>) | undefined;
let forget: (() => void) | undefined;

function send(message: FromReader): void {
  // The writer may be gone already: then this process is about to end, too.
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}

async function start({ name, http, stamped, index: options }: ReaderStart): Promise<void> {
  const onWarning = (message: string): void => {
    send({ kind: "warning", message });
  };
  let index: ViewIndex | undefined;
  let server: RunningServer | undefined;
  try {
    index = await ViewIndex.open({ ...options, readOnly: true, onWarning });
    const service = new ReaderService(index, link, stamped);
    forget = () => {
      service.forget();
    };
    server = await listen({ ...http, service, metrics, worker: name, onWarning });
  } catch (error) {
    send({ kind: "failed", message: (error as Error).message });
    await index?.close();
    // The message goes first.
    setTimeout(() => process.exit(1), 100);
    return;
  }
  stop = async () => {
    await server.close();
    await index.close();
  };
  send({ kind: "listening", url: server.url });
}

async function end(): Promise<void> {
  await stop?.();
  process.exit(0);
}

process.on("message", (message: ToReader) => {
  if (message.kind === "start") void start(message.start);
  else if (message.kind === "replies") link.settle(message.replies);
  else if (message.kind === "count")
    send({ kind: "counters", round: message.round, counters: metrics.counters() });
  else if (message.kind === "moved") forget?.();
  else void end();
});
process.on("disconnect", () => {
  link.close();
  process.exit(0);
});
send({ kind: "ready" });
// On a terminal the signal reaches all processes; the writer says when it is time.
process.on("SIGINT", () => undefined);
process.on("SIGTERM", () => undefined);
