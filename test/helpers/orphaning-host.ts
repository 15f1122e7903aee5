// A host that starts a view server with the command line in argv[2] (JSON), gives it the text in argv[3], and waits. The server's output is
// this process' file descriptor 3.

import { spawn } from "node:child_process";

const [, , command = "[]", input = ""] = process.argv;
const [file = "", ...args] = JSON.parse(command) as string[];
const server = spawn(file, args, { stdio: ["pipe", 3, "ignore"] });
server.stdin?.write(input);
setInterval(() => undefined, 60_000);
