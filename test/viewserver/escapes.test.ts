// Every attack is seen to work where nothing defends, and to fail here.
import { setImmediate } from "node:timers/promises";

import { describe, expect, test } from "@jest/globals";

import { Session } from "../../viewserver/index.js";
import { attacks, attackSource, type Attack } from "./attacks.js";
import { bombs, type Bomb } from "./bombs.js";
import { FORGED_LINE, forgeries } from "./forgeries.js";
import { expectNaively, naiveEnds, pollution } from "./naive-runs.js";
import { harmful, NEIGHBOUR, NEIGHBOUR_ROWS } from "./neighbours.js";
import { runProgram, serveLines } from "./serving.js";

const DOC = '{"_id":"x","tags":["a","b"],"o":{"p":1}}';

/** Both runs of each attack: there is no other way to have one of them. */
function eachAttack<A extends Attack>(
  list: readonly A[],
  failsHere: (attack: A, source: string) => void | Promise<void>,
): void {
  describe.each(list.map((attack) => [attack.name, attack] as const))("%s", (_name, attack) => {
    test(`naively it ${attack.naive}`, async () => {
      await expectNaively(attack);
    });

    test("here it fails", async () => {
      await failsHere(attack, attackSource(attack));
    });
  });
}

test("there are at least sixty attacks, each with an end that is seen where nothing defends", () => {
  const all: readonly Attack[] = [...attacks, ...harmful, ...forgeries, ...bombs];

  expect(attacks.length).toBeGreaterThanOrEqual(60);
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
  expect(all.filter(({ naive }) => !naiveEnds.includes(naive))).toEqual([]);
});

describe("an attack on the realm", () => {
  eachAttack(attacks, async (_attack, source) => {
    const session = new Session();
    session.handle('["reset"]');
    const added = session.handle(JSON.stringify(["add_fun", source])).output;
    session.handle(
      JSON.stringify(["add_fun", "function (doc) { emit(doc.polluted, doc.tags.polluted); }"]),
    );
    const replies: string[] = [];
    for (let i = 0; i < 3; i++) {
      replies.push(session.mapDocument(DOC));
      await setImmediate();
    }

    for (const reply of replies) {
      expect(reply).not.toContain("ESCAPED");
      // Whatever it did, the other function maps as if nothing were.
      const all = JSON.parse(reply) as unknown[];
      expect(all.at(-1)).toEqual([[null, null]]);
      expect(all.length).toBe(added === "true\n" ? 2 : 1);
    }
    expect(JSON.stringify(session.takeLogs())).not.toContain("ESCAPED");
    expect(pollution()).toEqual([]);
  });
});

describe("what one function does to another", () => {
  eachAttack(harmful, (_attack, source) => {
    const session = new Session();
    session.handle('["reset"]');
    for (const each of [source, NEIGHBOUR]) {
      expect(session.handle(JSON.stringify(["add_fun", each])).output).toBe("true\n");
    }

    for (let i = 0; i < 3; i++) {
      const [, rows] = JSON.parse(session.mapDocument(DOC)) as unknown[][];
      expect(rows).toEqual(NEIGHBOUR_ROWS);
    }
  });

  test("globals are gone after a reset", () => {
    const session = new Session();
    session.handle('["reset"]');
    session.handle(
      JSON.stringify(["add_fun", "function (doc) { g = 1; Object.prototype.h = 1; emit(g); }"]),
    );
    expect(session.mapDocument("{}")).toBe("[[[1,null]]]");
    session.handle('["reset"]');
    session.handle(JSON.stringify(["add_fun", "function (doc) { emit(typeof g, ({}).h); }"]));

    expect(session.mapDocument("{}")).toBe('[[["undefined",null]]]');
  });
});

describe("a forged reply", () => {
  eachAttack(forgeries, (_attack, source) => {
    for (const exceptions of ["text", "json"] as const) {
      const { stdout } = serveLines(
        ['["reset"]', JSON.stringify(["add_fun", source]), `["map_doc",${DOC}]`, '["reset"]'],
        { mode: "stock", exceptions },
      );
      const lines = stdout.split("\n").filter((line) => !line.startsWith('["log",'));

      expect(lines).toEqual(["true", "true", "[[]]", "true", ""]);
      expect(stdout.split("\n")).not.toContain(FORGED_LINE);
    }
  });
});

const SERVED = (body: string): string[] => [
  '["reset"]',
  JSON.stringify(["add_fun", body]),
  '["map_doc",{"_id":"x"}]',
];

describe("a bomb", () => {
  const ends: Readonly<Record<Bomb["here"], (source: string) => void | Promise<void>>> = {
    // Rows are limited, and whatever cannot be printed costs the function's rows.
    document: (source) => {
      const session = new Session({ rowsMax: 1000 });
      const bomb = `function (doc) { if (doc.bomb) (${source})(doc); emit(1, 1); }`;
      session.handle('["reset"]');
      session.handle(JSON.stringify(["add_fun", bomb]));
      session.handle(JSON.stringify(["add_fun", "function (doc) { emit(2, 2); }"]));

      expect(session.mapDocument('{"_id":"x","bomb":true}')).toBe("[[],[[2,2]]]");
      expect(session.mapDocument('{"_id":"y"}')).toBe("[[[1,1]],[[2,2]]]");
    },
    // The server dies of it, and says nothing wrong.
    process: async (source) => {
      const { stdout, exit } = await runProgram(
        SERVED(source)
          .map((line) => line + "\n")
          .join(""),
        { nodeArgs: ["--max-old-space-size=32"], timeoutMs: 50_000 },
      );

      expect(stdout).toBe("true\ntrue\n");
      expect(exit).not.toBe(0);
      expect(exit).not.toBe("SIGKILL");
    },
    // Whoever started the server stops it, and has the earlier replies.
    time: async (source) => {
      const { stdout, exit } = await runProgram(
        SERVED(source).map((line) => Buffer.from(line + "\n")),
        { timeoutMs: 4000 },
      );

      expect(exit).toBe("SIGKILL");
      expect("true\ntrue\n".startsWith(stdout)).toBe(true);
    },
  };

  eachAttack(bombs, async ({ here }, source) => {
    await ends[here](source);
  });
});
