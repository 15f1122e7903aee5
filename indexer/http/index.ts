// The HTTP server's public names.
export { startServer, type HttpOptions, type RunningServer, type ServeOptions } from "./server.js";
