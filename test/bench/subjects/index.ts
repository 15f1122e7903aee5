// All subjects, in the order in which they are run and reported. Modules are loaded when they are needed: some want rivals installed.

import type { Subject } from "../subject.js";

export const subjects = {
  "build-one": async () => (await import("./builds.js")).buildOne,
  "build-three": async () => (await import("./builds.js")).buildThree,
  "build-processes": async () => (await import("./builds.js")).buildProcesses,
  "build-reduce": async () => (await import("./builds.js")).buildReduce,
  "build-medium": async () => (await import("./builds.js")).buildMedium,
  "build-large": async () => (await import("./builds.js")).buildLarge,
  incremental: async () => (await import("./incremental.js")).incremental,
  queries: async () => (await import("./queries.js")).queries,
  workers: async () => (await import("./workers.js")).workers,
  rivals: async () => (await import("./rivals.js")).rivals,
  "bulk-load": async () => (await import("./scripts.js")).bulkLoad,
  storage: async () => (await import("./storage.js")).storage,
  engine: async () => (await import("./scripts.js")).engine,
  batches: async () => (await import("./scripts.js")).batches,
  pipelining: async () => (await import("./pipelining.js")).pipelining,
  "node-cache": async () => (await import("./scripts.js")).nodeCache,
  "document-cache": async () => (await import("./scripts.js")).documentCache,
  "readers-writers": async () => (await import("./scripts.js")).readersWriters,
  "sync-policy": async () => (await import("./scripts.js")).syncPolicy,
  "write-buffer": async () => (await import("./scripts.js")).writeBuffer,
  memory: async () => (await import("./memory.js")).memory,
  growth: async () => (await import("./growth.js")).growth,
} as const satisfies Record<string, () => Promise<Subject>>;

export type SubjectName = keyof typeof subjects;
