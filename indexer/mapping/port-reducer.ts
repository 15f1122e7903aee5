// Custom reduces across a message port: a merging thread asks, the main thread has a view server do it.

import type { MessagePort } from "node:worker_threads";

import type { JsReduceResult, JsReduceRunner } from "../reducers/index.js";

interface Request {
  readonly id: number;
  readonly rereduce: boolean;
  readonly sources: readonly string[];
  readonly inputs: readonly string[];
  readonly context: string;
}

interface Reply {
  readonly id: number;
  readonly results?: readonly (readonly JsReduceResult[])[];
  readonly error?: string;
}

/** The asking side. `ours`: as the runner at the other end says. */
export function portReducer(port: MessagePort, ours: boolean): JsReduceRunner {
  const waiting = new Map<
    number,
    { resolve: (r: readonly (readonly JsReduceResult[])[]) => void; reject: (e: Error) => void }
  >();
  let ids = 0;
  port.on("message", (reply: Reply) => {
    const waiter = waiting.get(reply.id);
    waiting.delete(reply.id);
    if (reply.results) waiter?.resolve(reply.results);
    else waiter?.reject(new Error(reply.error ?? "the view server is gone"));
  });
  const ask = (
    rereduce: boolean,
    sources: readonly string[],
    inputs: readonly string[],
    context = "",
  ): Promise<readonly (readonly JsReduceResult[])[]> =>
    new Promise((resolve, reject) => {
      const request: Request = { id: ids++, rereduce, sources, inputs, context };
      waiting.set(request.id, { resolve, reject });
      port.postMessage(request);
    });
  return {
    ours,
    reduce: async (sources, rows) => (await ask(false, sources, [rows]))[0] ?? [],
    rereduce: async (source, values, context) =>
      (await ask(true, [source], [values], context))[0]?.[0] ?? "null",
    reduceBatch: (sources, rows) => ask(false, sources, rows),
    rereduceBatch: async (source, values, context) =>
      (await ask(true, [source], values, context)).map(([result]) => result ?? "null"),
  };
}

/** The answering side: serves requests from `port` until it is closed. */
export function serveReducer(port: MessagePort, runner: JsReduceRunner): void {
  port.on("message", (request: Request) => {
    void answer(request, runner).then((reply) => {
      port.postMessage(reply);
    });
  });
  port.unref();
}

async function answer(request: Request, runner: JsReduceRunner): Promise<Reply> {
  const { id, rereduce, sources, inputs, context } = request;
  try {
    const results = await Promise.all(
      inputs.map(async (input) =>
        rereduce
          ? await Promise.all(
              sources.map(async (source) => runner.rereduce(source, input, context)),
            )
          : await runner.reduce(sources, input),
      ),
    );
    return { id, results };
  } catch (error) {
    return { id, error: (error as Error).message };
  }
}
