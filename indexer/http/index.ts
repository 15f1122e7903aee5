// The HTTP server's public names.
export { startServer, type RunningServer, type ServeOptions } from "./server.js";
