/** The ABI: everything the host may call. Pointers in, pointers out; contracts are checked in src/wasm/abi.ts. */

/** First byte the host may use: everything below belongs to this instance's static data. */
export function heap_base(): usize {
  return __heap_base;
}
