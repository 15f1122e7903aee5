// Functions of design documents: shows, lists, updates, filters, validation, rewrites, and what they share.
import { describe, expect, test } from "@jest/globals";
import { replies, serveLines } from "./serving.js";

const REQ = {
  method: "GET",
  path: ["db", "_design", "t", "_show", "s"],
  query: {},
  headers: { Accept: "text/html" },
};

/** Teaches a design document, runs calls on it, answers their replies. */
function calls(
  ddoc: object,
  ...commands: (readonly [readonly string[], readonly unknown[]] | string)[]
): unknown[] {
  const lines = commands.map((c) =>
    typeof c === "string" ? c : JSON.stringify(["ddoc", "_design/t", c[0], c[1]]),
  );
  const { stdout } = serveLines([
    '["reset"]',
    JSON.stringify(["ddoc", "new", "_design/t", ddoc]),
    ...lines,
  ]);
  const all = replies(stdout);
  expect(all.slice(0, 2)).toEqual([true, true]);
  return all.slice(2);
}
const show = (source: string, doc: unknown = { _id: "x" }, req: unknown = REQ): unknown[] =>
  calls({ shows: { s: source } }, [
    ["shows", "s"],
    [doc, req],
  ]);

describe("shows", () => {
  test.each([
    ["a string is the body", 'function(){ return "x" }', { body: "x" }],
    ["nothing, zero and the empty string are an empty response", "function(){ return 0 }", {}],
    [
      "an object goes as it is",
      "function(d){ return { code: 404, json: [d._id] } }",
      { code: 404, json: ["x"] },
    ],
    [
      "what start() got lands among the headers",
      "function(){ start({code:201}); send('a'); return 'b' }",
      { body: "ab", headers: { code: 201 } },
    ],
  ])("%s", (_name, source, response) => {
    expect(show(source)).toEqual([["resp", response]]);
  });

  test("an array slips through", () => {
    expect(show("function(){ return [1] }")).toEqual([["resp", [1]]]);
  });

  test("a number is no response", () => {
    expect(show("function(){ return 5 }")).toEqual([
      ["error", "render_error", "undefined response from show function"],
    ]);
  });

  test("an exception is logged and is the reason", () => {
    expect(show("function(){ throw new Error('boo') }")).toEqual([
      ["log", expect.stringMatching(/^function raised error: Error: boo \nstacktrace: /)],
      [
        "error",
        "render_error",
        expect.stringMatching(/^function raised error: Error: boo \nstacktrace: /),
      ],
    ]);
  });

  test("with a document id in the path and no document every exception is not_found", () => {
    const req = { ...REQ, path: ["db", "_design", "t", "_show", "s", "id"] };

    expect(show("function(d){ return d.x }", null, req)).toEqual([
      ["error", "not_found", "document not found"],
    ]);
  });

  test("a show that cannot be printed is an error, not silence", () => {
    const [, reply] = show("function(){ var o = {}; o.o = o; return { json: o } }") as unknown[][];

    expect(reply?.slice(0, 2)).toEqual(["error", "render_error"]);
  });

  test("a fatal throw ends the process", () => {
    expect(
      calls(
        { shows: { s: "function(){ throw ['fatal', 'a', 'b'] }" } },
        [
          ["shows", "s"],
          [null, REQ],
        ],
        '["reset"]',
      ),
    ).toEqual([["error", "a", "b"]]);
  });

  test("this is the design document, and closures live until it is taught anew", () => {
    const ddoc = {
      _id: "_design/t",
      shows: { s: "var n = 0; function(){ return this._id + (++n) }" },
    };
    const call = [
      ["shows", "s"],
      [null, REQ],
    ] as const;

    expect(
      calls(
        ddoc,
        call,
        call,
        '["reset"]',
        call,
        JSON.stringify(["ddoc", "new", "_design/t", ddoc]),
        call,
      ),
    ).toEqual([
      ["resp", { body: "_design/t1" }],
      ["resp", { body: "_design/t2" }],
      true,
      ["resp", { body: "_design/t3" }],
      true,
      ["resp", { body: "_design/t1" }],
    ]);
  });

  test("names of Object.prototype are no functions of a design document", () => {
    expect(
      calls(
        { shows: {} },
        [
          ["shows", "constructor"],
          [null, REQ],
        ],
        [
          ["shows", "__proto__"],
          [null, REQ],
        ],
      ),
    ).toEqual([
      ["error", "not_found", "missing shows function constructor on design doc _design/t"],
      ["error", "not_found", "missing shows function __proto__ on design doc _design/t"],
    ]);
  });
});

describe("provides", () => {
  const both =
    "function(d){ provides('html', function(){ return '<b>' }); provides('json', function(){ return { body: '{}' } }) }";
  const asked = (req: object): unknown =>
    (show(both, { _id: "x" }, { ...REQ, ...req })[0] as unknown[])[1];

  test.each([
    ["the format of the query", { query: { format: "json" } }, "application/json", "{}"],
    ["the Accept header", { headers: { Accept: "application/json" } }, "application/json", "{}"],
    [
      "quality values",
      { headers: { Accept: "text/html;q=0.3,application/json;q=0.8" } },
      "application/json",
      "{}",
    ],
    [
      "a browser",
      { headers: { Accept: "text/html,application/xhtml+xml,*/*;q=0.1" } },
      "text/html; charset=utf-8",
      "<b>",
    ],
    ["no header: the first", { headers: {} }, "text/html; charset=utf-8", "<b>"],
  ])("chooses by %s", (_name, req, type, body) => {
    expect(asked(req)).toEqual({ headers: { "Content-Type": type }, body });
  });

  test("refuses what was not offered, naming what was", () => {
    expect(show(both, {}, { ...REQ, headers: { Accept: "image/png" } })).toEqual([
      [
        "error",
        "not_acceptable",
        "Content-Type image/png not supported, try one of: text/html; charset=utf-8, application/json, text/x-json",
      ],
    ]);
  });

  test("a registered type can be provided", () => {
    const source =
      "function(){ registerType('png', 'image/png'); provides('png', function(){ return 'P' }) }";

    expect(show(source, {}, { ...REQ, headers: { Accept: "image/*" } })).toEqual([
      ["resp", { headers: { "Content-Type": "image/png" }, body: "P" }],
    ]);
  });
});

describe("lists", () => {
  const list = (source: string, ...rows: string[]): unknown[] =>
    calls(
      { lists: { l: source } },
      [
        ["lists", "l"],
        [{ total_rows: 1, offset: 0 }, REQ],
      ],
      ...rows,
    );
  const row = (k: unknown): string => JSON.stringify(["list_row", { id: "i", key: k, value: 1 }]);

  test("chunks come with the row they belong to", () => {
    const source =
      "function(h){ send('h' + h.total_rows); var r; while (r = getRow()) send(r.key); return 'end' }";

    expect(list(source, row("a"), row("b"), '["list_end"]')).toEqual([
      ["start", ["h1"], { headers: {} }],
      ["chunks", ["a"]],
      ["chunks", ["b"]],
      ["end", ["end"]],
    ]);
  });

  test("without getRow one row is read and dropped; a returned null is a chunk", () => {
    expect(list("function(){ return null }", '["list_end"]', '["reset"]')).toEqual([
      ["start", [], { headers: {} }],
      ["end", [null]],
      true,
    ]);
  });

  test("start() after the first row comes with the next chunks", () => {
    expect(
      list(
        "function(){ getRow(); send('q'); start({code:500}); getRow() }",
        row("a"),
        '["list_end"]',
      ),
    ).toEqual([
      ["start", [], { headers: {} }],
      ["chunks", ["q"], { code: 500 }],
      ["end", []],
    ]);
  });

  test("a list that stops early answers a row with its end", () => {
    expect(list("function(){ getRow(); return 'x' }", row("a"), '["reset"]')).toEqual([
      ["start", [], { headers: {} }],
      ["end", ["x"]],
      true,
    ]);
  });

  test("getRow stays null after the last row, without reading", () => {
    expect(
      list(
        "function(){ getRow(); getRow(); return String(getRow()) }",
        '["list_end"]',
        '["reset"]',
      ),
    ).toEqual([["start", [], { headers: {} }], ["end", ["null"]], true]);
  });

  test("logs keep their place between the replies", () => {
    expect(
      list(
        "function(){ log('one'); getRow(); log('two'); getRow(); log('three') }",
        row(1),
        '["list_end"]',
      ),
    ).toEqual([
      ["log", "one"],
      ["start", [], { headers: {} }],
      ["log", "two"],
      ["chunks", []],
      ["log", "three"],
      ["end", []],
    ]);
  });

  test("an exception answers the row it happened at", () => {
    expect(
      list("function(){ getRow(); throw {error: 'e', reason: 'r'} }", row("a"), '["reset"]'),
    ).toEqual([["start", [], { headers: {} }], ["error", "e", "r"], true]);
  });

  test("another command instead of a row ends the process", () => {
    expect(list("function(){ getRow() }", '["reset"]', '["reset"]')).toEqual([
      ["start", [], { headers: {} }],
      ["error", "list_error", "not a row 'reset'"],
    ]);
  });

  test("the end of input instead of a row ends the process", () => {
    expect(list("function(){ getRow() }")).toEqual([
      ["start", [], { headers: {} }],
      ["error", "list_error", expect.any(String)],
    ]);
  });

  test("a row outside of a list is an unknown command", () => {
    expect(calls({}, row("a"), '["reset"]')).toEqual([
      ["error", "unknown_command", "unknown command 'list_row'"],
    ]);
  });

  test("provides runs the chosen function over the rows", () => {
    const source =
      "function(){ provides('html', function(){ var r; while (r = getRow()) send(r.key); return '.' }) }";

    expect(list(source, row("a"), '["list_end"]')).toEqual([
      ["start", [], { headers: { "Content-Type": "text/html; charset=utf-8" } }],
      ["chunks", ["a"]],
      ["end", ["."]],
    ]);
  });
});

describe("updates", () => {
  const update = (source: string, method = "POST"): unknown[] =>
    calls({ updates: { u: source } }, [
      ["updates", "u"],
      [{ _id: "x" }, { ...REQ, method }],
    ]);

  test("a document and a response", () => {
    expect(update("function(d){ d.n = 1; return [d, {code: 201}] }")).toEqual([
      ["up", { _id: "x", n: 1 }, { code: 201 }],
    ]);
    expect(update("function(){ return [null, 'none'] }")).toEqual([["up", null, { body: "none" }]]);
  });

  test("GET is refused, a missing response too, and forbidden is nothing special", () => {
    expect(update("function(){ return [null, ''] }", "GET")).toEqual([
      ["error", "method_not_allowed", "Update functions do not allow GET"],
    ]);
    expect(update("function(){ return [null] }")).toEqual([
      ["error", "render_error", "undefined response from update function"],
    ]);
    expect(update("function(){ throw {forbidden: 'x'} }").at(-1)).toEqual([
      "error",
      "render_error",
      expect.any(String),
    ]);
  });
});

describe("filters", () => {
  test("one answer a document, coerced", () => {
    const ddoc = { filters: { f: "function(d, req){ return d.n > req.query.min ? 'yes' : 0 }" } };

    expect(
      calls(ddoc, [
        ["filters", "f"],
        [[{ n: 1 }, { n: 3 }], { query: { min: 2 } }],
      ]),
    ).toEqual([[true, [false, true]]]);
  });

  test("an exception fails the batch under its name", () => {
    expect(
      calls({ filters: { f: "function(){ throw new RangeError('x') }" } }, [
        ["filters", "f"],
        [[{}], {}],
      ]),
    ).toEqual([["error", "RangeError", {}]]);
    expect(
      calls({ filters: { f: "function(){ throw 'x' }" } }, [
        ["filters", "f"],
        [[{}], {}],
      ]),
    ).toEqual([["error", "unnamed_error", "x"]]);
  });

  test("a view as filter: whether it emits; its documents are not frozen", () => {
    const ddoc = {
      views: { v: { map: "function(d){ d.m = d.n; if (d.m) { emit(1); emit(2) } }" } },
    };

    expect(calls(ddoc, [["views", "v", "map"], [[{ n: 1 }, {}, { n: 2 }]]])).toEqual([
      [true, [true, false, true]],
    ]);
  });
});

describe("validate_doc_update", () => {
  const validate = (source: string): unknown =>
    calls({ validate_doc_update: source }, [
      ["validate_doc_update"],
      [{ a: 1 }, null, { name: "u", roles: [] }, {}],
    ]).at(-1);

  test.each([
    ["function(){ return false }", 1],
    ["function(n, o, u){ throw {forbidden: u.name} }", { forbidden: "u" }],
    ["function(){ throw {unauthorized: 'm'} }", { unauthorized: "m" }],
    ["function(){ throw 'str' }", "str"],
    ["function(){ throw {a: 1, b: 2} }", { a: 1, b: 2 }],
    ["function(){ throw ['error', 'k', 'r'] }", ["error", "k", "r"]],
    ["function(){ throw ['fatal', 'k', 'r'] }", ["fatal", "k", "r"]],
    ["function(){ throw new TypeError('x') }", ["error", "TypeError", {}]],
    ["function(){ null.x }", ["error", "TypeError", {}]],
    ["function(){ throw null }", ["error", "TypeError", {}]],
  ])("%s", (source, reply) => {
    expect(validate(source)).toEqual(reply);
  });
});

describe("rewrites", () => {
  const rewrite = (source: string): unknown =>
    calls({ rewrites: source }, [["rewrites"], [{ method: "PUT" }]]).at(-1);

  test.each([
    ["function(){}", ["no_dispatch_rule"]],
    ["function(){ return '' }", ["no_dispatch_rule"]],
    ["function(){ return '../x' }", ["ok", { path: "../x", method: "PUT" }]],
    ["function(){ return {path: 'a', code: 302} }", ["ok", { path: "a", code: 302 }]],
    ["function(){ throw ['error', 'a', 'b'] }", ["error", "a", "b"]],
    ["function(){ throw {forbidden: 1} }", ["error", "rewrite_error", expect.any(String)]],
  ])("%s", (source, reply) => {
    expect(rewrite(source)).toEqual(reply);
  });
});

describe("require", () => {
  const required = (tree: object, call: string): unknown => {
    const { stdout } = serveLines([
      '["reset"]',
      JSON.stringify(["add_lib", tree]),
      JSON.stringify([
        "add_fun",
        `function(doc){ try { emit(${call}, null) } catch (e) { emit(e.slice ? e : String(e), null) } }`,
      ]),
      '["map_doc",{"_id":"x"}]',
    ]);
    return (replies(stdout).at(-1) as unknown[][][])[0]?.[0]?.[0];
  };

  test("relative paths walk from the containing object", () => {
    const tree = {
      a: {
        b: "exports.v = require('./c').v + require('../d').v + require('../a/./c').v",
        c: "exports.v = 'c'",
      },
      d: "exports.v = 'd'",
    };

    expect(required(tree, "require('views/lib/a/b').v")).toBe("cdc");
  });

  test("a path made at run time finds its module too", () => {
    expect(required({ a: "exports.v = 1" }, "require('views/' + ['lib', 'a'].join('/')).v")).toBe(
      1,
    );
    expect(
      required(
        { a: "exports.v = require(['.', 'b'].join('/')).v", b: "exports.v = 2" },
        "require('views/lib/a').v",
      ),
    ).toBe(2);
  });

  test("module has an id and its exports can be replaced; this is the global", () => {
    expect(
      required(
        { a: "module.exports = [module.id, this === globalThis, exports === module.exports]" },
        "require('views/lib/a')",
      ),
    ).toEqual(["views/lib/a", true, true]);
  });

  test("the partner in a cycle sees an empty object for ever", () => {
    const tree = {
      cyc1: "exports.t = require('./cyc2'); exports.n = 1",
      cyc2: "exports.o = require('./cyc1'); exports.m = 2",
    };

    expect(required(tree, "require('views/lib/cyc1')")).toEqual({ n: 1, t: { o: {}, m: 2 } });
  });

  test.each([
    [
      "require('views/lib/nope')",
      [
        "error",
        "invalid_require_path",
        'Object has no property "nope". {"a":"exports.v = 1","t":"throw 1","s":"exports.("}',
      ],
    ],
    [
      "require('views/lib')",
      ["error", "invalid_require_path", "Must require a JavaScript string, not: object"],
    ],
    [
      "require('views/lib/t')",
      ["error", "compilation_error", "Module require('views/lib/t') raised error 1"],
    ],
    [
      "require('views/lib/s')",
      [
        "error",
        "compilation_error",
        expect.stringMatching(/raised error Error: SyntaxError.*line 1, column 9/),
      ],
    ],
    ["require('./a')", expect.stringContaining("TypeError")],
    ["require('')", ["error", "invalid_require_path", expect.stringContaining('no property ""')]],
    [
      "require('constructor')",
      ["error", "invalid_require_path", expect.stringContaining('no property "constructor"')],
    ],
  ])("%s fails", (call, error) => {
    expect(required({ a: "exports.v = 1", t: "throw 1", s: "exports.(" }, call)).toEqual(error);
  });

  test("functions of a design document share the modules they required", () => {
    const ddoc = {
      lib: { n: "var n = 0; exports.next = function(){ return ++n }" },
      shows: {
        s: "function(){ return 's' + require('lib/n').next() }",
        u: "function(){ return 'u' + require('lib/n').next() }",
      },
    };

    expect(
      calls(
        ddoc,
        [
          ["shows", "s"],
          [null, REQ],
        ],
        [
          ["shows", "u"],
          [null, REQ],
        ],
      ),
    ).toEqual([
      ["resp", { body: "s1" }],
      ["resp", { body: "u2" }],
    ]);
  });

  test("reduce functions have none", () => {
    const { stdout } = serveLines([
      '["reset"]',
      '["reduce",["function(){ return typeof require }"],[]]',
    ]);

    expect(replies(stdout)).toEqual([true, [true, ["undefined"]]]);
  });
});
