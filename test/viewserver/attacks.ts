// Attacks on the realm, one each: source of a map function. An attack that gets hold of something of the host, or of a power that a view must
// not have, emits "ESCAPED". Each is run twice: in a naive `vm.runInNewContext` with host objects, where it must succeed (or hang or kill
// the process, as `naive` says), and in a Session, where it must not.

export interface Attack {
  readonly name: string;
  /** Body of `function (doc) { … }`. `seize(F)` tries a Function constructor; it emits when that reaches the process. */
  readonly body: string;
  /** What it does where nothing defends: how that is seen is told in naive-runs.ts. */
  readonly naive: NaiveEnd;
}

export type NaiveEnd =
  /** Emits "ESCAPED". */
  | "escapes"
  | "escapes later"
  | "escapes in a process"
  /** Changes a prototype of the host. */
  | "pollutes"
  /** Another function of the same host no longer emits what it should. */
  | "harms its neighbour"
  /** A line on stdout that passes for a reply. */
  | "forges a reply"
  /** An exception that nobody catches. */
  | "kills"
  /** V8 gives up for want of memory. */
  | "aborts"
  | "hangs";

const SEIZE = `
  function seize(F) {
    var p;
    try { p = F("return typeof process === 'object' ? process : undefined")(); } catch (e) {}
    if (p && p.pid) emit("ESCAPED", p.pid);
  }
  function seizeBy(value) {
    if (value === undefined || value === null) return;
    try { seize(value.constructor.constructor); } catch (e) {}
    try { seize(Object.getPrototypeOf(value).constructor.constructor); } catch (e) {}
  }
`;

/** The attack as a map function's source. */
export function attackSource(attack: Attack): string {
  return `function (doc) { ${SEIZE} ${attack.body} }`;
}

const by = (name: string, expression: string): Attack => ({
  name,
  body: `seizeBy(${expression});`,
  naive: "escapes",
});
const caught = (name: string, statement: string): Attack => ({
  name,
  body: `try { ${statement} } catch (e) { seizeBy(e); }`,
  naive: "escapes",
});
const power = (name: string, body: string): Attack => ({ name, body, naive: "escapes" });

// The act is tried at every depth on the way back from the end of the stack; what it throws is looked at where there is room again.
const nearTheEnd = (name: string, act: string): Attack => ({
  name,
  body: `
    var got = [];
    function burrow() {
      try { burrow(); } catch (e) {}
      if (got.length < 2000) try { ${act} } catch (e) { got.push(e); }
    }
    try { burrow(); } catch (e) { got.push(e); }
    for (var i = 0; i < got.length; i++) if (!(got[i] instanceof Error)) seizeBy(got[i]);
  `,
  naive: "escapes in a process",
});

export const attacks: readonly Attack[] = [
  // Constructor chains from whatever is in reach.
  by("the constructor of emit", "emit"),
  by("the constructor of log", "log"),
  by("the constructor of sum", "sum"),
  by("the constructor of the document", "doc"),
  by("the constructor of an array in the document", "doc.tags"),
  by("the constructor of a nested object", "doc.o"),
  by("the constructor of an array iterator", "doc.tags[Symbol.iterator]()"),
  by("the result of an array method", "doc.tags.map(function (x) { return x; })"),
  by("a method of an array", "doc.tags.push"),
  by("a method of an object", "doc.hasOwnProperty"),
  by("a bound helper", "emit.bind(null)"),
  by("what a helper returns", "sum([1]) === 1 && emit.toString"),
  by("the prototype of a helper", "Object.getPrototypeOf(emit)"),
  by("the end of the prototype chain", "Object.getPrototypeOf(Object.getPrototypeOf(emit))"),
  by("keys of the document", "doc.constructor.keys(doc)"),
  power(
    "Reflect.construct with the host's Function",
    "seize(function (s) { return Reflect.construct(emit.constructor, [s]); });",
  ),
  power(
    "Function.prototype.call on the host's Function",
    "seize(function (s) { return emit.constructor.call(null, s); });",
  ),
  power(
    "Reflect.apply on the host's Function",
    "seize(function (s) { return Reflect.apply(emit.constructor, null, [s]); });",
  ),
  power(
    "the constructor's property descriptor",
    'seize(Object.getOwnPropertyDescriptor(Object.getPrototypeOf(emit), "constructor").value);',
  ),
  power(
    "a class that extends the host's Function",
    "class F extends emit.constructor {} seize(function (s) { return new F(s); });",
  ),
  power(
    "the constructor over __lookupGetter__ and valueOf",
    'seize(emit["const" + "ructor"].prototype["const" + "ructor"]);',
  ),
  by(
    "the sandbox object behind the global",
    "this.constructor.constructor === Function ? null : this",
  ),
  by("setTimeout, when the host gave one", 'typeof setTimeout === "function" ? setTimeout : null'),
  by(
    "console, when the host gave one",
    'typeof console === "object" && console.log ? console.log : null',
  ),

  // Errors that come from the host.
  caught("an error thrown inside a helper: null", "sum(null); log(null);"),
  caught("an error of a conversion: symbol", "sum([Symbol()]);"),
  caught("an error of a conversion: BigInt", "sum([1n]);"),
  caught(
    "an error of a conversion: toPrimitive is no function",
    "var o = {}; o[Symbol.toPrimitive] = 1; sum([o]);",
  ),
  caught(
    "an error of a conversion: valueOf answers an object",
    "sum([1, { toString: function () { return {}; }, valueOf: function () { return {}; } }]);",
  ),
  caught("an error of a log whose toString is missing", "log(Object.create(null));"),
  caught("an error for a frozen document", '"use strict"; log({ toString: 5 });'),
  caught(
    "a proxy that is no longer",
    "var r = Proxy.revocable({}, {}); r.revoke(); log(r.proxy); sum(r.proxy);",
  ),
  nearTheEnd("stack overflow inside a helper: sum", "sum([1, 2, 3]);"),
  nearTheEnd("stack overflow inside a helper: log", 'log("x");'),
  nearTheEnd(
    "stack overflow inside a function the host handed in",
    "sum({ reduce: function (f) { return f(f(1, 2), 3); } });",
  ),
  caught("an error of a timer that was asked wrongly", "setTimeout(1);"),
  nearTheEnd("stack overflow while a stack is formatted", 'new Error("x").stack;'),
  nearTheEnd(
    "stack overflow while the stack of a thrown TypeError is formatted",
    "try { null.x } catch (e) { e.stack; }",
  ),
  nearTheEnd(
    "stack overflow in captureStackTrace",
    "var o = {}; Error.captureStackTrace(o); o.stack;",
  ),

  // Functions of the host that are handed to ours.
  power(
    "an object of ours whose method is called by the host",
    "sum({ reduce: function (f) { seize(f.constructor); return 0; } , length: 0 });",
  ),
  power(
    "a proxy that sees what the host does with it",
    "sum(new Proxy([], { get: function (t, k) { return function (f) { if (f) seize(f.constructor); return 0; }; } }));",
  ),
  caught(
    "a proxy as a log value",
    "log(new Proxy({}, { get: function (t, k) { return 1; } })); sum(new Proxy([], { get: function () { return 1; } }));",
  ),

  power(
    "a getter that the host reads a method from",
    "sum({ get reduce() { return function (f) { seize(f.constructor); return 0; }; } });",
  ),
  power(
    "a getter on the prototype of what the host converts",
    'log(Object.create({ get toString() { emit("ESCAPED", "the host asked"); return function () { return "x"; }; } }));',
  ),
  power(
    "a toJSON that emits while rows are printed",
    'emit({ toJSON: function () { emit("ESCAPED", 1); return 1; } }, 1);',
  ),
  power(
    "a toJSON on the prototype of all objects that emits",
    'Object.prototype.toJSON = function () { delete Object.prototype.toJSON; emit("ESCAPED", 1); return 1; }; emit({}, {});',
  ),

  // Stack traces.
  power(
    "Error.prepareStackTrace sees the host's files",
    `Error.prepareStackTrace = function (e, sites) { return sites; };
     var sites = new Error("x").stack;
     for (var i = 0; sites && i < sites.length; i++) {
       var f = String(sites[i].getFileName && sites[i].getFileName());
       if (/node:|file:|\\.js$/.test(f)) { emit("ESCAPED", f); break; }
     }`,
  ),
  power(
    "the text of a stack tells the host's files",
    'if (/node:|file:|\\.js:/.test(String(new Error("x").stack))) emit("ESCAPED", 1);',
  ),
  power(
    "a raised stackTraceLimit shows the host's frames",
    'Error.stackTraceLimit = 100; if (/node:|file:|\\.js:/.test(String(new Error("x").stack))) emit("ESCAPED", 1);',
  ),
  power(
    "captureStackTrace shows the host's frames",
    'var o = {}; Error.captureStackTrace(o); if (/node:|file:|\\.js:/.test(String(o.stack))) emit("ESCAPED", 1);',
  ),

  // Powers that a view must not have.
  power("eval", 'try { if (eval("1+1") === 2) emit("ESCAPED", "eval"); } catch (e) {}'),
  power(
    "indirect eval",
    'try { if ((0, eval)("1+1") === 2) emit("ESCAPED", "eval"); } catch (e) {}',
  ),
  power(
    "Function",
    'try { if (Function("return 2")() === 2) emit("ESCAPED", "Function"); } catch (e) {}',
  ),
  power(
    "the constructor of generator functions",
    'try { var G = (function* () {}).constructor; if (G("yield 1")().next().value === 1) emit("ESCAPED", "G"); } catch (e) {}',
  ),
  power(
    "the constructor of async functions",
    "try { var A = (async function () {}).constructor; A(\"emit('ESCAPED', 1)\")(); } catch (e) {}",
  ),
  power(
    "the prototype of async functions, over an async arrow",
    "try { var A = Object.getPrototypeOf(async () => 1).constructor; A(\"emit('ESCAPED', 1)\")(); } catch (e) {}",
  ),
  power(
    "the constructor of async generators",
    "try { var G = (async function* () {}).constructor; G(\"emit('ESCAPED', 1); yield 1\")().next(); } catch (e) {}",
  ),
  power(
    "the prototype of generators, over a method",
    "try { var G = Object.getPrototypeOf({ *g() {} }.g).constructor; G(\"emit('ESCAPED', 1); yield 1\")().next(); } catch (e) {}",
  ),
  power("SharedArrayBuffer", 'if (typeof SharedArrayBuffer === "function") emit("ESCAPED", 1);'),
  power("Atomics", 'if (typeof Atomics === "object") emit("ESCAPED", 1);'),
  power(
    "WebAssembly memory outside of the heap",
    'if (typeof WebAssembly === "object") emit("ESCAPED", 1);',
  ),
  power(
    "WeakRef sees garbage collection",
    'if (typeof WeakRef === "function") emit("ESCAPED", 1);',
  ),
  power(
    "FinalizationRegistry calls back later",
    'if (typeof FinalizationRegistry === "function") emit("ESCAPED", 1);',
  ),
  power("Promise", 'if (typeof Promise === "function") emit("ESCAPED", 1);'),
  power(
    "Array.fromAsync or promises by species",
    'if (Array.fromAsync || typeof Promise === "function") emit("ESCAPED", 1);',
  ),

  // Work that goes on after the reply, or stops everything.
  {
    name: "a promise job after the reply",
    body: 'Promise.resolve().then(function () { emit("ESCAPED", 1); });',
    naive: "escapes later",
  },
  {
    name: "an async function",
    body: '(async function () { await null; emit("ESCAPED", 1); })();',
    naive: "escapes later",
  },
  {
    name: "an async arrow",
    body: '(async () => { await 1; emit("ESCAPED", 1); })();',
    naive: "escapes later",
  },
  {
    name: "an async generator",
    body: '(async function* () { yield 1; })().next().then(function () { emit("ESCAPED", 1); });',
    naive: "escapes later",
  },
  {
    name: "for await",
    body: '(async () => { for await (const x of [1]) emit("ESCAPED", x); })();',
    naive: "escapes later",
  },
  {
    name: "a timer",
    body: 'setTimeout(function () { emit("ESCAPED", 1); }, 0);',
    naive: "escapes later",
  },
  {
    name: "the rejection of import()",
    body: 'import("x").catch(function (e) { seizeBy(e); });',
    naive: "escapes later",
  },
  {
    name: "what import() answers",
    body: 'import("x").then(null, function (e) { seize(e.constructor.constructor); });',
    naive: "escapes later",
  },
  {
    name: "import() with attributes whose getter throws",
    body: 'var p = import("x", { get with() { throw 1; } }); p.then(null, function () {}); import("y").catch(function (e) { seizeBy(e) });',
    naive: "escapes later",
  },
  { name: "an unhandled rejection", body: 'Promise.reject(new Error("x"));', naive: "kills" },
  {
    name: "an async function that throws",
    body: '(async function () { throw new Error("x"); })();',
    naive: "kills",
  },
  {
    name: "a timer that throws",
    body: 'setTimeout(function () { throw new Error("x"); }, 0);',
    naive: "kills",
  },
  {
    name: "Atomics.wait",
    body: "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);",
    naive: "hangs",
  },
  {
    name: "promise jobs without end",
    body: "function again() { return Promise.resolve().then(again); } again();",
    naive: "hangs",
  },
  {
    name: "a timer without end",
    body: "function again() { setTimeout(again, 0); } again();",
    naive: "hangs",
  },

  // Changes to what others share.
  {
    name: "Object.prototype over the document",
    body: "Object.getPrototypeOf(doc).polluted = 1;",
    naive: "pollutes",
  },
  {
    name: "Array.prototype over the document",
    body: "Object.getPrototypeOf(doc.tags).polluted = 1;",
    naive: "pollutes",
  },
  {
    name: "Function.prototype over a helper",
    body: "Object.getPrototypeOf(emit).polluted = 1;",
    naive: "pollutes",
  },
  {
    name: "Object.prototype by __defineGetter__",
    body: 'Object.getPrototypeOf(Object.getPrototypeOf(emit)).__defineGetter__("polluted", function () { return 1; });',
    naive: "pollutes",
  },
  {
    name: "Object.prototype over __proto__ of a literal from JSON",
    body: 'doc.__proto__["polluted"] = 1; doc.o.__proto__.polluted = 1;',
    naive: "pollutes",
  },
  {
    name: "Object.prototype by Reflect.defineProperty",
    body: 'Reflect.defineProperty(Reflect.getPrototypeOf(doc), "polluted", { value: 1, configurable: true });',
    naive: "pollutes",
  },
];
