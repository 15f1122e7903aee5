// The algebra of _sum (VIEWS §16): numbers, arrays of numbers, and objects of those, folded from the integer 0.

import { isList, isNumeric, normalInteger, type Term, TermObject } from "./term.js";

const SUM_REASON =
  "The _sum function requires that map values be numbers, arrays of numbers, or objects. " +
  "Objects cannot be mixed with other data structures. Objects can be arbitrarily nested, provided that the values " +
  "for all fields are themselves numbers, arrays of numbers, or objects.";

const ERROR_NAME = "builtin_reduce_error";

/**
 * Ends a fold: `value` is the result. `crash` names the error with which CouchDB's index fails where it has
 * no such value; here the error value stands in its place, in the rows concerned only.
 */
export class SumStop extends Error {
  constructor(
    readonly value: TermObject,
    readonly crash?: string,
  ) {
    super("sum stopped");
  }
}

/** The error value of a sum that cannot be. */
export function sumError(reason: string, cause?: Term): TermObject {
  return cause === undefined
    ? new TermObject(["error", "reason"], [ERROR_NAME, reason])
    : new TermObject(["error", "reason", "caused_by"], [ERROR_NAME, reason, cause]);
}

function refuse(cause: Term): never {
  throw new SumStop(sumError(SUM_REASON, cause));
}

/** Adds two numbers: exactly if both are integers, else as doubles. */
export function addNumbers(a: number | bigint, b: number | bigint): number | bigint {
  if (typeof a === "number" && typeof b === "number") {
    const sum = a + b;
    if (Number.isSafeInteger(sum)) return sum;
    if (!Number.isSafeInteger(a) || !Number.isSafeInteger(b)) return finite(sum, b);
  }
  const exact = (n: number | bigint): bigint | undefined => {
    if (typeof n === "bigint") return n;
    return Number.isSafeInteger(n) ? BigInt(n) : undefined;
  };
  const [x, y] = [exact(a), exact(b)];
  if (x !== undefined && y !== undefined) return normalInteger(x + y);
  return finite(Number(a) + Number(b), b);
}

function finite(sum: number, cause: Term): number {
  if (Number.isFinite(sum)) return sum;
  throw new SumStop(sumError("The sum is beyond the range of a double.", cause), "badarith");
}

/** The sum of an accumulated value and the next one. Throws `SumStop`. */
export function addValues(acc: Term, value: Term): Term {
  if (value instanceof TermObject) return addObject(acc, value);
  if (isNumeric(value)) {
    if (isNumeric(acc)) return addNumbers(acc, value);
    if (isList(acc)) return addLists(acc, [value]);
  } else if (isList(value)) {
    if (isList(acc)) return addLists(acc, value);
    if (isNumeric(acc)) return addLists([acc], value);
  }
  return refuse(value);
}

function addLists(acc: readonly Term[], value: readonly Term[]): Term[] {
  const shared = Math.min(acc.length, value.length);
  const sum: Term[] = acc.length > value.length ? acc.slice() : value.slice();
  for (let i = 0; i < shared; i++) {
    const x = acc[i] as Term;
    const y = value[i] as Term;
    if (!isNumeric(x) || !isNumeric(y)) refuse(acc.slice(i));
    sum[i] = addNumbers(x, y);
  }
  return sum;
}

function addObject(acc: Term, value: TermObject): Term {
  const error = value.get("error");
  if (error === ERROR_NAME) throw new SumStop(value);
  if (error !== undefined) throw new SumStop(sumError(SUM_REASON, value), "case_clause");
  if (acc === 0) return value;
  if (acc instanceof TermObject) return mergeObjects(acc, value);
  // CouchDB dies here. The cause is the value that is no object, whichever came first.
  throw new SumStop(sumError(SUM_REASON, acc), "case_clause");
}

/** Members of both, by name bytes; common ones added. */
function mergeObjects(acc: TermObject, value: TermObject): TermObject {
  const [accOrder, valueOrder] = [byName(acc), byName(value)];
  const names: string[] = [];
  const values: Term[] = [];
  let i = 0;
  let j = 0;
  while (i < accOrder.length || j < valueOrder.length) {
    const a = accOrder[i];
    const b = valueOrder[j];
    const order = a === undefined ? 1 : b === undefined ? -1 : compareNames(a.name, b.name);
    const next = (order <= 0 ? a : b) as Member;
    names.push(next.name);
    if (order === 0) values.push(addValues((a as Member).value, (b as Member).value));
    else values.push(next.value);
    if (order <= 0) i++;
    if (order >= 0) j++;
  }
  return new TermObject(names, values);
}

interface Member {
  readonly name: string;
  readonly value: Term;
}

function byName(object: TermObject): Member[] {
  const members = object.names.map((name, i) => ({ name, value: object.values[i] as Term }));
  // A sum of objects is sorted already, and most objects of a view have one order.
  const sorted = members.every(
    ({ name }, i) => i === 0 || compareNames((members[i - 1] as Member).name, name) < 0,
  );
  return sorted ? members : members.sort((a, b) => compareNames(a.name, b.name));
}

/** Order of UTF-8 bytes, which UTF-16 units have too except where surrogates meet U+E000 and above. */
function compareNames(a: string, b: string): number {
  if (a === b) return 0;
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x === y) continue;
    const surrogates = Number(isSurrogate(x)) - Number(isSurrogate(y));
    return surrogates === 0 ? x - y : surrogates;
  }
  return a.length - b.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}
