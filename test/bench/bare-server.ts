// A bare node:http server that answers everything with a constant: what HTTP alone costs.
//
//   node dist/test/bench/bare-server.js BODY-FILE [PROCESSES=1]      prints {"port":…}
//
// Several processes share the port through node:cluster, as those of `serve --workers` do.

import cluster from "node:cluster";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const body = readFileSync(process.argv[2] ?? "");
const processes = Number(process.argv[3] ?? 1);

function listen(told: (port: number) => void): void {
  const server = createServer((_request, response) => {
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length });
    response.end(body);
  });
  server.listen(0, "127.0.0.1", () => {
    told((server.address() as AddressInfo).port);
  });
}

function print(port: number): void {
  console.log(JSON.stringify({ port }));
}

if (cluster.isWorker) listen((port) => process.send?.(port));
else if (processes === 1) listen(print);
else {
  let listening = 0;
  for (let i = 0; i < processes; i++)
    cluster.fork().on("message", (port: number) => {
      if (++listening === processes) print(port);
    });
}
process.on("SIGTERM", () => process.exit(0));
