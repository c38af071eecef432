/** Search for blocks with numbers that are not finite. */
import type { TypeTraits } from '../type-traits.ts';

/** Exponent bits. If all are set, the number is NaN or infinite. */
const F16_EXPONENT = 0x7c00;
const BF16_EXPONENT = 0x7f80;
const F32_EXPONENT = 0x7f800000;
/** E8M0 scale that means NaN. */
const E8M0_NAN = 0xff;

const aligned = <T>(data: Uint8Array, bytes: number, As: new (buffer: ArrayBufferLike, offset: number, length: number) => T): T => {
  const { buffer, byteOffset } = data.byteOffset % bytes === 0 ? data : data.slice();
  return new As(buffer, byteOffset, Math.floor(data.length / bytes));
};

/** Index of the first number that has all of these bits set, or -1. */
const firstWithBits = (numbers: Uint16Array | Uint32Array, bits: number): number => {
  for (let i = 0; i < numbers.length; i++) if ((numbers[i] & bits) === bits) return i;
  return -1;
};

/**
 * First block (of plain types: element) of `data` that has a number that is not finite, or -1.
 *
 * Source: ggml_validate_row_data of ggml-quants.c.
 */
export const firstInvalidBlock = (type: TypeTraits, data: Uint8Array): number => {
  const { typeSize, kernels } = type;
  // All weights of a model are checked, so plain types use typed arrays, which are faster.
  if (type.name === 'f32') return firstWithBits(aligned(data, 4, Uint32Array), F32_EXPONENT);
  if (type.name === 'bf16') return firstWithBits(aligned(data, 2, Uint16Array), BF16_EXPONENT);
  if (type.name === 'f16') return firstWithBits(aligned(data, 2, Uint16Array), F16_EXPONENT);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const find = (bad: (at: number) => boolean): number => {
    for (let at = 0; at + typeSize <= data.length; at += typeSize) {
      if (bad(at)) return at / typeSize;
    }
    return -1;
  };
  if (kernels?.scales === 'ue4m3') return -1; // all of its numbers are finite
  if (kernels?.scales === 'e8m0') return find((at) => data[at] === E8M0_NAN);
  // The f16 scale of iq1_m is in the high nibbles of four u16. Its exponent is in the two top bits
  // of the third and in three bits of the fourth.
  if (kernels?.scales === 'iq1_m')
    return find((at) => (view.getUint16(at + 52, true) & 0xc000) === 0xc000 && (view.getUint16(at + 54, true) & 0x7000) === 0x7000);
  if (kernels?.scales === 'f32') return find((at) => (view.getUint32(at, true) & F32_EXPONENT) === F32_EXPONENT);
  const offsets = kernels?.scales ?? [];
  return find((at) => offsets.some((offset) => (view.getUint16(at + offset, true) & F16_EXPONENT) === F16_EXPONENT));
};
