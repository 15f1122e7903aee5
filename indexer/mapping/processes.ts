// View servers in processes of their own: loaded only by who uses them, for what they are made of takes time to load.

export { ProcessMapper } from "./process-mapper.js";
export { ServerPool } from "./server-pool.js";
export { ownServer, parseServerCommand } from "./server-process.js";
