/**
 * Modules that scripts/build.mjs writes to dist/inline: kernels and the worker's script as text,
 * for pages that cannot fetch the package's files; and the servers' page.
 */
declare module '*/inline/simd.js' {
  export const deflated: string;
}
declare module '*/inline/relaxed.js' {
  export const deflated: string;
}
declare module '*/inline/dotadd.js' {
  export const deflated: string;
}
declare module '*/inline/worker.js' {
  export const source: string;
}
declare module '*/inline/page.js' {
  export const html: string;
}
/**
 * On platforms that forbid compiling at run time, importing a .wasm file gives a compiled module.
 */
declare module '*.wasm' {
  const module: WebAssembly.Module;
  export { module as default };
}
declare module '*.wasm?module' {
  const module: WebAssembly.Module;
  export { module as default };
}
