/**
 * Conversion between a build with threads and the one without. Their code is the same, since atomic
 * operations also run on unshared memory. Only one byte differs, the flags of the imported memory,
 * so the package has one file for both.
 */

/** Flags of a memory: it has a maximum; it is shared. */
const HAS_MAXIMUM = 1;
const SHARED = 2;

/** Changes a module's bytes, in place, so that the imported memory is shared, or not. */
export function withSharedMemory(bytes: Uint8Array<ArrayBuffer>, shared: boolean): Uint8Array<ArrayBuffer> {
  bytes[memoryFlags(bytes)] = shared ? HAS_MAXIMUM | SHARED : HAS_MAXIMUM;
  return bytes;
}

/**
 * Offset of the flags of the imported memory (WebAssembly Core 2.0, 5.5: sections, imports,
 * limits). The kernels import nothing else.
 */
function memoryFlags(bytes: Uint8Array): number {
  let at = 8;
  const leb = (): number => {
    for (let value = 0, shift = 0; ; shift += 7) {
      value |= (bytes[at] & 127) << shift;
      if (bytes[at++] < 128) return value;
    }
  };
  for (;;) {
    const section = bytes[at++];
    const end = leb() + at;
    if (section === 2) break;
    at = end;
  }
  leb(); // one import: names of its module and of itself, its kind
  for (let names = 2; names > 0; names--) at = leb() + at;
  return at + 1;
}
