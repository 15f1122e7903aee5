import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { ProtocolClient } from "../../protocol/index.js";
import { MemoryTransport } from "../helpers/memory-transport.js";
import { mapDocs, replyTexts } from "../helpers/view-server-child.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 200);

const documents = (count: number, size = 0): object[] =>
  Array.from({ length: count }, (_, index) => ({ _id: `d${index}`, text: "x".repeat(size) }));

describe("the window", () => {
  test("of one command sends the next when the last is answered", async () => {
    const peer = new MemoryTransport();
    const client = new ProtocolClient(peer, { windowCommands: 1 });

    const answer = client.batch(mapDocs(documents(3)), 3);
    for (let sent = 1; sent <= 3; sent++) {
      expect(peer.lines).toHaveLength(sent);
      peer.say("[]\n");
    }

    expect((await answer).lineStarts).toHaveLength(4);
  });

  test("refills when half of it is free, in one write", () => {
    const peer = new MemoryTransport();
    const client = new ProtocolClient(peer, { windowCommands: 100 });

    void client.batch(mapDocs(documents(1000)), 1000).catch(() => undefined);
    expect(peer.lines).toHaveLength(100);
    peer.say("[]\n".repeat(49));
    expect(peer.lines).toHaveLength(100);
    peer.say("[]\n");

    expect(peer.lines).toHaveLength(150);
    expect(peer.writes).toHaveLength(2);
    client.close();
  });

  test("bounds the unanswered bytes", () => {
    const peer = new MemoryTransport();
    const client = new ProtocolClient(peer, { windowBytes: 1 << 20 });

    void client.batch(mapDocs(documents(100, 100_000)), 100).catch(() => undefined);
    expect(peer.lines).toHaveLength(10);
    expect(peer.writes).toHaveLength(1);
    peer.say("[]\n".repeat(5));

    expect(peer.lines).toHaveLength(15);
    client.close();
  });

  test("lets a command larger than it travel alone, in pieces", async () => {
    const peer = new MemoryTransport();
    peer.accepting = false;
    const client = new ProtocolClient(peer, { windowBytes: 1 << 20 });

    const answer = client.batch(mapDocs([{}, ...documents(1, 3 << 20), {}]), 3);
    expect(peer.lines).toEqual(['["map_doc",{}]']);
    peer.say("[1]\n");
    expect(peer.writes.slice(1)).toEqual([1 << 20]);
    peer.drain();
    peer.drain();
    peer.drain();
    expect(peer.writes.slice(1).reduce((sum, size) => sum + size)).toBeGreaterThan(3 << 20);
    expect(peer.lines).toHaveLength(2);
    peer.say("[2]\n");
    peer.drain();
    peer.say("[3]\n");

    expect(replyTexts(await answer)).toEqual(["[1]", "[2]", "[3]"]);
  });

  test("reads while the peer does not", async () => {
    const peer = new MemoryTransport();
    peer.accepting = false;
    const client = new ProtocolClient(peer, { windowBytes: 100 });

    const answer = client.batch(mapDocs(documents(20)), 20);
    // Never drained in between: what was answered makes room, once the transport is empty.
    for (let replies = 0; replies < 20;) {
      const sent = peer.lines.length;
      peer.say("[]\n".repeat(sent - replies));
      replies = sent;
      peer.drain();
    }

    expect((await answer).lineStarts).toHaveLength(21);
  });

  test("survives a transport that answers inside write", async () => {
    const peer = new MemoryTransport();
    let answered = 0;
    peer.written = () => {
      while (answered < peer.lines.length) {
        answered++;
        peer.say(`[${answered}]\n`);
      }
    };
    const client = new ProtocolClient(peer, { windowCommands: 3 });

    const answers = await Promise.all([
      client.batch(mapDocs(documents(10)), 10).then(replyTexts),
      client.prompt(["reset"]),
      client.batch(mapDocs(documents(2)), 2, { fence: false }).then(replyTexts),
    ]);

    expect(answers[0]).toEqual(Array.from({ length: 10 }, (_, index) => `[${index + 1}]`));
    expect(answers.slice(1)).toEqual([[11], ["[12]", "[13]"]]);
  });

  test("any mix of calls gets its own answers and log lines, for any window and any pieces", async () => {
    const command = fc.record({
      size: fc.nat({ max: 300 }),
      logs: fc.nat({ max: 3 }),
      replySize: fc.nat({ max: 200 }),
    });
    const call = fc.record({
      kind: fc.constantFrom("prompt", "batch", "fenced"),
      commands: fc.array(command, { minLength: 1, maxLength: 12 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(call, { maxLength: 8 }),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 2000 }),
        fc.infiniteStream(fc.integer({ min: 1, max: 400 })),
        async (calls, windowCommands, windowBytes, sizes) => {
          const peer = new MemoryTransport();
          const client = new ProtocolClient(peer, { windowCommands, windowBytes });
          const docs = calls.map(({ commands }, callIndex) =>
            commands.map(({ size, logs, replySize }, index) => ({
              _id: `${callIndex}/${index}`,
              logs,
              reply: "r".repeat(replySize),
              padding: "é".repeat(size),
            })),
          );
          const answers = calls.map(({ kind }, index) => {
            const own = docs[index] ?? [];
            return kind === "prompt"
              ? Promise.all(own.map((doc) => client.prompt(["map_doc", doc])))
              : client.batch(mapDocs(own), own.length, { fence: kind === "fenced" });
          });

          let answered = 0;
          let output = Buffer.alloc(0);
          for (;;) {
            for (; answered < peer.lines.length; answered++) {
              // Never more on the way than the window allows, unless it is one command alone.
              const unanswered = peer.lines.slice(answered);
              const bytes = unanswered.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);
              expect(unanswered.length).toBeLessThanOrEqual(windowCommands);
              if (unanswered.length > 1) expect(bytes).toBeLessThanOrEqual(windowBytes);
              output = Buffer.concat([output, Buffer.from(answerTo(peer.lines[answered] ?? ""))]);
            }
            if (output.length === 0) break;
            const size = Number(sizes.next().value);
            peer.say(output.subarray(0, size));
            output = output.subarray(size);
          }

          for (const [index, answer] of (await Promise.all(answers)).entries()) {
            const own = docs[index] ?? [];
            const rows = own.map((doc) => [[[doc._id, doc.reply]]]);
            if (Array.isArray(answer)) {
              expect(answer).toEqual(rows);
              continue;
            }
            expect(replyTexts(answer)).toEqual(rows.map((row) => JSON.stringify(row)));
            expect(answer.logs).toEqual(
              own.flatMap((doc, at) =>
                Array.from({ length: doc.logs }, () => ({ index: at, text: `[${doc._id}]` })),
              ),
            );
          }
          client.close();
        },
      ),
      { numRuns: RUNS },
    );
  });
});

function answerTo(line: string): string {
  const [name, doc] = JSON.parse(line) as [string, { _id: string; logs: number; reply: string }];
  if (name === "reduce") return "[true,[]]\n";
  return `${`["log","[${doc._id}]"]\n`.repeat(doc.logs)}${JSON.stringify([[[doc._id, doc.reply]]])}\n`;
}
