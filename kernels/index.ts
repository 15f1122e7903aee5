// Loops over bytes, compiled to WebAssembly.

export { createKernel, MEMORY_START, type Kernel } from "./kernel.js";
