// How fast keys are encoded and decoded on one core. Run after a build: node dist/test/bench/collation.js
// Prints for each kind of key: nanoseconds and millions a second to encode from JSON text, nanoseconds to decode, bytes of a key.
import { ByteBuffer, decodeKey, KeyEncoder, keyEnd } from "../../indexer/collation/index.js";

const KEYS = 1000;
const ROUNDS = 200;
const REPEATS = 15;

const shapes: readonly (readonly [string, (i: number) => string])[] = [
  ["12 ASCII characters", (i) => `"user-${1000000 + i}"`],
  ["upper case", (i) => `"User-${10000 + i}"`],
  ["40 ASCII characters", (i) => `"this is a somewhat longer text no. ${1000 + i}"`],
  ["small integer", (i) => `[${i}]`],
  ["time in ms", (i) => `[${1_700_000_000_000 + i * 977}]`],
  ["fraction", (i) => `[${i / 8 + 0.01}]`],
  ["[2024,11,30]", (i) => `[2024,${i % 12},${i % 30}]`],
  ["[name,time]", (i) => `["user-${i}",${1_700_000_000_000 + i * 977}]`],
  ['{"a":1,"b":"x"}', (i) => `{"a":${i},"b":"x"}`],
  ["null", () => "null"],
  ["German", (i) => `"Zürich Straße ${i}"`],
  ["Russian", (i) => `"Привет мир ${i}"`],
  ["Chinese", (i) => `"北京市朝阳区${i}"`],
  ["Japanese", (i) => `"こんにちは${i}"`],
  ["Korean", (i) => `"안녕하세요${i}"`],
];

/** Nanoseconds for one call's share, the best of several repeats so that a busy machine disturbs less. */
function best(calls: number, run: () => void): number {
  let lowest = Infinity;
  for (let i = 0; i < REPEATS; i++) {
    const before = process.hrtime.bigint();
    run();
    lowest = Math.min(lowest, Number(process.hrtime.bigint() - before));
  }
  return lowest / calls;
}

for (const [name, text] of shapes) {
  const encoder = new KeyEncoder("root");
  const src = Buffer.from(Array.from({ length: KEYS }, (_, i) => text(i)).join(""));
  const sink = new ByteBuffer(1 << 18);
  const encodeAll = (): void => {
    sink.clear();
    for (let at = 0; at < src.length;) at = encoder.encode(src, at, sink);
  };
  const encoding = best(KEYS * ROUNDS, () => {
    for (let i = 0; i < ROUNDS; i++) encodeAll();
  });
  const bytes = sink.used / KEYS;
  let decoding = "-";
  if (encoder.exact) {
    const keys: Uint8Array[] = [];
    for (let at = 0; at < sink.used;) {
      const end = keyEnd("root", sink.bytes, at);
      keys.push(sink.bytes.slice(at, end));
      at = end;
    }
    let length = 0;
    const ns = best(KEYS * ROUNDS, () => {
      for (let i = 0; i < ROUNDS; i++)
        for (const key of keys) length += decodeKey("root", key).length;
    });
    if (length === 0) throw new Error("nothing was decoded");
    decoding = `${ns.toFixed(0)} ns`;
  }
  console.log(
    `${name.padEnd(22)} encode ${encoding.toFixed(0).padStart(4)} ns ${(1000 / encoding).toFixed(1).padStart(6)} M/s   decode ${decoding.padStart(7)}   ${bytes.toFixed(1)} bytes`,
  );
}
