// Lets go of what answers hold that nobody read to their end. To register every answer with the garbage collector would cost a lookup more
// than all else, so answers share a token, replaced after some hundred of them: it is collected when the last of them is.

const ANSWERS_A_TOKEN = 256;

interface Token {
  /** One place an answer, empty once it has let go. */
  readonly open: ((() => void) | undefined)[];
}

const collected = new FinalizationRegistry<Token["open"]>((open) => {
  for (const release of open) release?.();
});

let token: Token | undefined;

/**
 * @param release - Idempotent; must not lead to the answer.
 * @returns What the answer calls at its end, and keeps until then. If it is collected before, `release` is called some time later.
 */
export function leased(release: () => void): () => void {
  if (token === undefined || token.open.length === ANSWERS_A_TOKEN) {
    token = { open: [] };
    collected.register(token, token.open);
  }
  const mine = token;
  const place = mine.open.push(release) - 1;
  return () => {
    mine.open[place] = undefined;
    release();
  };
}
