// A client that costs little: keep-alive connections over plain sockets, one request under way on each, answers told apart by their
// Content-Length or their last chunk. It shares the machine with the server it measures, as any client here does.

import { connect, type Socket } from "node:net";

const END_OF_HEAD = Buffer.from("\r\n\r\n");
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

/** Asks `paths` over and over, `connections` at a time, for so long. Returns answers a second. */
export async function requestsPerSecond(
  port: number,
  paths: readonly string[],
  options: { readonly connections: number; readonly ms: number },
): Promise<number> {
  let answers = 0;
  let next = 0;
  const requests = paths.map((path) =>
    Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`),
  );
  const until = performance.now() + options.ms;
  const began = performance.now();
  const clients = Array.from(
    { length: options.connections },
    () =>
      new Promise<void>((resolve, reject) => {
        const socket = connect({ port, host: "127.0.0.1", noDelay: true });
        const ask = (): void => {
          socket.write(requests[next++ % requests.length] as Buffer);
        };
        socket.on("connect", ask);
        socket.on("error", reject);
        socket.on("close", () => {
          resolve();
        });
        readAnswers(socket, (status) => {
          if (status !== 200) {
            reject(new Error(`an answer with status ${status}`));
            socket.destroy();
            return;
          }
          answers++;
          if (performance.now() < until) ask();
          else socket.destroy();
        });
      }),
  );
  await Promise.all(clients);
  return (answers * 1000) / (performance.now() - began);
}

/** Calls `done` with the status of each whole answer. */
function readAnswers(socket: Socket, done: (status: number) => void): void {
  let pending: Buffer = Buffer.alloc(0);
  socket.on("data", (bytes: Buffer) => {
    pending = pending.length === 0 ? bytes : Buffer.concat([pending, bytes]);
    for (;;) {
      const head = pending.indexOf(END_OF_HEAD);
      if (head < 0) return;
      const text = pending.toString("latin1", 0, head);
      const length = /content-length: *(\d+)/i.exec(text)?.[1];
      let end: number;
      if (length !== undefined) end = head + 4 + Number(length);
      else {
        const last = pending.indexOf(LAST_CHUNK, head);
        if (last < 0) return;
        end = last + LAST_CHUNK.length;
      }
      if (pending.length < end) return;
      pending = pending.subarray(end);
      done(Number(text.slice(9, 12)));
    }
  });
}
