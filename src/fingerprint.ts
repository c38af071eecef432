import { atOnce, type Work } from './slices.ts';

/**
 * 64-bit hash that tells models apart and detects damage. Not cryptographic: collisions can be
 * constructed.
 */
export interface Fingerprint {
  add(bytes: Uint8Array): Fingerprint;
  /** add() as work that pauses, because a hundred megabytes take a tenth of a second. */
  addWork(bytes: Uint8Array): Work<void>;
  hex(): string;
}

/** Bytes between two points where the work may pause; a multiple of 4. */
const PIECE = 256 * 1024;

export function createFingerprint(): Fingerprint {
  // Two lanes of multiply and rotate over 32-bit words, as in xxHash32: every bit and the order of
  // words matter.
  let a = 0x2545f491;
  let b = 0x9e3779b1 | 0;
  let length = 0;
  const mix = (word: number): void => {
    a = Math.imul(a ^ word, 0x85ebca77);
    a = (a << 13) | (a >>> 19);
    b = Math.imul(b + word, 0xc2b2ae3d);
    b = (b << 17) | (b >>> 15);
  };
  return {
    add(bytes) {
      atOnce(this.addWork(bytes));
      return this;
    },
    *addWork(bytes) {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
      const whole = bytes.length & ~3;
      for (let from = 0; from < whole; from += PIECE) {
        if (from > 0) yield;
        for (let i = from; i < Math.min(from + PIECE, whole); i += 4) mix(view.getInt32(i, true));
      }
      for (let i = whole; i < bytes.length; i++) mix(bytes[i]);
      length += bytes.length;
      mix(length); // borders between calls matter: 'ab' + 'c' differs from 'a' + 'bc'
    },
    hex: () => [a ^ (a >>> 15), b ^ (b >>> 15)].map((h) => (h >>> 0).toString(16).padStart(8, '0')).join(''),
  };
}
