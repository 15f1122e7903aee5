import { afterEach, beforeEach, describe, expect, jest, test } from "@jest/globals";
import { ProtocolClient, type ProtocolClientOptions } from "../../protocol/index.js";
import { MemoryTransport } from "../helpers/memory-transport.js";
import { mapDocs, replyTexts } from "../helpers/view-server-child.js";

function setUp(options: ProtocolClientOptions = {}): {
  client: ProtocolClient;
  peer: MemoryTransport;
} {
  const peer = new MemoryTransport();
  return { client: new ProtocolClient(peer, options), peer };
}

const documents = (count: number): object[] =>
  Array.from({ length: count }, (_, index) => ({ _id: `d${index}` }));
const code = (name: string, more: object = {}): unknown =>
  expect.objectContaining({ code: name, ...more });
/** The settled value or error of a promise, undefined while it is pending. */
async function outcome(promise: Promise<unknown>): Promise<unknown> {
  return Promise.race([promise.catch((error: unknown) => error), Promise.resolve(undefined)]);
}

describe("prompt", () => {
  test("matches overlapping commands and replies by order", async () => {
    const { client, peer } = setUp();

    const answers = [
      client.prompt(["reset"]),
      client.prompt(["add_fun", "f"]),
      client.prompt(["map_doc", {}]),
    ];
    peer.say('true\ntrue\n[[["k",null]]]\n');

    expect(await Promise.all(answers)).toEqual([true, true, [[["k", null]]]]);
    expect(peer.lines).toEqual(['["reset"]', '["add_fun","f"]', '["map_doc",{}]']);
    expect(client.stats).toEqual({ commands: 3, bytesIn: 25, bytesOut: 41 });
  });

  test("turns an error reply into a rejection and goes on", async () => {
    const { client, peer } = setUp();

    const first = client.prompt(["add_fun", ""]);
    const second = client.prompt(["reset"]);
    peer.say('["error","not_found","missing function"]\ntrue\n');

    await expect(first).rejects.toThrow(
      code("PROTOCOL_ERROR_REPLY", { id: "not_found", reason: "missing function", fatal: false }),
    );
    expect(await second).toBe(true);
    expect(client.state).toBe("open");
  });

  test("keeps a reason that is no text", async () => {
    const { client, peer } = setUp();

    const answer = client.prompt(["map_doc", {}]);
    peer.say('["error","TypeError",{}]\n');

    await expect(answer).rejects.toThrow(
      code("PROTOCOL_ERROR_REPLY", { id: "TypeError", reason: {} }),
    );
  });

  test("breaks at a fatal reply", async () => {
    const { client, peer } = setUp();

    const first = client.prompt(["map_doc", {}]);
    const second = client.prompt(["reset"]);
    peer.say('["fatal","out_of_memory","no more"]\n');

    await expect(first).rejects.toThrow(
      code("PROTOCOL_ERROR_REPLY", { id: "out_of_memory", fatal: true }),
    );
    await expect(second).rejects.toThrow(code("PROTOCOL_CLOSED"));
    expect(client.state).toBe("broken");
    expect(peer.closed).toBe(true);
  });

  test("takes error-like values of another arity for replies", async () => {
    const { client, peer } = setUp();

    const answer = client.prompt(["map_doc", {}]);
    peer.say('["error","x"]\n');

    expect(await answer).toEqual(["error", "x"]);
  });

  test("passes log lines on, before, between and after commands", async () => {
    const logs: string[] = [];
    const { client, peer } = setUp({ onLog: (text) => logs.push(text) });

    peer.say('["log","starting"]\n');
    const answer = client.prompt(["reset"]);
    peer.say('["log","a"]\n["log","b"]\ntrue\n["log","c"]\n');

    expect(await answer).toBe(true);
    expect(logs).toEqual(["starting", "a", "b", "c"]);
  });

  test("rejects at once a command without a JSON form, and sends nothing", async () => {
    const { client, peer } = setUp();

    await expect(client.prompt(["map_doc", 1n])).rejects.toThrow(TypeError);
    await expect(client.prompt([])).rejects.toThrow(TypeError);

    expect(peer.writes).toEqual([]);
    expect(client.state).toBe("open");
  });

  test("breaks at a line that is no JSON", async () => {
    const { client, peer } = setUp();

    const answer = client.prompt(["reset"]);
    peer.say("Welcome!\n");

    await expect(answer).rejects.toThrow(code("PROTOCOL_BAD_LINE", { line: "Welcome!" }));
    expect(client.state).toBe("broken");
    await expect(client.prompt(["reset"])).rejects.toThrow(code("PROTOCOL_CLOSED"));
  });

  test("does not trust a reply that came with a second one", async () => {
    const { client, peer } = setUp();

    const answer = client.prompt(["reset"]);
    peer.say("true\ntrue\n");

    await expect(answer).rejects.toThrow(
      code("PROTOCOL_UNEXPECTED_REPLY", { answered: 0, line: "true" }),
    );
  });

  test("breaks at a reply that nobody asked for", async () => {
    const broken: unknown[] = [];
    const { client, peer } = setUp({ onBroken: (reason) => broken.push(reason) });

    peer.say("true\n");

    expect(client.state).toBe("broken");
    expect(broken).toEqual([code("PROTOCOL_UNEXPECTED_REPLY")]);
    await expect(client.prompt(["reset"])).rejects.toThrow(code("PROTOCOL_CLOSED"));
  });
});

describe("batch", () => {
  test("gives the raw replies in order, log lines taken out and attributed", async () => {
    const logs: string[] = [];
    const { client, peer } = setUp({ onLog: (text) => logs.push(text) });

    const answer = client.batch(mapDocs(documents(4)), 4);
    for (const piece of [
      '["log","first"]\n[[["a",1]]]\n[[',
      ']]\n["log","th',
      'ird"]\n["log","3"]\n["error","x","y"]\n[]\n',
    ]) {
      peer.say(piece);
    }

    const reply = await answer;
    expect(replyTexts(reply)).toEqual(['[[["a",1]]]', "[[]]", '["error","x","y"]', "[]"]);
    expect(Buffer.from(reply.replies).toString()).toBe(
      '[[["a",1]]]\n[[]]\n["error","x","y"]\n[]\n',
    );
    expect(reply.logs).toEqual([
      { index: 0, text: "first" },
      { index: 2, text: "third" },
      { index: 2, text: "3" },
    ]);
    expect(logs).toEqual(["first", "third", "3"]);
    expect(client.stats.commands).toBe(4);
  });

  test("gives buffers that can be transferred", async () => {
    const { client, peer } = setUp();

    const answer = client.batch(mapDocs(documents(1)), 1);
    peer.say("[]\n");

    const { replies, lineStarts } = await answer;
    expect([replies.byteOffset, replies.buffer.byteLength]).toEqual([0, 3]);
    expect([lineStarts.byteOffset, lineStarts.buffer.byteLength]).toEqual([0, 8]);
  });

  test("of no commands resolves at once", async () => {
    const { client } = setUp();

    const reply = await client.batch(new Uint8Array(), 0, { fence: true });

    expect(reply).toEqual({ replies: Buffer.alloc(0), lineStarts: Uint32Array.of(0), logs: [] });
  });

  test("keeps its place between prompts and other batches", async () => {
    const { client, peer } = setUp();

    const answers = [
      client.prompt(["reset"]),
      client.batch(mapDocs(documents(2)), 2).then(replyTexts),
      client.prompt(["reset"]),
      client.batch(mapDocs(documents(1)), 1).then(replyTexts),
    ];
    peer.say("true\n[1]\n[2]\ntrue\n[3]\n");

    expect(await Promise.all(answers)).toEqual([true, ["[1]", "[2]"], true, ["[3]"]]);
  });

  test("refuses lines that are not as many as it was told", async () => {
    const { client, peer } = setUp();

    await expect(client.batch(mapDocs(documents(2)), 3)).rejects.toThrow(TypeError);
    await expect(client.batch(mapDocs(documents(2)), 1)).rejects.toThrow(TypeError);

    expect(peer.writes).toEqual([]);
  });

  test("keeps what was answered before the death, and says what the peer may have seen", async () => {
    const { client, peer } = setUp({ windowCommands: 4 });

    const first = client.batch(mapDocs(documents(6)), 6);
    const second = client.batch(mapDocs(documents(1)), 1);
    peer.say('[0]\n["log","dying"]\n[1]\n["log","last words"]\n[2');
    peer.die("the peer ended its output");

    const error = await first.catch((reason: unknown) => reason);
    expect(error).toEqual(
      code("PROTOCOL_CLOSED", {
        answered: 2,
        sent: 6,
        command: '["map_doc",{"_id":"d2"}]',
        message: expect.stringMatching(/2 bytes into an unfinished line/),
      }),
    );
    const { partial } = error as { partial: Parameters<typeof replyTexts>[0] & { logs: unknown } };
    expect(replyTexts(partial)).toEqual(["[0]", "[1]"]);
    expect(partial.logs).toEqual([
      { index: 1, text: "dying" },
      { index: 2, text: "last words" },
    ]);
    await expect(second).rejects.toThrow(code("PROTOCOL_CLOSED", { answered: 0, sent: 0 }));
  });

  test("blames the command that was answered by a fatal line", async () => {
    const { client, peer } = setUp();

    const answer = client.batch(mapDocs(documents(3)), 3);
    peer.say('[0]\n["fatal","k","r"]\n');

    const error = await answer.catch((reason: unknown) => reason);
    expect(error).toEqual(
      code("PROTOCOL_ERROR_REPLY", {
        answered: 1,
        id: "k",
        reason: "r",
        fatal: true,
        command: '["map_doc",{"_id":"d1"}]',
      }),
    );
    const { partial } = error as { partial: Parameters<typeof replyTexts>[0] };
    expect(replyTexts(partial)).toEqual(["[0]"]);
    expect(client.state).toBe("broken");
  });

  test("blames nobody when the server dies after its last answer, before the fence", async () => {
    const { client, peer } = setUp();

    const answer = client.batch(mapDocs(documents(1)), 1, { fence: true });
    peer.say('["error","k","r"]\n');
    peer.die();

    const error = await answer.catch((reason: unknown) => reason);
    expect(error).toEqual(code("PROTOCOL_CLOSED", { answered: 1, command: undefined }));
    const { partial } = error as { partial: Parameters<typeof replyTexts>[0] };
    expect(replyTexts(partial)).toEqual(['["error","k","r"]']);
  });

  test("fails at a stray print, with the replies before it", async () => {
    const { client, peer } = setUp();

    const answer = client.batch(mapDocs(documents(3)), 3);
    peer.say("[0]\nmapping d1\n[1]\n[2]\n");

    await expect(answer).rejects.toThrow(
      code("PROTOCOL_BAD_LINE", {
        answered: 1,
        line: "mapping d1",
        command: '["map_doc",{"_id":"d1"}]',
      }),
    );
  });

  test("fails at an empty line", async () => {
    const { client, peer } = setUp();

    const answer = client.batch(mapDocs(documents(2)), 2);
    peer.say("[0]\n\n");

    await expect(answer).rejects.toThrow(code("PROTOCOL_BAD_LINE", { answered: 1 }));
  });

  test("trusts no reply when one too many comes", async () => {
    const { client, peer } = setUp();

    const answer = client.batch(mapDocs(documents(2)), 2);
    peer.say("[0]\n[0]\n[1]\n");

    const error = await answer.catch((reason: unknown) => reason);
    expect(error).toEqual(
      code("PROTOCOL_UNEXPECTED_REPLY", { answered: 0, sent: 2, command: undefined }),
    );
    expect(replyTexts((error as { partial: Parameters<typeof replyTexts>[0] }).partial)).toEqual(
      [],
    );
  });

  test("takes no more replies than it has sent commands", async () => {
    const { client, peer } = setUp({ windowCommands: 1 });

    const answer = client.batch(mapDocs(documents(3)), 3);
    peer.say("[0]\n[0]\n");

    await expect(answer).rejects.toThrow(
      code("PROTOCOL_UNEXPECTED_REPLY", { answered: 0, sent: 1 }),
    );
  });

  test("a fence proves the replies aligned and is not seen in them", async () => {
    const { client, peer } = setUp();

    const first = client.batch(mapDocs(documents(2)), 2, { fence: true });
    const second = client.batch(mapDocs(documents(1)), 1, { fence: true });
    peer.say('[0]\n["error","a","b"]\n');
    expect(await outcome(first)).toBeUndefined();
    peer.say('["log","late"]\n[true, []]\n[2]\n[true,[]]\n');

    expect(replyTexts(await first)).toEqual(["[0]", '["error","a","b"]']);
    expect(replyTexts(await second)).toEqual(["[2]"]);
    expect(peer.lines.filter((line) => line === '["reduce",[],[]]')).toHaveLength(2);
  });

  test("a fence finds a reply too many before the batch resolves", async () => {
    const { client, peer } = setUp();

    const first = client.batch(mapDocs(documents(2)), 2, { fence: true });
    const second = client.batch(mapDocs(documents(2)), 2, { fence: true });
    peer.say("[0]\n[0]\n[1]\n[true,[]]\n");

    await expect(first).rejects.toThrow(
      code("PROTOCOL_UNEXPECTED_REPLY", { answered: 0, line: "[1]" }),
    );
    await expect(second).rejects.toThrow(code("PROTOCOL_CLOSED", { answered: 0 }));
  });

  test("a fence finds a missing reply without waiting for the deadline", async () => {
    const { client, peer } = setUp({ timeoutMs: Infinity });

    const answer = client.batch(mapDocs(documents(2)), 2, { fence: true });
    peer.say("[0]\n[true,[]]\n");

    await expect(answer).rejects.toThrow(code("PROTOCOL_UNEXPECTED_REPLY", { answered: 0 }));
  });
});

describe("probeFence", () => {
  test.each([
    ["[true, []]", true],
    ["[[]]", false],
    ["true", false],
    ['["error","unknown_command","reduce"]', false],
  ])("of a peer that says %s: %p", async (reply, expected) => {
    const { client, peer } = setUp();

    const answer = client.probeFence();
    peer.say(`${reply}\n`);

    expect(await answer).toBe(expected);
    expect(client.state).toBe("open");
  });

  test("of a peer that exits", async () => {
    const { client, peer } = setUp();

    const answer = client.probeFence();
    peer.die();

    await expect(answer).rejects.toThrow(code("PROTOCOL_CLOSED"));
  });
});

describe("limits", () => {
  test("breaks at a line over the limit", async () => {
    const { client, peer } = setUp({ lineBytesMax: 100 });

    const answer = client.batch(mapDocs(documents(2)), 2);
    peer.say(`[0]\n["${"x".repeat(100)}`);

    await expect(answer).rejects.toThrow(code("PROTOCOL_LINE_TOO_LONG", { answered: 1 }));
  });

  test("ends a command that logs without end", async () => {
    const { client, peer } = setUp({ logBytesMax: 100 });

    const answer = client.batch(mapDocs(documents(3)), 3);
    const quarter = `["log","${"x".repeat(20)}"]\n`;
    peer.say(`${quarter.repeat(3)}[0]\n${quarter.repeat(3)}[1]\n`);
    expect(client.state).toBe("open");
    peer.say(quarter.repeat(4));

    await expect(answer).rejects.toThrow(code("PROTOCOL_LOG_FLOOD", { answered: 2 }));
  });

  test("ends a prompt that logs without end", async () => {
    const { client, peer } = setUp({ logBytesMax: 100 });

    const answer = client.prompt(["reset"]);
    peer.say(`["log","${"x".repeat(20)}"]\n`.repeat(4));

    await expect(answer).rejects.toThrow(code("PROTOCOL_LOG_FLOOD"));
  });

  test("bounds the replies to a batch", async () => {
    const { client, peer } = setUp({ batchBytesMax: 10 });

    const answer = client.batch(mapDocs(documents(3)), 3);
    peer.say("[1111]\n");
    peer.say("[2222]\n");

    await expect(answer).rejects.toThrow(code("PROTOCOL_BATCH_TOO_LARGE", { answered: 2 }));
  });

  test.each([
    "windowBytes",
    "windowCommands",
    "timeoutMs",
    "lineBytesMax",
    "logBytesMax",
    "batchBytesMax",
  ])("refuses a %s of 0", (option) => {
    expect(() => setUp({ [option]: 0 })).toThrow(new RegExp(`^${option} must be a positive`));
  });
});

describe("close", () => {
  test("rejects what is pending, ends the peer's input, and is idempotent", async () => {
    const broken: unknown[] = [];
    const { client, peer } = setUp({ onBroken: (reason) => broken.push(reason) });

    const first = client.prompt(["reset"]);
    const second = client.batch(mapDocs(documents(1)), 1);
    client.close();
    client.close();

    await expect(first).rejects.toThrow(code("PROTOCOL_CLOSED"));
    await expect(second).rejects.toThrow(code("PROTOCOL_CLOSED", { answered: 0, sent: 1 }));
    await expect(client.batch(mapDocs(documents(1)), 1)).rejects.toThrow(code("PROTOCOL_CLOSED"));
    expect(client.state).toBe("closed");
    expect(peer.closed).toBe(true);
    expect(broken).toEqual([]);
  });

  test("may be called from the log callback", async () => {
    const { client, peer } = setUp({
      onLog: () => {
        client.close();
      },
    });

    const answer = client.prompt(["reset"]);
    peer.say('["log","x"]\ntrue\n');

    await expect(answer).rejects.toThrow(code("PROTOCOL_CLOSED"));
  });
});

describe("deadline", () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test("fails the oldest unanswered command after a silence, and blames no other call", async () => {
    const { client, peer } = setUp({ timeoutMs: 1000 });
    const first = client.batch(mapDocs(documents(2)), 2).catch((error: unknown) => error);
    const second = client.prompt(["reset"]).catch((error: unknown) => error);
    peer.say("[0]\n");

    await jest.advanceTimersByTimeAsync(999);
    expect(client.state).toBe("open");
    await jest.advanceTimersByTimeAsync(10);

    expect(await first).toEqual(
      code("PROTOCOL_TIMEOUT", {
        answered: 1,
        sent: 2,
        message: expect.stringContaining('{"_id":"d1"}'),
      }),
    );
    expect(await second).toEqual(code("PROTOCOL_CLOSED"));
    expect(client.state).toBe("broken");
    expect(peer.closed).toBe(true);
  });

  test("begins anew with every byte of either direction", async () => {
    const { client, peer } = setUp({ timeoutMs: 1000 });
    const answer = client.prompt(["reset"]);

    for (const piece of ['["lo', 'g","x"]\n', "tr"]) {
      await jest.advanceTimersByTimeAsync(900);
      peer.say(piece);
    }
    await jest.advanceTimersByTimeAsync(900);
    peer.drain();
    await jest.advanceTimersByTimeAsync(900);
    expect(client.state).toBe("open");
    peer.say("ue\n");

    expect(await answer).toBe(true);
  });

  test("does not run while nothing is unanswered", async () => {
    const { client, peer } = setUp({ timeoutMs: 1000 });
    const first = client.prompt(["reset"]);
    peer.say("true\n");
    await first;

    await jest.advanceTimersByTimeAsync(10_000);
    expect(client.state).toBe("open");
    const second = client.prompt(["reset"]);
    await jest.advanceTimersByTimeAsync(999);
    peer.say("true\n");

    expect(await second).toBe(true);
  });

  test("uses one timer, however many commands wait", async () => {
    const { client, peer } = setUp({ timeoutMs: 1000 });

    const answers = Promise.all(Array.from({ length: 100 }, () => client.prompt(["reset"])));
    const batch = client.batch(mapDocs(documents(100)), 100);
    expect(jest.getTimerCount()).toBe(1);
    peer.say("true\n".repeat(100) + "[]\n".repeat(100));

    await answers;
    await batch;
    client.close();
    expect(jest.getTimerCount()).toBe(0);
  });

  test("can be switched off", async () => {
    const { client } = setUp({ timeoutMs: Infinity });
    void client.prompt(["reset"]).catch(() => undefined);

    expect(jest.getTimerCount()).toBe(0);
    await jest.advanceTimersByTimeAsync(2 ** 32);
    expect(client.state).toBe("open");
  });
});
