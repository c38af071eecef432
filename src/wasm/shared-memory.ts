/**
 * A build with threads and the one without are the same code: atomic operations run on memory that is not shared too. One byte is all that differs, the
 * flags of the imported memory, so that the package has one file for both.
 */

/** Flags of a memory: it has a maximum; threads share it. */
const HAS_MAXIMUM = 1;
const SHARED = 2;

/** A module's bytes, in which the memory that it imports is shared, or is not: they are changed in place. */
export function withSharedMemory(bytes: Uint8Array<ArrayBuffer>, shared: boolean): Uint8Array<ArrayBuffer> {
  bytes[memoryFlags(bytes)] = shared ? HAS_MAXIMUM | SHARED : HAS_MAXIMUM;
  return bytes;
}

/** Where the flags of the imported memory are (WebAssembly Core 2.0, 5.5: sections, imports, limits). The kernels import nothing else. */
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
  leb(); // one import: the names of its module and of itself, its kind
  for (let names = 2; names > 0; names--) at = leb() + at;
  return at + 1;
}
