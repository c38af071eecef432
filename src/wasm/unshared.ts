/**
 * The single-threaded kernels out of those with threads: atomic operations run on memory that is not shared too, so one byte is all that differs, the flags
 * of the imported memory. Packages are smaller by a file for each build that is made so.
 */

/** Flags of a memory: it has a maximum; threads share it. */
const HAS_MAXIMUM = 1;
const SHARED = 2;

/** A module's bytes, in which the memory that it imports is not shared: they are changed in place. Modules that are so already stay as they are. */
export function unshared(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const at = memoryFlags(bytes);
  if (bytes[at] === (HAS_MAXIMUM | SHARED)) bytes[at] = HAS_MAXIMUM;
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
