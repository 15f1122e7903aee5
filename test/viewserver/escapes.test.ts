// Every attack is seen to work where nothing defends, and to fail here.
import { spawn } from "node:child_process";
import path from "node:path";
import { setImmediate, setTimeout } from "node:timers/promises";
import { describe, expect, test } from "@jest/globals";
import { Session } from "../../viewserver/index.js";
import { attacks, attackSource, type Attack } from "./attacks.js";
import { ESCAPED_EXIT, runNaively } from "./naive.js";
import { runProgram } from "./serving.js";

const DOC = '{"_id":"x","tags":["a","b"],"o":{"p":1}}';

async function naiveChild(source: string, ...flags: string[]): Promise<number | string | null> {
  const child = spawn(
    process.execPath,
    [...flags, path.join(import.meta.dirname, "naive.js"), "--attack", source],
    { stdio: "ignore" },
  );
  return new Promise((resolve) => {
    const timer = globalThis.setTimeout(() => child.kill("SIGKILL"), 5000);
    child.on("exit", (code, signal) => {
      clearTimeout(timer);
      resolve(signal ?? code);
    });
  });
}

async function naively({ naive }: Attack, source: string): Promise<void> {
  switch (naive) {
    case "escapes":
      expect(runNaively(source)).toContain("ESCAPED");
      break;
    case "escapes later": {
      const emitted = runNaively(source);
      for (let i = 0; i < 500 && !emitted.includes("ESCAPED"); i++) await setTimeout(1);
      expect(emitted).toContain("ESCAPED");
      break;
    }
    case "pollutes":
      try {
        runNaively(source);
        expect(pollution()).not.toEqual([]);
      } finally {
        clean();
      }
      break;
    case "escapes in a process":
      // Under jest the naive host is itself a context, whose errors near the end of the stack come from elsewhere.
      expect(await naiveChild(source)).toBe(ESCAPED_EXIT);
      break;
    case "kills":
      expect(await naiveChild(source)).toBe(1);
      break;
    case "hangs":
      expect(await naiveChild(source)).toBe("SIGKILL");
      break;
  }
}

const shared: object[] = [Object.prototype, Array.prototype, Function.prototype];
const pollution = (): object[] => shared.filter((o) => Object.hasOwn(o, "polluted"));
function clean(): void {
  for (const o of shared) Reflect.deleteProperty(o, "polluted");
}

test("there are at least sixty attacks", () => {
  expect(attacks.length).toBeGreaterThanOrEqual(60);
});

describe.each(attacks.map((a) => [a.name, a] as const))("%s", (_name, attack) => {
  const source = attackSource(attack);

  test(`naively it ${attack.naive}`, async () => {
    await naively(attack, source);
  });

  test("in a session it fails", async () => {
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

describe("errors of the realm", () => {
  // Whatever operation meets the end of the stack, what it throws is of the user's realm or the documents', never of the host.
  const operations = [
    'JSON.parse("[1,[2]]")',
    "JSON.stringify({a:[1,{b:2}]})",
    '"abc".replace(/b/, function () { return "x"; })',
    "[3,1,2].sort(function (a, b) { return a - b; })",
    'new RegExp("(a+)+b").test("aaaa")',
    "new Date(0).toLocaleString()",
    'try { eval("1") } catch (e) { probe(e); }',
    'try { Function("1") } catch (e) { probe(e); }',
    "new Proxy({}, { get: function () { return 1; } }).x",
    "Reflect.ownKeys(doc)",
    "doc.tags.map(String)",
    "(1234.5).toLocaleString()",
    "new Intl.NumberFormat().format(1)",
    "new Error('x').stack",
    "String(new Error('x'))",
    "new Map([[1, 2]]).entries().next()",
    "BigInt(5) ** BigInt(50)",
    "toJSON(doc)",
    "isArray(doc)",
    "require('nothing')",
    "getRow()",
    "send('x')",
    "start({})",
    "provides('html', function () {})",
    "registerType('x', 'y')",
  ];
  test.each(operations)("near the end of the stack: %s", (operation) => {
    const session = new Session();
    session.handle('["reset"]');
    const source = `function (doc) {
      function probe(e) {
        if (e === null || typeof e !== "object" || Array.isArray(e)) return;
        var p = Object.getPrototypeOf(e);
        while (Object.getPrototypeOf(p) !== null) p = Object.getPrototypeOf(p);
        if (p !== Object.prototype && p !== Object.getPrototypeOf(doc)) emit("ESCAPED", String(e));
      }
      function burrow() { try { burrow(); } catch (e) { probe(e); } try { ${operation}; } catch (e) { probe(e); } }
      burrow();
      emit("done", null);
    }`;

    expect(session.handle(JSON.stringify(["add_fun", source])).output).toBe("true\n");
    expect(session.mapDocument(DOC)).toMatch(/^\[\[(\["done",null\])?\]\]$/);
  });
});

test("every object in reach belongs to the function's own realm or the documents'", () => {
  const session = new Session();
  session.handle('["reset"]');
  session.handle(
    '["add_lib",{"m":"exports.f = function () { return module; }; exports.self = this"}]',
  );
  // Walks everything that properties, accessors, prototypes and calls without arguments lead to.
  const source = `function (doc) {
    var roots = [doc, emit, log, sum, isArray, toJSON, require, provides, registerType, start, send, getRow, this, globalThis];
    roots.push(arguments, arguments.callee, require("views/lib/m"), require("views/lib/m").f(), doc.tags[Symbol.iterator]());
    var failing = [function () { null.x }, function () { doc.tags.push(1) }, function () { require("nope") }, function () { getRow() },
      function () { eval("1") }, function () { emit.constructor("1") }, function () { BigInt(1.5) }, function () { send(null) },
      function () { new Proxy({}, null) }, function () { JSON.parse("{") }, function () { toJSON(1n) }, function () { log(1n) },
      function () { emit.call.call(1) }, function () { decodeURI("%") }, function () { "x".repeat(-1) }, function () { Symbol() + 1 }];
    for (var i = 0; i < failing.length; i++) try { failing[i](); } catch (e) { roots.push(e); }
    var ends = [Object.prototype, Object.getPrototypeOf(Object.getPrototypeOf(emit)), null];
    var seen = new Set(), queue = roots, foreign = [], functions = 0;
    while (queue.length) {
      var v = queue.pop();
      if ((typeof v !== "object" && typeof v !== "function") || v === null || seen.has(v)) continue;
      seen.add(v);
      if (typeof v === "function") functions++;
      var end = v;
      while (Reflect.getPrototypeOf(end) !== null) end = Reflect.getPrototypeOf(end);
      if (end !== v && ends.indexOf(end) < 0) foreign.push(String(v));
      queue.push(Reflect.getPrototypeOf(v));
      Reflect.ownKeys(v).forEach(function (k) {
        var d = Reflect.getOwnPropertyDescriptor(v, k);
        queue.push(d.value, d.get, d.set);
        if (d.get) try { queue.push(Reflect.apply(d.get, v, [])); } catch (e) { queue.push(e); }
        if (typeof d.value === "function" && seen.size < 5000) try { queue.push(Reflect.apply(d.value, v, [])); } catch (e) { queue.push(e); }
      });
    }
    emit(foreign, functions);
  }`;
  expect(session.handle(JSON.stringify(["add_fun", source])).output).toBe("true\n");
  const [rows] = JSON.parse(session.mapDocument(DOC)) as [[string[], number][]];
  // The walk calls emit, too: its own row is the last.
  const [foreign, functions] = rows.at(-1) as [string[], number];

  expect(foreign).toEqual([]);
  expect(functions).toBeGreaterThan(500);
});

describe("what one function does to its globals", () => {
  const two = (first: string, second: string): Session => {
    const session = new Session();
    session.handle('["reset"]');
    for (const source of [first, second]) {
      expect(session.handle(JSON.stringify(["add_fun", source])).output).toBe("true\n");
    }
    return session;
  };

  test.each([
    ["Array.prototype.push", "Array.prototype.push = function () {};"],
    ["JSON.stringify", 'try { JSON.stringify = function () { return "forged"; } } catch (e) {}'],
    ["Object.prototype.toJSON", "Object.prototype.toJSON = function () { return 1; };"],
    ["Array.prototype.toJSON", "Array.prototype.toJSON = function () { return 1; };"],
    [
      "a setter for index 0",
      "Object.defineProperty(Array.prototype, '0', { set: function () {}, configurable: true });",
    ],
    [
      "a getter on Object.prototype",
      "Object.defineProperty(Object.prototype, 'kind', { get: function () { return 1; }, configurable: true });",
    ],
    ["Symbol.iterator of arrays", "Array.prototype[Symbol.iterator] = function () { throw 1; };"],
    ["Function.prototype.call", "Function.prototype.call = Function.prototype.apply = null;"],
    ["String.prototype.toString", "String.prototype.toString = function () { return 'x'; };"],
    ["Error.prototype.toString", "Error.prototype.toString = function () { return 'x'; };"],
    ["emit, sum and log", "emit2 = emit; emit = sum = log = null; emit = emit2;"],
  ])("%s: is not seen by another", (_name, code) => {
    const session = two(
      `function (doc) { ${code} emit("own", [1]); }`,
      "function (doc) { var a = []; a.push([doc.k]); emit(a, {s: sum([1, 2])}); }",
    );

    for (let i = 0; i < 3; i++) {
      const [own, other] = JSON.parse(session.mapDocument('{"k":7}')) as unknown[][];
      expect(own?.length).toBe(1);
      expect(other).toEqual([[[[7]], { s: 3 }]]);
    }
  });

  test("the document stays as it is for the next function", () => {
    const session = two(
      "function (doc) { doc.k = 9; doc.n.x = 9; doc.z = 1; delete doc.k; emit(doc.k, doc.n.x); }",
      "function (doc) { emit(doc.k, [doc.n.x, doc.z]); }",
    );

    expect(session.mapDocument('{"k":1,"n":{"x":1}}')).toBe("[[[1,1]],[[1,[1,null]]]]");
  });

  test("globals are gone after a reset", () => {
    const session = two(
      "function (doc) { g = 1; Object.prototype.h = 1; emit(g, null); }",
      "function (doc) {}",
    );
    session.mapDocument("{}");
    session.handle('["reset"]');
    session.handle(JSON.stringify(["add_fun", "function (doc) { emit(typeof g, ({}).h); }"]));

    expect(session.mapDocument("{}")).toBe('[[["undefined",null]]]');
  });
});

describe("bombs", () => {
  test.each([
    ["a string beyond V8's limit", 'var s = "x"; while (true) s += s;', 1],
    ["a string of many repetitions", '"x".repeat(1e9);', 1],
    ["a buffer that cannot be", "new ArrayBuffer(1e15);", 1],
    ["recursion without end", "(function f() { f(); })();", 1],
    [
      "an array nested deeper than the stack",
      "var a = []; for (var i = 0; i < 1e5; i++) a = [a]; emit(a, 1);",
      1,
    ],
    ["a getter that calls itself", "emit({ get a() { return this.a; } }, 1);", 1],
    [
      "a toJSON that calls itself",
      "var o = { toJSON: function () { return JSON.stringify(o); } }; emit(o, 1);",
      1,
    ],
    ["rows without end", "for (var i = 0; ; i++) emit([i, i, i, i], null);", "SIGABRT"],
    [
      "a Map that fills the heap",
      "var m = new Map(); for (var i = 0; ; i++) m.set(i, new Array(1e5).fill(i));",
      "SIGABRT",
    ],
    [
      "rows that double",
      "var a = [1]; while (true) a = [a, a, new Array(1e5).fill(1)];",
      "SIGABRT",
    ],
    ["JSON text that cannot be parsed", 'JSON.parse("[".repeat(1e6));', 1],
    ["a cycle", "var o = {}; o.o = o; emit(o, 1);", 1],
    [
      "arrays that fill the heap",
      "var a = []; while (true) a.push(new Array(1e5).fill(a.length));",
      "SIGABRT",
    ],
    [
      "a regular expression that backtracks for ever",
      '/^(a+)+$/.test("a".repeat(60) + "b");',
      "SIGKILL",
    ],
  ])("%s: naively kills or hangs the process", async (_name, body, end) => {
    expect(await naiveChild(`function (doc) { ${body} }`, "--max-old-space-size=32")).toBe(end);
  });

  const map = (body: string): string => {
    const session = new Session({ rowsMax: 1000, outputCharsMax: 100_000 });
    session.handle('["reset"]');
    session.handle(
      JSON.stringify(["add_fun", `function (doc) { if (doc.bomb) { ${body} } emit(1, 1); }`]),
    );
    session.handle(JSON.stringify(["add_fun", "function (doc) { emit(2, 2); }"]));
    const reply = session.mapDocument('{"_id":"x","bomb":true}');
    expect(session.mapDocument('{"_id":"y"}')).toBe("[[[1,1]],[[2,2]]]");
    return reply;
  };

  test.each([
    ["a string beyond V8's limit", 'var s = "x"; while (true) s += s;'],
    ["a string of many repetitions", '"x".repeat(1e9);'],
    ["an array of a length that cannot be", "new Array(-1);"],
    ["a buffer that cannot be", "new ArrayBuffer(1e15);"],
    ["an emitted string beyond the output limit", 'emit("x".repeat(200000), 1);'],
    ["rows beyond the limit", "for (var i = 0; i < 2000; i++) emit(i, null);"],
    [
      "rows beyond the limit, errors swallowed",
      "for (var i = 0; i < 2000; i++) try { emit(i, null) } catch (e) {}",
    ],
    [
      "an array nested deeper than the stack",
      "var a = []; for (var i = 0; i < 1e6; i++) a = [a]; emit(a, 1);",
    ],
    ["a cycle", "var o = {}; o.o = o; emit(o, 1);"],
    ["a getter that calls itself", "emit({ get a() { return this.a; } }, 1);"],
    [
      "a toJSON that calls itself",
      "var o = { toJSON: function () { return o; } }; o.x = { toJSON: function () { return JSON.stringify(o.x); } }; emit(o.x, 1);",
    ],
    ["recursion without end", "(function f() { f(); })();"],
    [
      "a proxy without end",
      "var p = new Proxy({}, { ownKeys: function () { throw new Error('no'); } }); emit(p, 1);",
    ],
    ["JSON text that cannot be parsed", 'JSON.parse("[".repeat(1e6));'],
  ])("%s costs only its own document and function", (_name, body) => {
    expect(map(body)).toBe("[[],[[2,2]]]");
  });

  test.each([
    [
      "arrays that fill the heap",
      "var a = []; while (true) a.push(new Array(1e5).fill(a.length));",
    ],
    ["rows that double", "var a = [1]; while (true) a = [a, a, new Array(1e5).fill(1)];"],
    [
      "a Map that fills the heap",
      "var m = new Map(); for (var i = 0; ; i++) m.set(i, new Array(1e5).fill(i));",
    ],
  ])("%s: kills its own server process, which says nothing wrong", async (_name, body) => {
    const input = [
      '["reset"]',
      JSON.stringify(["add_fun", `function (doc) { ${body} }`]),
      '["map_doc",{"_id":"x"}]',
    ];
    const { stdout, exit } = await runProgram(input.map((l) => l + "\n").join(""), {
      nodeArgs: ["--max-old-space-size=32"],
      timeoutMs: 50_000,
    });

    expect(stdout).toBe("true\ntrue\n");
    expect(exit).not.toBe(0);
    expect(exit).not.toBe("SIGKILL");
  });

  test.each([
    ["an endless loop", "while (true) ;"],
    ["a regular expression that backtracks for ever", '/^(a+)+$/.test("a".repeat(60) + "b");'],
  ])(
    "%s: is stopped by whoever started the server, after the earlier replies came",
    async (_name, body) => {
      const input = [
        '["reset"]',
        JSON.stringify(["add_fun", `function (doc) { ${body} }`]),
        '["map_doc",{"_id":"x"}]',
      ];
      const { stdout, exit } = await runProgram(
        input
          .slice(0, 2)
          .map((l) => Buffer.from(l + "\n"))
          .concat(Buffer.from(`${input[2] ?? ""}\n`)),
        {
          timeoutMs: 4000,
        },
      );

      expect(exit).toBe("SIGKILL");
      expect("true\ntrue\n".startsWith(stdout)).toBe(true);
    },
  );
});
