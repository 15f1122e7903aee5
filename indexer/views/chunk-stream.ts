// Maps pages of a feed several at a time and hands the results on in feed order. What is under way is bounded, so memory does not
// grow with the feed.

import type { Chunk } from "../sources/index.js";

/** A mapped page. */
export interface MappedChunk<T, C extends Chunk = Chunk> {
  readonly chunk: C;
  readonly number: number;
  readonly result: T;
}

/**
 * When the feed fails, or is aborted, the pages that it had delivered are handed on before its error is thrown: what is committed is a
 * prefix of the feed, and as long a one as can be.
 *
 * @param concurrency - pages under way at once.
 * @param map - called in feed order; `number` counts from `firstNumber`.
 */
export async function* mapInOrder<T, C extends Chunk = Chunk>(
  feed: AsyncIterable<C>,
  concurrency: number,
  firstNumber: number,
  map: (chunk: C, number: number) => Promise<T>,
): AsyncGenerator<MappedChunk<T, C>, void, undefined> {
  const pages = feed[Symbol.asyncIterator]();
  const underWay: Promise<MappedChunk<T, C>>[] = [];
  let number = firstNumber;
  let next: Promise<IteratorResult<C>> | undefined;
  let ended = false;
  let failed: { readonly error: unknown } | undefined;
  const pull = (): Promise<IteratorResult<C>> =>
    pages.next().catch((error: unknown) => {
      failed = { error };
      return { done: true, value: undefined };
    });
  try {
    for (;;) {
      if (!ended && underWay.length < concurrency) {
        next ??= pull();
        const head = underWay[0];
        // A live feed may be silent for long: finished pages must not wait for the next one.
        const first = head ? await Promise.race([next, head.then(() => undefined)]) : await next;
        if (first === undefined) {
          yield await (underWay.shift() as Promise<MappedChunk<T, C>>);
          continue;
        }
        next = undefined;
        if (first.done) {
          ended = true;
          continue;
        }
        const chunk = first.value;
        const n = number++;
        const mapped = map(chunk, n).then((result) => ({ chunk, number: n, result }));
        // A failure is reported when its turn comes; until then it must not count as unhandled.
        mapped.catch(() => undefined);
        underWay.push(mapped);
        continue;
      }
      const head = underWay.shift();
      if (head) yield await head;
      else if (failed) throw failed.error;
      else return;
    }
  } finally {
    await Promise.allSettled(underWay);
    if (!ended) await pages.return?.();
  }
}
