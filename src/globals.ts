/**
 * What runtimes have and TypeScript knows in some projects only: the DOM's types are not everywhere, and typed arrays say whose memory they have
 * since 5.7 alone. Where the types are there these are the same ones; else something that takes any.
 */

/** WebAssembly.Module. */
export type WasmModule = typeof globalThis extends { readonly WebAssembly: { readonly Module: abstract new (...args: never) => infer M } }
  ? M
  : object;
/** WebAssembly.Memory. */
export type WasmMemory = typeof globalThis extends { readonly WebAssembly: { readonly Memory: abstract new (...args: never) => infer M } }
  ? M
  : object;
/** A Uint8Array whose memory is its own, not shared: Uint8Array<ArrayBuffer>. */
export type OwnBytes = ReturnType<Uint8Array['slice']>;
