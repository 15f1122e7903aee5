// The HTTP server's public names.
export { readerThreads, startReaders, type ReadersOptions } from "./readers.js";
export { startServer, type HttpOptions, type RunningServer, type ServeOptions } from "./server.js";
