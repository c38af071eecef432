/** A 64-bit sum of bytes: tells models apart and notices damage. No defence against someone who wants two of them to be equal. */
export interface Fingerprint {
  add(bytes: Uint8Array): Fingerprint;
  hex(): string;
}

export function createFingerprint(): Fingerprint {
  // Two lanes of multiply and rotate over 32-bit words (as xxHash32 mixes), so that every bit reaches the sum and words cannot change places.
  let a = 0x2545f491, b = 0x9e3779b1 | 0, length = 0;
  const mix = (word: number): void => {
    a = Math.imul(a ^ word, 0x85ebca77);
    a = (a << 13) | (a >>> 19);
    b = Math.imul(b + word, 0xc2b2ae3d);
    b = (b << 17) | (b >>> 15);
  };
  return {
    add(bytes) {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), whole = bytes.length & ~3;
      for (let i = 0; i < whole; i += 4) mix(view.getInt32(i, true));
      for (let i = whole; i < bytes.length; i++) mix(bytes[i]);
      length += bytes.length;
      mix(length); // where one piece ends counts: 'ab' + 'c' is not 'a' + 'bc'
      return this;
    },
    hex: () => [a ^ (a >>> 15), b ^ (b >>> 15)].map((h) => (h >>> 0).toString(16).padStart(8, '0')).join(''),
  };
}
