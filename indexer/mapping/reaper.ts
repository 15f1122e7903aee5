// A view server inside a function that never ends does not notice that its host was killed. So a shell waits beside it for the host's end of
// a pipe to close, and kills the server then. It costs a process of a megabyte that sleeps. The server could watch for itself only in a
// thread, and allowing it threads would open the fence around it (viewserver/SECURITY.md).
import { spawn } from "node:child_process";

/** Signals that a terminal sends to all of its processes must not end the guard before what it guards. */
const WAIT_AND_KILL = 'trap "" INT TERM HUP; read -r _; kill -9 "$1"';

/**
 * Has the process `pid` killed when this one is gone, however it ends.
 * @returns releases it: call it when `pid` has ended. Where there is no shell nothing is guarded.
 */
export function killWithUs(pid: number): () => void {
  const guard = spawn("/bin/sh", ["-c", WAIT_AND_KILL, "sh", String(pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    env: {},
  });
  guard.on("error", () => undefined);
  guard.stdin.on("error", () => undefined);
  guard.unref();
  (guard.stdin as { unref?: () => void }).unref?.();
  return () => {
    guard.kill("SIGKILL");
  };
}
