import { describe, expect, test } from "@jest/globals";
import { mapDocs, replyTexts, withServer } from "../helpers/view-server-child.js";

type Reply = Parameters<typeof replyTexts>[0];

const code = (name: string, more: object = {}): unknown =>
  expect.objectContaining({ code: name, ...more });
const plain = (count: number, from = 0): object[] =>
  Array.from({ length: count }, (_, index) => ({ _id: `d${from + index}` }));
const row = (id: string): string => `[[["${id}",null]]]`;

async function failure(promise: Promise<unknown>): Promise<{ partial: Reply }> {
  return (await promise.then(
    () => {
      throw new Error("the call should have failed");
    },
    (error: unknown) => error,
  )) as { partial: Reply };
}

describe("a real child process", () => {
  test("answers prompts and batches, and exits when the client closes", async () => {
    await withServer("good", {}, async ({ client, exited }) => {
      expect(await client.prompt(["reset"])).toBe(true);
      const answers = [0, 5000].map((from) =>
        client.batch(mapDocs(plain(5000, from)), 5000, { fence: true }),
      );

      const ids = (await Promise.all(answers)).flatMap(replyTexts);

      expect(ids).toEqual(Array.from({ length: 10_000 }, (_, index) => row(`d${index}`)));
      client.close();
      expect(await exited).toEqual([0, null]);
    });
  });

  test("that is strictly half-duplex does not deadlock while 10 MB of its own are unread", async () => {
    await withServer("half-duplex", {}, async ({ client }) => {
      const big = { _id: "big", bytes: 10_000_000 };
      const docs = [...plain(2000), big, ...plain(2000), big, ...plain(2000)];

      const reply = await client.batch(mapDocs(docs), docs.length);

      expect(reply.lineStarts).toHaveLength(docs.length + 1);
      const texts = replyTexts(reply);
      expect(texts[2000]).toHaveLength(10_000_013);
      expect(texts.slice(2001, 4001)).toEqual(plain(2000).map((_, index) => row(`d${index}`)));
    });
  });

  test("that is strictly half-duplex gets along with huge commands and huge replies at once", async () => {
    await withServer("half-duplex", {}, async ({ client }) => {
      const huge = { _id: "huge", text: "x".repeat(5_000_000), bytes: 10_000_000 };

      const reply = await client.batch(mapDocs([huge, huge, huge]), 3);

      expect(replyTexts(reply).map((text) => text.length)).toEqual(Array(3).fill(10_000_013));
    });
  });

  test("that is gone before the first command fails the first call", async () => {
    await withServer("exits-at-start", {}, async ({ client, exited }) => {
      const error = await failure(client.batch(mapDocs(plain(2000)), 2000));

      expect(error).toEqual(code("PROTOCOL_CLOSED", { answered: 0 }));
      expect(await exited).toEqual([3, null]);
      expect(client.state).toBe("broken");
    });
  });

  test("that hangs times out at the right document", async () => {
    await withServer("hangs", { timeoutMs: 2000 }, async ({ client }) => {
      const docs = [...plain(3), { _id: "bad", hang: true }, ...plain(3)];

      const error = await failure(client.batch(mapDocs(docs), docs.length));

      expect(error).toEqual(
        code("PROTOCOL_TIMEOUT", {
          answered: 3,
          sent: 7,
          command: '["map_doc",{"_id":"bad","hang":true}]',
        }),
      );
      expect(replyTexts(error.partial)).toEqual(["d0", "d1", "d2"].map(row));
    });
  });

  test("that closed its input is given up", async () => {
    await withServer("ignores-input", { timeoutMs: 2000 }, async ({ client }) => {
      const error = await failure(client.batch(mapDocs(plain(100_000)), 100_000));

      expect((error as unknown as { code: string }).code).toMatch(/^PROTOCOL_(CLOSED|TIMEOUT)$/);
      expect(error).toEqual(expect.objectContaining({ answered: 0 }));
    });
  });

  test("that dies within a line loses that line only", async () => {
    await withServer("half-a-line", {}, async ({ client }) => {
      const docs = [...plain(3), { _id: "bad", half: true }, ...plain(3)];

      const error = await failure(client.batch(mapDocs(docs), docs.length));

      expect(error).toEqual(
        code("PROTOCOL_CLOSED", {
          answered: 3,
          message: expect.stringContaining("unfinished line"),
        }),
      );
      expect(replyTexts(error.partial)).toEqual(["d0", "d1", "d2"].map(row));
    });
  });

  test.each([1, 10, 1000])(
    "that dies in a batch keeps what it answered, window %p",
    async (windowCommands) => {
      await withServer("dies", { windowCommands }, async ({ client, exited }) => {
        const docs = [...plain(700), { _id: "bad", die: true }, ...plain(700)];

        const error = await failure(client.batch(mapDocs(docs), docs.length));

        expect(error).toEqual(code("PROTOCOL_CLOSED", { answered: 700 }));
        expect(replyTexts(error.partial)).toEqual(plain(700).map((_, index) => row(`d${index}`)));
        const { sent } = error as unknown as { sent: number };
        expect(sent).toBeGreaterThan(700);
        expect(sent).toBeLessThanOrEqual(700 + windowCommands);
        expect(await exited).toEqual([9, null]);
      });
    },
  );

  test("that says fatal before it dies is quoted", async () => {
    await withServer("dies", {}, async ({ client }) => {
      const docs = [...plain(3), { _id: "bad", die: "fatal" }, ...plain(3)];

      const error = await failure(client.batch(mapDocs(docs), docs.length));

      expect(error).toEqual(
        code("PROTOCOL_ERROR_REPLY", {
          answered: 3,
          fatal: true,
          id: "out_of_memory",
          reason: "no more",
        }),
      );
    });
  });

  test("that answers twice is found out by the fence", async () => {
    await withServer("two-replies", {}, async ({ client }) => {
      const docs = [...plain(300), { _id: "bad", twice: true }, ...plain(300)];

      const error = await failure(client.batch(mapDocs(docs), docs.length, { fence: true }));

      expect(error).toEqual(code("PROTOCOL_UNEXPECTED_REPLY", { answered: 0 }));
      expect(replyTexts(error.partial)).toEqual([]);
    });
  });

  test("that answers twice is blamed when its document is alone", async () => {
    await withServer("two-replies", { windowCommands: 1 }, async ({ client }) => {
      const blamed: number[] = [];
      const docs = [{ _id: "a" }, { _id: "b", twice: true }];
      for (const [index, doc] of docs.entries()) {
        await client.batch(mapDocs([doc]), 1, { fence: true }).catch(() => blamed.push(index));
      }

      expect(blamed).toEqual([1]);
    });
  });

  test("that leaves an answer out is found out by the fence, without waiting", async () => {
    await withServer("two-replies", { timeoutMs: Infinity }, async ({ client }) => {
      const docs = [...plain(3), { _id: "bad", never: true }, ...plain(3)];

      const error = await failure(client.batch(mapDocs(docs), docs.length, { fence: true }));

      expect(error).toEqual(code("PROTOCOL_UNEXPECTED_REPLY", { answered: 0 }));
    });
  });

  test("may log a great deal for a document", async () => {
    const logged: string[] = [];
    await withServer("log-flood", { onLog: (text) => logged.push(text) }, async ({ client }) => {
      const docs = [{ _id: "a" }, { _id: "b", logs: 20_000 }, { _id: "c", logs: 1 }];

      const reply = await client.batch(mapDocs(docs), 3);

      expect(replyTexts(reply)).toEqual(["a", "b", "c"].map(row));
      expect(reply.logs).toHaveLength(20_001);
      expect(reply.logs[19_999]).toEqual({ index: 1, text: "line 19999" });
      expect(reply.logs[20_000]).toEqual({ index: 2, text: "line 0" });
      expect(logged).toHaveLength(20_001);
    });
  });

  test("that logs without end is stopped although it is never silent", async () => {
    await withServer("log-flood", { logBytesMax: 1 << 20 }, async ({ client }) => {
      const docs = [{ _id: "a" }, { _id: "b", logs: "endless" }];

      const error = await failure(client.batch(mapDocs(docs), 2));

      expect(error).toEqual(code("PROTOCOL_LOG_FLOOD", { answered: 1 }));
    });
  });

  test("that answers with an endless line is stopped at the limit", async () => {
    await withServer("endless-line", { lineBytesMax: 8 << 20 }, async ({ client }) => {
      const docs = [{ _id: "a" }, { _id: "b", endless: true }];

      const error = await failure(client.batch(mapDocs(docs), 2));

      expect(error).toEqual(code("PROTOCOL_LINE_TOO_LONG", { answered: 1 }));
    });
  });

  test("that answers with a line of 200 MB is understood", async () => {
    await withServer("half-duplex", {}, async ({ client }) => {
      const reply = await client.batch(
        mapDocs([{ _id: "a" }, { bytes: 200_000_000 }, { _id: "c" }]),
        3,
      );

      expect([...reply.lineStarts]).toEqual([0, 15, 200_000_029, 200_000_044]);
    });
  });

  test("that prints by itself is stopped at the document that made it", async () => {
    await withServer("bad-json", {}, async ({ client }) => {
      const docs = [...plain(3), { _id: "bad", chatty: true }, ...plain(3)];

      const error = await failure(client.batch(mapDocs(docs), docs.length));

      expect(error).toEqual(code("PROTOCOL_BAD_LINE", { answered: 3, line: "mapping a document" }));
    });
  });

  test.each([
    ["the whole answer", { _id: "a" }],
    ["the beginning of a long answer", { _id: "a", bytes: 50_000_000 }],
  ])("is not condemned because our own event loop was busy while %s waited", async (_, doc) => {
    await withServer("half-duplex", { timeoutMs: 2000 }, async ({ client }) => {
      await client.prompt(["reset"]);
      const answer = client.batch(mapDocs([doc]), 1);
      await new Promise(setImmediate);

      // The answer waits in the pipe while the deadline passes.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500);

      expect((await answer).lineStarts).toHaveLength(2);
    });
  });
});
