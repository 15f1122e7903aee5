// The session as a library: documents by text, logs and where they come from, reduces, compile errors, limits.
import { describe, expect, test } from "@jest/globals";
import { Session, ViewServerError, VIEWSERVER_ERROR_CODES } from "../../viewserver/index.js";

function sessionWith(...sources: string[]): Session {
  const session = new Session();
  session.handle('["reset"]');
  for (const source of sources) {
    expect(session.handle(JSON.stringify(["add_fun", source])).output).toBe("true\n");
  }
  return session;
}

describe("mapDocuments", () => {
  test("answers for each document of a list what mapDocument does", () => {
    const session = sessionWith(
      "function (doc) { emit(doc.k, [doc.k]) }",
      "function (doc) { if (doc.k) emit(null, 'é\\n') }",
    );
    const docs = ['{"k":"a"}', '{"k":0}', "{}"];

    expect(session.mapDocuments(`[${docs.join(",")}]`)?.split("\n")).toEqual(
      docs.map((doc) => session.mapDocument(doc)),
    );
  });

  test("ends after a document that left logs, so that these can be told apart", () => {
    const session = sessionWith(
      "function (doc) { if (doc.k === 2) throw new Error('two'); emit(doc.k, null) }",
    );

    expect(session.mapDocuments('[{"k":1},{"k":2},{"k":3}]')).toBe("[[[1,null]]]\n[[]]");
    expect(session.takeLogs()).toMatchObject([{ kind: "exception", message: "two" }]);
    expect(session.mapDocuments('[{"k":3}]')).toBe("[[[3,null]]]");
  });

  test("tells nothing of a text that is not JSON", () => {
    expect(sessionWith("function () {}").mapDocuments('[{"k":1},]')).toBeUndefined();
  });
});

describe("mapDocument", () => {
  test("answers what map_doc answers", () => {
    const session = sessionWith("function(d){emit(d.k,1)}", "function(d){}");

    expect(session.mapDocument('{"k":[1,"é"]}')).toBe('[[[[1,"é"],1]],[]]');
    expect(session.handle('["map_doc",{"k":[1,"é"]}]').output).toBe('[[[[1,"é"],1]],[]]\n');
  });

  test("refuses what is not JSON with a code", () => {
    const session = sessionWith("function(d){emit(d.k,1)}");

    expect(() => session.mapDocument("{")).toThrow(
      expect.objectContaining({ code: "VIEWSERVER_NOT_JSON" }),
    );
  });

  test("refuses to work when disposed", () => {
    const session = sessionWith();
    session.dispose();
    session.dispose();

    expect(() => session.handle('["reset"]')).toThrow(
      expect.objectContaining({ code: "VIEWSERVER_DISPOSED" }),
    );
    expect(() => session.reduce([], "[]")).toThrow(ViewServerError);
  });

  test("a fatal throw shows in takeFatal, once", () => {
    const session = sessionWith("function(d){ throw ['fatal', 'k', 'r'] }");

    expect(session.mapDocument("{}")).toBe('["error","k","r"]');
    expect([session.takeFatal(), session.takeFatal()]).toEqual([true, false]);
  });

  test("a row that cannot be printed costs the function's rows, and is logged", () => {
    const session = sessionWith("function(d){ emit(1, 10n) }", "function(d){ emit(2) }");

    expect(session.mapDocument('{"_id":"x"}')).toBe("[[],[[2,null]]]");
    expect(session.takeLogs()).toEqual([
      expect.objectContaining({ kind: "exception", fn: 0, name: "TypeError", docId: "x" }),
    ]);
  });

  test.each([
    "async function(d){}",
    "function(d){ import('x') }",
    "function(d){ (async () => 1)() }",
    "async d => 1",
  ])("refuses %s with a reason", (source) => {
    const error = new Session().compileCheck(source);

    expect(error?.message).toMatch(/not available in a view/);
    expect(error?.line).toBe(1);
  });
});

describe("sources", () => {
  const value = (source: string): string => sessionWith(source).mapDocument('{"k":1}');

  test.each([
    "function(doc){ emit(doc.k, 1) }",
    "function (doc) { emit(doc.k, 1); };;",
    "// a\n/* b */ function /* c */ (doc) { emit(doc.k, 1) } // d\n/* e */",
    "(function(doc){ emit(doc.k, 1) })",
    "(doc) => { emit(doc.k, 1) }",
    "doc => emit(doc.k, 1)",
    "var one = 1; function(doc){ emit(doc.k, one) }",
    "function helper(x) { return x } function(doc){ emit(helper(doc.k), 1) }",
    "let f = function(doc){ emit(doc.k, 1) }; f",
    "function(doc){ emit(0, 0) }\nfunction(doc){ emit(doc.k, 1) }",
    "function(doc){ emit(0, 0) } function(doc){ emit(doc.k, 1) }",
    "function named(doc) { emit(doc.k, 1) }",
    "'use strict'; function named(doc) { emit(doc.k, 1) }",
    "const one = 1; function named(doc) { emit(doc.k, one) }",
    "function(doc){\r\n  emit(doc.k, 1)\r\n}\r\n",
    "function(doc){ emit(doc?.k ?? 0, Number(1n)) }",
    "function(doc){ class A { #x = 1; get x() { return this.#x } static { this.y = 1 } } emit(doc.k, new A().x) }",
    "function(doc){ function(){}; emit(doc.k, 1) }",
    "function(doc){ for (const [k, v] of Object.entries(doc)) emit(v, 1) }",
  ])("%j is accepted", (source) => {
    expect(value(source)).toBe("[[[1,1]]]");
  });

  test.each([
    "function(doc){ emit(1) }; 7",
    "1",
    "({})",
    "'x'",
    "",
    " ",
    "var f = function(doc){}",
    "nope",
    "function(doc){",
    "oops function(doc){}",
  ])("%j is refused", (source) => {
    const reply = JSON.parse(
      new Session().handle(JSON.stringify(["add_fun", source])).output,
    ) as string[];

    expect(reply[0]).toBe("error");
  });

  test("names are refused in stock mode, as both engines do", () => {
    const reply = new Session({ mode: "stock" }).handle('["add_fun","function f(d){}"]').output;

    expect(reply).toBe(
      '["error","compilation_error","Expression does not eval to a function. (function f(d){})"]\n',
    );
  });

  test("a syntax error has line, column and the line itself", () => {
    expect(new Session().compileCheck("function(doc){\n  emit(doc.a b);\n}")).toEqual({
      message: "SyntaxError: Unexpected token",
      line: 2,
      column: 14,
      sourceLine: "  emit(doc.a b);",
    });
  });
});

describe("logs", () => {
  test("carry the function's number, and keep their order", () => {
    const session = sessionWith(
      "function(d){ log(1); log({a: 1}) }",
      "function(d){ log('two'); throw new Error('boo') }",
    );
    session.mapDocument('{"_id":"x"}');

    expect(session.takeLogs()).toEqual([
      { kind: "log", fn: 0, text: "1" },
      { kind: "log", fn: 0, text: '{"a":1}' },
      { kind: "log", fn: 1, text: "two" },
      {
        kind: "exception",
        fn: 1,
        text: "function raised exception Error: boo with doc._id x",
        name: "Error",
        message: "boo",
        docId: "x",
      },
    ]);
    expect(session.takeLogs()).toEqual([]);
  });

  test.each([
    "log(Symbol())",
    "log({toString: 1, toJSON: 1})",
    "var o = {}; o.o = o; log(o)",
    "log(1n)",
    "log(new Proxy({}, {get: function () { throw 1 }}))",
  ])("%s harms nobody", (code) => {
    const session = sessionWith(`function(d){ try { ${code} } catch (e) {} emit(1, 1) }`);

    expect(session.mapDocument("{}")).toBe("[[[1,1]]]");
  });

  test.each([
    "throw {get name() { throw 1 }}",
    "throw {toString: function () { throw 1 }}",
    "throw Object.create(null)",
    "throw new Proxy({}, {get: function () { throw 1 }})",
    "throw Symbol('x')",
    "throw function () {}",
    "throw [[]]",
    "throw undefined",
    "throw null",
    "throw 1n",
    "throw ['error']",
    "throw {name: {}, message: {}, stack: {}}",
    "throw {toString: function () { return 'x'.repeat(1e6) }}",
  ])("%s only costs the document", (code) => {
    const session = sessionWith(`function(d){ emit(1); ${code} }`, "function(d){ emit(2, 2) }");

    expect(session.mapDocument('{"_id":"x"}')).toBe("[[],[[2,2]]]");
    const [line] = session.takeLogs();
    expect(line).toMatchObject({ kind: "exception", docId: "x" });
    expect(line?.text.length).toBeLessThan(70_000);
  });
});

describe("where a function throws", () => {
  const stackOf = (source: string, doc: object, lib?: object): string | undefined => {
    const session = new Session();
    session.handle('["reset"]');
    if (lib !== undefined) session.handle(JSON.stringify(["add_lib", lib]));
    expect(session.handle(JSON.stringify(["add_fun", source])).output).toBe("true\n");
    const text = JSON.stringify(doc);
    session.mapDocument(text);
    const line = session.takeLogs(text).find((l) => l.kind === "exception");
    return line?.kind === "exception" ? line.stack : undefined;
  };

  test("names the statement and the callers, and nothing of ours", () => {
    const source = `function (doc) {
  var helper = function (x) {
    if (x) return x.a.b;
  };
  doc.list.forEach(t => { helper(t) });
}`;

    expect(stackOf(source, { list: [1] })).toBe(
      "at helper (3:12)\nat (anonymous) (5:27)\nat (anonymous) (5:3)",
    );
  });

  test.each([
    [
      "a lone statement",
      "function(d){\n for (var i = 0; i < 3; i++)\n  if (i == 2) null.x\n}",
      "at (anonymous) (3:15)",
    ],
    [
      "a switch",
      "function(d){ switch (1) { case 1:\n throw new Error('x') } }",
      "at (anonymous) (2:2)",
    ],
    ["an arrow's expression", "d => d.a\n .b.c", "at (anonymous) (1:6)"],
    [
      "a method",
      "function(d){ var o = { m() {\n return null.x } }; o.m() }",
      "at m (2:2)\nat (anonymous) (2:21)",
    ],
    [
      "a declared function",
      "function f(d){\n  g(d) }\nfunction g(d) { throw d.k }\nf",
      "at g (3:17)\nat f (2:3)",
    ],
    ["a strict function", "function(d){ 'use strict';\n d.k = 1 }", "at (anonymous) (2:2)"],
    ["a default", "function(d){ function f(a = null.x) {}\n f() }", "at (anonymous) (2:2)"],
    ["a module's function", "function(d){\n require('views/lib/m').f() }", "at (anonymous) (2:2)"],
    [
      "a labelled loop with else",
      "function(d){ a: for (;;) { if (0) ; else if (1)\n null.x; else break a } }",
      "at (anonymous) (2:2)",
    ],
    ["a thrown string", "function(d){\n throw 'x' }", "at (anonymous) (2:2)"],
    [
      "an arrow of an arrow",
      "d => (a => b =>\n b.c.d)(1)({})",
      "at (anonymous) (2:2)\nat (anonymous) (1:6)",
    ],
    [
      "a tight body",
      "function(d){if(d)(x=>x.y.z)({})}",
      "at (anonymous) (1:22)\nat (anonymous) (1:18)",
    ],
    [
      "an anonymous function as a statement",
      "function(d){function(){}\nnull.x}",
      "at (anonymous) (2:1)",
    ],
    ["do while", "function(d){ do\n null.x\n while (0) }", "at (anonymous) (2:2)"],
  ])("%s", (_name, source, stack) => {
    expect(stackOf(source, { k: 1 }, { m: "exports.f = function () { null.x }" })).toBe(stack);
  });

  test("says nothing when the exception does not show again", () => {
    expect(stackOf("function(d){ throw new Error(String(Math.random())) }", {})).toBeUndefined();
  });
});

describe("reduce and rereduce", () => {
  test("give one text for each source", () => {
    const session = new Session();

    expect(
      session.reduce(
        ["function(k,v){return sum(v)}", "function(k){return k}", "function(){throw 1}"],
        '[[["a","i"],1],[["b","j"],2]]',
      ),
    ).toEqual({
      results: ["3", '[["a","i"],["b","j"]]', "null"],
    });
    expect(session.rereduce("function(k,v,r){return [k,v,r]}", "[1,2]")).toEqual({
      results: ["[null,[1,2],true]"],
    });
  });

  test("answer an overflow and a bad source as errors", () => {
    const session = new Session({
      config: { reduce_limit: true, reduce_limit_threshold: 20, reduce_limit_ratio: 2 },
    });

    expect(
      session.reduce(["function(){return 'x'.repeat(100)}"], "[]", "db/_design/d/_view/v").error,
    ).toEqual({
      id: "reduce_overflow_error",
      reason: expect.stringMatching(
        /^Reduce output must shrink more rapidly: input size: \d+ output size: \d+ context: db\/_design\/d\/_view\/v$/,
      ),
    });
    expect(session.reduce(["function("], "[]").error?.id).toBe("compilation_error");
  });

  test("measure as the protocol's command line would", () => {
    const session = new Session({
      config: { reduce_limit: true, reduce_limit_threshold: 10, reduce_limit_ratio: 2 },
    });
    const source = "function(k,v){return 'x'.repeat(50)}";
    const line = JSON.stringify(["reduce", [source], [[["a", "b"], 1]], "ctx"]);
    const reply = JSON.parse(session.handle(line).output) as string[];

    expect(session.reduce([source], '[[["a","b"],1]]', "ctx").error?.reason).toBe(reply[2]);
  });
});

test("each error code has its sentence", () => {
  for (const [code, text] of Object.entries(VIEWSERVER_ERROR_CODES)) {
    expect(code).toMatch(/^VIEWSERVER_/);
    expect(text.length).toBeGreaterThan(10);
  }
});
