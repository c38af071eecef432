/** What scripts/build.mjs writes under dist/inline: kernels and the worker's script as text, for pages that cannot fetch files of a package, and the page of servers. */
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
/** Platforms that forbid compiling at run time give a compiled module for an import. */
declare module '*.wasm' {
  const module: WebAssembly.Module;
  export { module as default };
}
declare module '*.wasm?module' {
  const module: WebAssembly.Module;
  export { module as default };
}
