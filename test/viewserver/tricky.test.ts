// The thirty tricky cases that the protocol's description ends with: what goes in, what must come out. Each starts with a reset.
import { expect, test } from "@jest/globals";
import { replies, serveLines } from "./serving.js";

type Lines = readonly unknown[];
const text = expect.any(String) as unknown;
const log = ["log", text];
const fun = (source: unknown): Lines => ["add_fun", source];
const X = { _id: "x" };

const cases: readonly (readonly [string, Lines, Lines, number?])[] = [
  [
    "emit without arguments",
    [fun("function(doc){emit()}"), ["map_doc", {}]],
    [true, [[[null, null]]]],
  ],
  [
    "a named function",
    [fun("function foo(d){}")],
    [["error", "compilation_error", "Expression does not eval to a function. (function foo(d){})"]],
  ],
  ["an empty source", [fun("")], [["error", "not_found", "missing function"]]],
  ["a semicolon at the end", [fun("function(doc){emit(1,2)};")], [true]],
  ["comments around", [fun("// c\nfunction(doc){emit(2)}\n// d")], [true]],
  [
    "a number after the function",
    [fun("function(doc){emit(6)}; 7")],
    [["error", "compilation_error", text]],
  ],
  [
    "a bad function after a good one",
    [fun("function(doc){emit(1)}"), fun("function(doc){"), ["map_doc", {}]],
    [true, ["error", "compilation_error", text], [[[1, null]]]],
  ],
  ["no functions", [["map_doc", X]], [[]]],
  [
    "an Error",
    [fun('function(doc){emit(1);throw new Error("boo")}'), ["map_doc", X]],
    [true, ["log", "function raised exception Error: boo with doc._id x"], [[]]],
  ],
  [
    "null thrown",
    [fun("function(doc){throw null}"), ["map_doc", X]],
    [true, ["error", "TypeError", {}]],
  ],
  [
    "fatal_error",
    [fun('function(doc){throw "fatal_error"}'), ["map_doc", X], ["reset"]],
    [true, ["error", "map_runtime_error", "function raised 'fatal_error'"], true],
  ],
  [
    "fatal_error in an array, which is loosely equal",
    [fun('function(doc){throw ["fatal_error"]}'), ["map_doc", X], ["reset"]],
    [true, ["error", "map_runtime_error", "function raised 'fatal_error'"], true],
  ],
  [
    "a fatal array",
    [fun('function(doc){throw ["fatal","k","r"]}'), ["map_doc", X], ["reset"]],
    [true, ["error", "k", "r"]],
    255,
  ],
  [
    "an error array in a map function",
    [fun('function(doc){throw ["error","k","r"]}'), ["map_doc", X]],
    [true, ["log", "function raised exception error,k,r with doc._id x"], [[]]],
  ],
  [
    "an object changed after emit",
    [fun("function(doc){var o={a:1};emit(1,o);o.a=2}"), ["map_doc", X]],
    [true, [[[1, { a: 2 }]]]],
  ],
  [
    "a key that grows",
    [fun("function(doc){var k=[];for(var i=0;i<2;i++){k.push(i);emit(k,i)}}"), ["map_doc", X]],
    [
      true,
      [
        [
          [[0, 1], 0],
          [[0, 1], 1],
        ],
      ],
    ],
  ],
  [
    "NaN and a Date",
    [fun("function(doc){emit(NaN,new Date(0))}"), ["map_doc", X]],
    [true, [[[null, "1970-01-01T00:00:00.000Z"]]]],
  ],
  [
    "a BigInt",
    [fun("function(doc){emit(1,10n)}"), ["map_doc", X]],
    [true, ["error", "TypeError", {}]],
  ],
  [
    "errors as key and value",
    [fun('function(doc){emit(new Error("k"),new TypeError("v"))}'), ["map_doc", X]],
    [true, [[[{}, { error: "TypeError", message: "v" }]]]],
  ],
  [
    "a write to the document",
    [fun("function(doc){doc.z=1;emit(doc.z)}"), ["map_doc", X]],
    [true, [[[null, null]]]],
  ],
  [
    "a push to the document",
    [fun("function(doc){doc.a.push(3)}"), ["map_doc", { a: [] }]],
    [true, log, [[]]],
  ],
  [
    "reduce",
    [
      [
        "reduce",
        ["function(k,v,r){return [k,v,r]}"],
        [
          [["a", "i1"], 1],
          [["b", "i2"], 2],
        ],
      ],
    ],
    [
      [
        true,
        [
          [
            [
              ["a", "i1"],
              ["b", "i2"],
            ],
            [1, 2],
            false,
          ],
        ],
      ],
    ],
  ],
  [
    "rereduce",
    [["rereduce", ["function(k,v,r){return [k,v,r]}"], [1, 2], "ctx"]],
    [[true, [[null, [1, 2], true]]]],
  ],
  [
    "several reduces",
    [
      [
        "reduce",
        ["function(k,v){return sum(v)}", 'function(k,v){throw new Error("x")}', "function(k,v){}"],
        [[["a", "i"], 1]],
      ],
    ],
    [
      ["log", "function raised exception Error: x"],
      [true, [1, null, null]],
    ],
  ],
  ["no reduces", [["reduce", [], []]], [[true, []]]],
  ["the name of a built-in", [["reduce", ["_sum"], []]], [["error", "compilation_error", text]]],
  [
    "an error array in a reduce is just an exception",
    [["reduce", ['function(k,v){throw ["error","a","b"]}'], []]],
    [
      ["log", "function raised exception error,a,b"],
      [true, [null]],
    ],
  ],
  [
    "fatal_error in a reduce",
    [["reduce", ['function(k,v){throw "fatal_error"}'], []], ["reset"]],
    [["error", "map_runtime_error", "function raised 'fatal_error'"], true],
  ],
  [
    "never taught",
    [["ddoc", "x", ["shows", "a"], [null, {}]], ["reset"]],
    [["error", "query_protocol_error", "uncached design doc: x"]],
    255,
  ],
  [
    "missing functions",
    [
      ["ddoc", "new", "d", { shows: {} }],
      ["ddoc", "d", ["shows", "nope"], [{}, {}]],
      ["ddoc", "d", ["lists", "nope"], [{}, {}]],
    ],
    [
      true,
      ["error", "not_found", "missing shows function nope on design doc d"],
      ["error", "TypeError", {}],
    ],
  ],
  [
    "a library that came too late",
    [
      fun("function(doc){emit(typeof require('views/lib/a'), 1)}"),
      ["add_lib", { a: "" }],
      ["map_doc", X],
    ],
    [true, true, log, [[]]],
  ],
  [
    "an unknown command",
    [["bad", "foo"], ["reset"]],
    [["error", "unknown_command", "unknown command 'bad'"]],
    255,
  ],
  [
    "an index function of another kind",
    [
      ["add_fun", "function(doc){emit(1)}", "nouveau"],
      ["map_doc", X],
    ],
    [true, [[[1, null]]]],
  ],
  [
    "a falsy document",
    [fun("function(doc){throw 'x'}"), ["map_doc", null]],
    [true, ["log", "function raised exception x"], [[]]],
  ],
  [
    "a document without id",
    [fun("function(doc){throw 'x'}"), ["map_doc", {}]],
    [true, ["log", "function raised exception x with doc._id undefined"], [[]]],
  ],
  [
    "sum over an object, strings and nothing",
    [["reduce", ["function(){return [sum({a:1,b:2}),sum(['a',1]),sum([])]}"], []]],
    [[true, [[3, "0a1", 0]]]],
  ],
];

test.each(cases)("%s", (_name, lines, expected, exit = 0) => {
  const served = serveLines(['["reset"]', ...lines.map((line) => JSON.stringify(line))]);

  expect(replies(served.stdout)).toEqual([true, ...expected]);
  expect(served.exit).toBe(exit);
});

test.each([
  [4996, 5000],
  [4997, 5001],
])(
  "a reduction of %d characters is %d on the line: only more than the threshold is too much",
  (length, size) => {
    const config = { reduce_limit: true, reduce_limit_threshold: 5000, reduce_limit_ratio: 2 };
    const source = `function(){return new Array(${length + 1}).join("x")}`;
    const { stdout } = serveLines([
      JSON.stringify(["reset", config]),
      JSON.stringify(["reduce", [source], [[["a", "i"], 1]], "db/d"]),
    ]);
    const input =
      JSON.stringify(["reduce", [source], [[["a", "i"], 1]], "db/d"]).length - source.length;
    const message = `Reduce output must shrink more rapidly: input size: ${input} output size: ${size} context: db/d`;

    expect(replies(stdout)[1]).toEqual(
      size > 5000 ? ["error", "reduce_overflow_error", message] : [true, ["x".repeat(length)]],
    );
  },
);
