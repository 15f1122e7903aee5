// Contexts: the documents' realm of a session, and one realm for each user function. No object of the host goes in: scripts are
// evaluated from source text, and only primitives and values of these realms are passed.
import { constants, createContext, Script, type Context } from "node:vm";
import { createCore } from "./realm/core.js";
import { createDesignDocs } from "./realm/ddocs.js";
import { createDescribe } from "./realm/describe.js";
import { createHelpers } from "./realm/helpers.js";
import { freezeIntrinsics, lockRealm, prepareUserRealm } from "./realm/lockdown.js";
import { createLogs } from "./realm/logs.js";
import { createMapping, createViewError } from "./realm/mapping.js";
import { createMime } from "./realm/mime.js";
import { createModules } from "./realm/modules.js";
import { createReducing } from "./realm/reducing.js";
import { createRender } from "./realm/render.js";
import { createRecorder } from "./realm/trace.js";
import { createReplies } from "./realm/replies.js";
import type { Core, Limits } from "./realm/types.js";

// displayErrors off: otherwise node reads `stack` of what user code threw, which runs code inside with the host's intrinsics.
const QUIET = { displayErrors: false } as const;

const userRealmScript = new Script(
  `"use strict";(() => {(${lockRealm.toString()})();return (${prepareUserRealm.toString()})();})()`,
  { filename: "viewmill" },
);

const coreScript = new Script(
  `"use strict";((text) => {
  (${lockRealm.toString()})();
  const limits = Object.freeze(JSON.parse(text));
  const describe = (${createDescribe.toString()})(64 * 1024);
  const logs = (${createLogs.toString()})(limits, describe);
  const replies = (${createReplies.toString()})(describe);
  const modules = (${createModules.toString()})(describe);
  const mime = (${createMime.toString()})(describe);
  const render = (${createRender.toString()})(describe, logs, mime);
  const helpers = (${createHelpers.toString()})(limits, describe, logs, modules, mime, render);
  const viewError = (${createViewError.toString()})(limits, describe, logs);
  const recorder = (${createRecorder.toString()})();
  const mapping = (${createMapping.toString()})(limits, logs, replies, helpers, viewError, recorder);
  const reducing = (${createReducing.toString()})(limits, describe, logs, replies, viewError);
  const ddocs = (${createDesignDocs.toString()})(describe, replies, helpers, render);
  const core = (${createCore.toString()})(describe, logs, replies, helpers, render, mapping, reducing, ddocs);
  (${freezeIntrinsics.toString()})();
  return core;
})`,
  { filename: "viewmill" },
);

function emptyContext(): Context {
  return createContext(constants.DONT_CONTEXTIFY, {
    codeGeneration: { strings: false, wasm: false },
    microtaskMode: "afterEvaluate",
  });
}

/** A realm for one user function, empty but for the language and our helpers. */
export interface UserRealm {
  readonly install: (helpers: object) => void;
  /** The script's value; throws whatever user code throws, which must be looked at only inside. */
  run(script: Script): unknown;
}

export function createUserRealm(): UserRealm {
  const context = emptyContext();
  const install = userRealmScript.runInContext(context, QUIET) as (helpers: object) => void;
  return { install, run: (script) => script.runInContext(context, QUIET) as unknown };
}

export function createCoreRealm(limits: Limits): Core {
  const make = coreScript.runInContext(emptyContext(), QUIET) as (limits: string) => Core;
  return make(JSON.stringify(limits));
}
