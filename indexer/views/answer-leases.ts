// Lets go of what answers hold that nobody read to their end. To register every answer with the garbage collector would cost a lookup more
// than all else, so answers share a token, replaced after some hundred of them: it is collected when the last of them is.

const ANSWERS_A_TOKEN = 256;

interface Token {
  readonly open: Set<() => void>;
}

const collected = new FinalizationRegistry<Set<() => void>>((open) => {
  for (const release of open) release();
});

let token: Token | undefined;
let taken = 0;

/**
 * @param release - Idempotent; must not lead to the answer.
 * @returns What the answer calls at its end, and keeps until then. If it is collected before, `release` is called some time later.
 */
export function leased(release: () => void): () => void {
  if (token === undefined || taken === ANSWERS_A_TOKEN) {
    token = { open: new Set() };
    taken = 0;
    collected.register(token, token.open);
  }
  taken++;
  const mine = token;
  mine.open.add(release);
  return () => {
    mine.open.delete(release);
    release();
  };
}
