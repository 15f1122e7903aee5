// Loops over bytes, compiled to WebAssembly.

export { createKernel, MEMORY_START, type Kernel, type KernelImports } from "./kernel.js";
