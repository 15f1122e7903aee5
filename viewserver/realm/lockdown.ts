// Runs first in every realm. These functions are evaluated from their source text inside a context: they see that context's
// intrinsics and nothing of ours, so they may not refer to anything outside their own body.
// What they take away is what leads out of the realm; why each thing must go is in SECURITY.md.

/** Leaves only harmless globals, and switches stack capture off for good. */
export function lockRealm(): void {
  const allowed = new Set<PropertyKey>(
    (
      "Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date RegExp Error " +
      "AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError globalThis JSON Math Intl " +
      "ArrayBuffer Uint8Array Int8Array Uint16Array Int16Array Uint32Array Int32Array Float16Array Float32Array " +
      "Float64Array Uint8ClampedArray BigUint64Array BigInt64Array DataView Map BigInt Set WeakMap WeakSet Proxy Reflect " +
      "Iterator decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape eval isFinite isNaN"
    ).split(" "),
  );
  for (const name of Reflect.ownKeys(globalThis)) {
    if (!allowed.has(name)) Reflect.deleteProperty(globalThis, name);
  }
  // No promise may come into being: a rejected one would reach the host's handlers.
  Reflect.deleteProperty(Array, "fromAsync");
  // V8 formats `stack` by calling a function of the host; near the end of the stack that call throws a RangeError *of the host*
  // into user code. Without a numeric limit V8 captures nothing, so there is nothing to format. An accessor, so that an
  // assignment in strict code is ignored instead of throwing.
  Reflect.defineProperty(Error, "stackTraceLimit", {
    get: () => undefined,
    set: () => undefined,
    enumerable: false,
    configurable: false,
  });
}

/** Deeply freezes all intrinsics of the realm it is evaluated in. */
export function freezeIntrinsics(): void {
  const seen = new Set<object>();
  const queue: unknown[] = [globalThis];
  const generator = function* (): Generator<number> {
    yield 1;
  };
  queue.push(
    generator,
    generator(),
    [][Symbol.iterator](),
    ""[Symbol.iterator](),
    new Map().entries(),
    new Set().entries(),
    "".matchAll(/x/g),
  );
  while (queue.length > 0) {
    const value = queue.pop();
    if ((typeof value !== "object" && typeof value !== "function") || value === null) continue;
    if (seen.has(value)) continue;
    seen.add(value);
    queue.push(Reflect.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const d = Reflect.getOwnPropertyDescriptor(value, key);
      if (d === undefined) continue;
      queue.push(d.value, d.get, d.set);
    }
    Object.freeze(value);
  }
}

/** The helpers that live in the user's own realm; answers the function that installs the rest. */
export function prepareUserRealm(): (helpers: Record<string, unknown>) => void {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- only ever applied to a given value
  const tag = Object.prototype.toString;
  const apply = Reflect.apply;
  const isRealArray = Array.isArray;
  const define = Reflect.defineProperty;
  const keys = Object.keys;
  const freeze = Object.freeze;
  const own: Record<string, unknown> = {
    // Adds over for..in as couchjs does; the loop over a plain array is the same thing, faster.
    sum(values: Record<number, number>): unknown {
      let total = 0;
      if (isRealArray(values)) {
        const array = values as readonly number[];
        for (let i = 0; i < array.length; i++) {
          const value = array[i];
          if (value !== undefined || i in array) total += value as number;
        }
        return total;
      }
      for (const i in values) total += values[i] as number;
      return total;
    },
    isArray(value: unknown): boolean {
      return apply(tag, value, []) === "[object Array]";
    },
    toJSON: JSON.stringify,
  };
  freeze(JSON);
  const install = (helpers: Record<string, unknown>): void => {
    for (const name of keys(helpers)) {
      if (helpers[name] === undefined) continue;
      define(globalThis, name, {
        value: helpers[name],
        writable: true,
        enumerable: true,
        configurable: true,
      });
    }
  };
  freeze(own["sum"]);
  freeze(own["isArray"]);
  install(own);
  return install;
}
