import { describe, expect, jest, test } from "@jest/globals";
import { once } from "node:events";
import { Duplex, PassThrough, type Readable, Writable } from "node:stream";
import { ProtocolClient, type ProtocolError, streamTransport } from "../../protocol/index.js";
import { mapDocs, replyTexts } from "../helpers/view-server-child.js";

const code = (name: string, more: object = {}): unknown =>
  expect.objectContaining({ code: name, ...more });

function closed(readable: Readable, writable: Writable): Promise<ProtocolError> {
  const transport = streamTransport(readable, writable);
  transport.onData(() => undefined);
  return new Promise((resolve) => {
    transport.onClose(resolve);
  });
}

/** A writable side whose writes fail. */
function failing(): Writable {
  return new Writable({
    write(_chunk, _encoding, callback) {
      callback(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
    },
  });
}

describe("streamTransport", () => {
  test("carries bytes both ways", async () => {
    const [toServer, toHost] = [new PassThrough(), new PassThrough()];
    const client = new ProtocolClient(streamTransport(toHost, toServer));

    const answer = client.prompt(["reset"]);
    expect(String(await once(toServer, "data"))).toBe('["reset"]\n');
    toHost.write("true\n");

    expect(await answer).toBe(true);
  });

  test("reports the end of the peer's output once, after all data", async () => {
    const [toServer, toHost] = [new PassThrough(), new PassThrough()];
    const seen: string[] = [];
    const transport = streamTransport(toHost, toServer);
    transport.onData((bytes) => seen.push(Buffer.from(bytes).toString()));
    const reason = new Promise<ProtocolError>((resolve) => {
      transport.onClose((error) => {
        seen.push(error.code);
        resolve(error);
      });
    });

    toHost.write("a");
    toHost.end("b");
    await once(toHost, "close");

    await reason;
    expect(seen.join("")).toBe("abPROTOCOL_CLOSED");
  });

  test("reports an error of the readable side with its cause", async () => {
    const toHost = new PassThrough();
    const reason = closed(toHost, new PassThrough());

    toHost.destroy(new Error("read ECONNRESET"));

    expect(await reason).toEqual(
      code("PROTOCOL_CLOSED", { cause: expect.objectContaining({ message: "read ECONNRESET" }) }),
    );
  });

  test("reports a stream that had ended before", async () => {
    const toHost = new PassThrough();
    toHost.destroy();
    await once(toHost, "close");

    expect(await closed(toHost, new PassThrough())).toEqual(code("PROTOCOL_CLOSED"));
  });

  test("keeps answers that are still in the pipe when a write fails", async () => {
    const toHost = new PassThrough();
    const client = new ProtocolClient(streamTransport(toHost, failing()));
    const answer = client.batch(mapDocs([{}, {}, {}]), 3);
    await new Promise(setImmediate);

    toHost.end("[0]\n[1]\n");

    const error = await answer.catch((reason: unknown) => reason);
    expect(error).toEqual(code("PROTOCOL_CLOSED", { answered: 2 }));
    const { partial } = error as { partial: Parameters<typeof replyTexts>[0] };
    expect(replyTexts(partial)).toEqual(["[0]", "[1]"]);
  });

  test("gives up a peer that takes no input and says nothing", async () => {
    jest.useFakeTimers({ doNotFake: ["nextTick", "setImmediate", "queueMicrotask"] });
    try {
      const client = new ProtocolClient(streamTransport(new PassThrough(), failing()), {
        timeoutMs: Infinity,
      });
      const answer = client.prompt(["reset"]).catch((error: unknown) => error);
      await new Promise(setImmediate);

      await jest.advanceTimersByTimeAsync(1000);

      expect(await answer).toEqual(
        code("PROTOCOL_CLOSED", { message: expect.stringContaining("EPIPE") }),
      );
    } finally {
      jest.useRealTimers();
    }
  });

  test("close ends the peer's input and drops what it still says", async () => {
    const [toServer, toHost] = [new PassThrough(), new PassThrough()];
    toServer.resume();
    const client = new ProtocolClient(streamTransport(toHost, toServer));

    client.close();
    await once(toServer, "end");
    toHost.end("x".repeat(1 << 20));

    await once(toHost, "close");
    expect(client.state).toBe("closed");
  });

  test("survives errors of both sides after close", () => {
    const [toServer, toHost] = [new PassThrough(), new PassThrough()];
    streamTransport(toHost, toServer).close();

    expect(() => toServer.emit("error", new Error("late"))).not.toThrow();
    expect(() => toHost.emit("error", new Error("late"))).not.toThrow();
  });

  test("refuses a stream of strings or objects", () => {
    const text = new PassThrough();
    text.setEncoding("utf8");

    expect(() => streamTransport(text, new PassThrough())).toThrow(TypeError);
    expect(() => streamTransport(new PassThrough({ objectMode: true }), new PassThrough())).toThrow(
      TypeError,
    );
  });

  test("does not deadlock with a peer that takes no input until its reply of 10 MB is read", async () => {
    const peer = halfDuplexPeer(10_000_000);
    const client = new ProtocolClient(streamTransport(peer, peer));
    const documents = Array.from({ length: 40 }, () => ({ text: "x".repeat(20_000) }));

    const reply = await client.batch(mapDocs(documents), 40);

    expect(reply.lineStarts.at(-1)).toBe(40 * 10_000_005);
  });
});

/** A peer in memory that answers each line with `[[1…1]]`, and takes the next byte of input when all of that has been read. */
function halfDuplexPeer(replyBytes: number): Duplex {
  const piece = Buffer.alloc(4096, "1");
  let unread = 0;
  let wanted = false;
  let whenRead: (() => void) | undefined;
  const output = (): void => {
    while (wanted && unread > 0) {
      const size = Math.min(unread, piece.length);
      unread -= size;
      wanted = peer.push(piece.subarray(0, size));
      if (unread > 0) continue;
      wanted = peer.push("]]\n");
      if (whenRead) setImmediate(whenRead);
    }
  };
  const peer = new Duplex({
    highWaterMark: 4096,
    write(chunk: Buffer, _encoding, callback) {
      const take = (from: number): void => {
        const lf = chunk.indexOf(10, from);
        if (lf === -1) {
          callback();
          return;
        }
        unread = replyBytes;
        whenRead = () => {
          take(lf + 1);
        };
        wanted = peer.push("[[") || wanted;
        output();
      };
      take(0);
    },
    read() {
      wanted = true;
      output();
    },
  });
  return peer;
}
