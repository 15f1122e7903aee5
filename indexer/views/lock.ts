// The writer's lock on an index directory. It is a listening local socket, so that it frees itself with its process whatever
// kills it; beside it the file `lock` says, for people, who holds it. Two names for one directory lock each other, because the
// socket is named after the directory's device and inode.

import { realpathSync, rmSync, statSync, writeFileSync, readFileSync } from "node:fs";
import { createServer, connect, type Server } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";

import { IndexerError } from "../errors.js";

const LOCK_FILE = "lock";

/** Linux has socket names outside the file system that vanish with their owner; elsewhere a path (or pipe) is used and probed. */
function socketName(dir: string): string {
  const real = realpathSync(dir);
  const { dev, ino } = statSync(real, { bigint: true });
  const name = `viewmill-${dev.toString(36)}-${ino.toString(36)}`;
  if (process.platform === "linux") return `\0${name}`;
  if (process.platform === "win32") return `\\\\.\\pipe\\${name}`;
  return join(tmpdir(), `${name}.sock`);
}

function listen(name: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", reject);
    server.listen({ path: name, exclusive: true }, () => {
      server.removeListener("error", reject);
      server.unref();
      resolve(server);
    });
  });
}

function isAlive(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path: name });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => {
      resolve(false);
    });
  });
}

function holder(dir: string): string {
  try {
    return readFileSync(join(dir, LOCK_FILE), "utf8").trim();
  } catch {
    return "unknown process";
  }
}

function codeOf(error: unknown): string | undefined {
  return typeof error === "object" && error !== null && "code" in error
    ? String(error.code)
    : undefined;
}

/** Held until `release`, or until the process ends in any way. */
export class DirectoryLock {
  readonly #server: Server;
  readonly #dir: string;

  private constructor(server: Server, dir: string) {
    this.#server = server;
    this.#dir = dir;
  }

  /**
   * @param dir - an existing directory.
   * @throws IndexerError `INDEXER_LOCKED` naming the holder when another process (or another index of this one) writes there.
   */
  static async acquire(dir: string): Promise<DirectoryLock> {
    const name = socketName(dir);
    let server: Server;
    try {
      server = await listen(name);
    } catch (error) {
      if (codeOf(error) !== "EADDRINUSE") throw error;
      const stale =
        process.platform !== "linux" && process.platform !== "win32" && !(await isAlive(name));
      if (!stale)
        throw new IndexerError(
          "INDEXER_LOCKED",
          `${dir} is in use by another writer (${holder(dir)}). Wait for it to end or stop it; queries with update=false do not need the lock.`,
          { file: dir },
        );
      rmSync(name, { force: true });
      server = await listen(name);
    }
    try {
      writeFileSync(
        join(dir, LOCK_FILE),
        `pid ${process.pid} on ${hostname()} since ${new Date().toISOString()}\n`,
      );
    } catch {
      // A note for people. On a full disk the lock is held all the same: whoever makes room needs it.
    }
    return new DirectoryLock(server, dir);
  }

  async release(): Promise<void> {
    try {
      rmSync(join(this.#dir, LOCK_FILE), { force: true });
    } catch {
      // The folder is out of reach; the lock must not stay for that.
    }
    await new Promise<void>((resolve) => {
      this.#server.close(() => {
        resolve();
      });
    });
  }
}
