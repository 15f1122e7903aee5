// Map functions that reach for another function of the same server: by what both share, naively one context.
import type { Attack } from "./attacks.js";

/** The other function: it uses the language at many places, so that what was changed under it shows. */
export const NEIGHBOUR = `function (doc) {
  var a = [], k = doc.tags;
  a.push([doc.o.p]);
  emit(a, {
    sum: sum([1, 2]),
    text: JSON.stringify({ x: [1] }),
    called: (function () { return 1; }).call(null),
    spread: [...[1, 2]],
    error: String(new Error("e")),
    string: new String("s").toString(),
    inherited: typeof {}.kind,
    global: typeof leaked,
    doc: [doc._id, k.length, doc.z === undefined],
  });
}`;

/** What it emits for the document `{"_id":"x","tags":["a","b"],"o":{"p":1}}` when nobody interferes. */
export const NEIGHBOUR_ROWS = [
  [
    [[1]],
    {
      sum: 3,
      text: '{"x":[1]}',
      called: 1,
      spread: [1, 2],
      error: "Error: e",
      string: "s",
      inherited: "undefined",
      global: "undefined",
      doc: ["x", 2, true],
    },
  ],
];

const harms = (name: string, body: string): Attack => ({
  name,
  body,
  naive: "harms its neighbour",
});

export const harmful: readonly Attack[] = [
  harms("Array.prototype.push", "Array.prototype.push = function () {};"),
  harms("JSON.stringify", 'JSON.stringify = function () { return "forged"; };'),
  harms("Object.prototype.toJSON", "Object.prototype.toJSON = function () { return 1; };"),
  harms("Array.prototype.toJSON", "Array.prototype.toJSON = function () { return 1; };"),
  harms(
    "a setter for index 0",
    "Object.defineProperty(Array.prototype, '0', { set: function () {}, configurable: true });",
  ),
  harms(
    "a getter on Object.prototype",
    "Object.defineProperty(Object.prototype, 'kind', { get: function () { return 1; }, configurable: true });",
  ),
  harms(
    "Symbol.iterator of arrays",
    "Array.prototype[Symbol.iterator] = function () { throw 1; };",
  ),
  harms("Function.prototype.call", "Function.prototype.call = Function.prototype.apply = null;"),
  harms("String.prototype.toString", "String.prototype.toString = function () { return 'x'; };"),
  harms("Error.prototype.toString", "Error.prototype.toString = function () { return 'x'; };"),
  harms("the constructor Error", "Error = function () { return 'x'; };"),
  harms("emit, sum and log", "emit2 = emit; emit = sum = log = null; emit = emit2;"),
  harms("emit alone", "emit = function () {};"),
  harms("a global variable", "leaked = 1;"),
  harms("a member of the document", "doc._id = 'y';"),
  harms("a nested member of the document", "doc.o.p = 9;"),
  harms("a new member of the document", "doc.z = 1;"),
  harms("a member of the document that is taken away", "delete doc._id;"),
  harms("an element of the document", "try { doc.tags.push('c'); } catch (e) {}"),
  harms(
    "the document by Object.assign and defineProperty",
    "try { Object.assign(doc, { _id: 'y' }); } catch (e) {} try { Object.defineProperty(doc.o, 'p', { value: 9 }); } catch (e) {}",
  ),
  harms(
    "the document's prototype",
    "try { Object.setPrototypeOf(doc, { z: 1 }); } catch (e) {} try { doc.__proto__ = { z: 1 }; } catch (e) {}",
  ),
];
