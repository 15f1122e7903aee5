// View-server sessions of one thread, by group. Compiling and making realms is dear, so a session lives on between tasks.

import { Session } from "../../viewserver/index.js";
import { compilationError } from "./compilation-error.js";
import type { GroupConfig, FunctionLimits } from "./types.js";

const SESSIONS_MAX = 8;

const sessions = new Map<string, Session>();

/**
 * The session that holds the group's map functions.
 * @throws IndexerError `INDEXER_DDOC_COMPILATION` when one does not compile.
 */
export function mapSession(config: GroupConfig, limits: FunctionLimits): Session {
  const known = sessions.get(config.key);
  if (known) {
    sessions.delete(config.key);
    sessions.set(config.key, known);
    return known;
  }
  const session = new Session({
    mode: config.strict ? "stock" : "lenient",
    ...limits,
  });
  session.handle(JSON.stringify(["reset", {}]));
  if (config.lib !== undefined) session.handle(`["add_lib",${config.lib}]`);
  for (const [tree, source] of config.maps.entries()) {
    const { output } = session.handle(JSON.stringify(["add_fun", source]));
    const reply: unknown = JSON.parse(output.trimEnd().split("\n").at(-1) ?? "null");
    if (reply !== true) {
      session.dispose();
      throw compilationError(config, tree, reply);
    }
  }
  sessions.set(config.key, session);
  if (sessions.size > SESSIONS_MAX) {
    const [oldest] = sessions.entries();
    if (oldest) {
      sessions.delete(oldest[0]);
      oldest[1].dispose();
    }
  }
  return session;
}

let reducing: Session | undefined;

/** A session for reduces only. */
export function reduceSession(): Session {
  reducing ??= new Session({});
  return reducing;
}
