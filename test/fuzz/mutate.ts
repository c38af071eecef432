/** Bytes changed by accident or malice. */
export type Random = () => number;

const EXTREMES = [0, 1, 2, 3, 7, 8, 31, 32, 255, 256, 65535, 65536, 2 ** 24, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
export const below = (next: Random, n: number): number => Math.floor(next() * n);
export const pick = <T>(next: Random, of: readonly T[]): T => of[below(next, of.length)];

/**
 * Makes one to eight changes within the first `within` bytes: bits flipped, words set to extremes,
 * bytes removed, inserted or doubled, the end cut off or extended.
 */
export function mutate(next: Random, original: Uint8Array, within = original.length): Uint8Array<ArrayBuffer> {
  let bytes = Uint8Array.from(original);
  let reach = Math.min(within, bytes.length);
  const splice = (at: number, remove: number, put: Uint8Array): void => {
    const out = new Uint8Array(bytes.length - remove + put.length);
    out.set(bytes.subarray(0, at));
    out.set(put, at);
    out.set(bytes.subarray(at + remove), at + put.length);
    bytes = out;
  };
  for (let n = 1 + below(next, 8) * below(next, 2); n > 0; n--) {
    const at = below(next, Math.max(reach, 1));
    const kind = below(next, 20);
    if (bytes.length === 0) break;
    if (kind < 8) bytes[at] ^= 1 << below(next, 8);
    else if (kind < 11) bytes[at] = below(next, 256);
    else if (kind < 15) {
      const view = new DataView(bytes.buffer);
      const word = pick(next, EXTREMES);
      if (at + 8 <= bytes.length && next() < 0.5) view.setBigUint64(at, next() < 0.3 ? BigInt(word) << 32n : BigInt(word), true);
      else if (at + 4 <= bytes.length) view.setUint32(at, word, true);
    } else if (kind === 15) splice(at, Math.min(1 + below(next, 16), bytes.length - at), new Uint8Array(0));
    else if (kind === 16) splice(at, 0, bytes.slice(at, at + 1 + below(next, 64)));
    else if (kind === 17) bytes = bytes.slice(0, at);
    else if (kind === 18) splice(bytes.length, 0, new Uint8Array(1 + below(next, 64)).fill(below(next, 256)));
    else
      splice(
        at,
        0,
        Uint8Array.from({ length: 1 + below(next, 16) }, () => below(next, 256)),
      );
    reach = Math.min(reach, bytes.length);
  }
  return bytes;
}
