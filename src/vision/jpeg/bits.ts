/** Bits and Huffman codes of a JPEG scan. */
import { invalid } from '../picture.ts';

/** Codes of up to this many bits are found by one look-up. */
const FAST_BITS = 9;

export interface HuffmanTable {
  /** By the next FAST_BITS bits: length of the code * 256 + its value; 0 if the code is longer. */
  readonly fast: Uint16Array;
  /** By length: the first 16-bit word past the codes of this length. */
  readonly ends: Int32Array;
  /** By length: index of a code's value minus the code. */
  readonly offsets: Int32Array;
  readonly values: Uint8Array;
}

/**
 * @param counts codes of each length, 1 to 16 bits
 * @throws ERR_IMAGE_INVALID if there are more codes of a length than fit
 */
export function huffmanTable(counts: Uint8Array, values: Uint8Array): HuffmanTable {
  const table = { fast: new Uint16Array(1 << FAST_BITS), ends: new Int32Array(18), offsets: new Int32Array(17), values };
  let code = 0;
  let index = 0;
  for (let length = 1; length <= 16; length++) {
    table.offsets[length] = index - code;
    for (let i = 0; i < counts[length - 1]; i++, code++, index++) {
      if (length > FAST_BITS) continue;
      const from = code << (FAST_BITS - length);
      table.fast.fill((length << 8) | values[index], from, from + (1 << (FAST_BITS - length)));
    }
    if (code > 1 << length) throw invalid('has Huffman codes that contradict each other');
    table.ends[length] = code << (16 - length);
    code <<= 1;
  }
  return table;
}

/**
 * Reads the bits of a scan up to its next marker. Past the marker, bits are zeros; `overrun` then
 * says that some of them were used.
 */
export class BitReader {
  /** Next byte that has not been read. */
  at: number;
  private readonly bytes: Uint8Array;
  private bits = 0;
  private have = 0;
  private zeros = 0;

  constructor(bytes: Uint8Array, at: number) {
    this.bytes = bytes;
    this.at = at;
  }

  get overrun(): boolean {
    return this.have < this.zeros;
  }

  /** Drops the bits that are left of the last byte. */
  align(): void {
    this.bits = this.have = this.zeros = 0;
  }

  private fill(n: number): void {
    while (this.have < n) {
      this.bits = (this.bits << 8) | this.nextByte();
      this.have += 8;
    }
  }

  private nextByte(): number {
    const { bytes } = this;
    const byte = bytes[this.at];
    if (byte !== undefined && byte !== 0xff) {
      this.at++;
      return byte;
    }
    // 0xff is data only if 0 follows, after any number of further 0xff.
    let next = this.at + 1;
    while (bytes[next] === 0xff) next++;
    if (byte === 0xff && bytes[next] === 0) {
      this.at = next + 1;
      return byte;
    }
    this.zeros += 8;
    return 0;
  }

  /** The next n bits, 0 to 16. */
  read(n: number): number {
    this.fill(n);
    this.have -= n;
    return (this.bits >>> this.have) & ((1 << n) - 1);
  }

  /** The next n bits as a signed number: half of the codes are negative (T.81, F.2.2.1). */
  readSigned(n: number): number {
    if (n === 0) return 0;
    const value = this.read(n);
    return value < 1 << (n - 1) ? value - (1 << n) + 1 : value;
  }

  /** @throws ERR_IMAGE_INVALID for bits that are no code */
  readCode({ fast, ends, offsets, values }: HuffmanTable): number {
    this.fill(16);
    const word = (this.bits >>> (this.have - 16)) & 0xffff;
    const found = fast[word >>> (16 - FAST_BITS)];
    if (found > 0) {
      this.have -= found >>> 8;
      return found & 0xff;
    }
    let length = FAST_BITS + 1;
    while (length <= 16 && word >= ends[length]) length++;
    if (length > 16) throw invalid('has bits that are none of its Huffman codes: the file is damaged');
    this.have -= length;
    return values[(word >>> (16 - length)) + offsets[length]];
  }
}
