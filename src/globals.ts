/**
 * Types that not every project's TypeScript has: the DOM's types are not always loaded, and typed
 * arrays have had a type parameter for their memory only since 5.7. Each resolves to the real type
 * if that exists, else to a type that accepts anything.
 */

/** WebAssembly.Module. */
export type WasmModule = typeof globalThis extends { readonly WebAssembly: { readonly Module: abstract new (...args: never) => infer M } }
  ? M
  : object;
/** WebAssembly.Memory. */
export type WasmMemory = typeof globalThis extends { readonly WebAssembly: { readonly Memory: abstract new (...args: never) => infer M } }
  ? M
  : object;
/** A Uint8Array with memory of its own, not shared: Uint8Array<ArrayBuffer>. */
export type OwnBytes = ReturnType<Uint8Array['slice']>;
