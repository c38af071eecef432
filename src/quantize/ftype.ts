/** Kinds of quantised files, and the tensor types that can be made. */
import { QuantletError } from '../errors.ts';
import type { TypeName, TypeTraits } from '../type-traits.ts';
import { TYPE } from '../type-traits.ts';

/** A kind of file that llama-quantize makes: its number in `general.file_type` and the type most matrices get. */
export interface Ftype {
  readonly name: string;
  readonly id: number;
  readonly type: TypeTraits;
  /** A few words for the help. */
  readonly help: string;
}

const ftype = (name: string, id: number, type: TypeName, help: string): Ftype => ({ name, id, type: TYPE[type], help });

/** Source: llama.h, enum llama_ftype; names and order as llama-quantize lists them. */
export const FTYPES: readonly Ftype[] = [
  ftype('Q4_0', 2, 'q4_0', '4.5 bits a weight, blocks of 32 with a scale'),
  ftype('Q4_1', 3, 'q4_1', '5 bits, scale and offset'),
  ftype('MXFP4_MOE', 38, 'mxfp4', '4.25 bits for expert tensors, Q8_0 for the rest'),
  ftype('Q5_0', 8, 'q5_0', '5.5 bits, blocks of 32 with a scale'),
  ftype('Q5_1', 9, 'q5_1', '6 bits, scale and offset'),
  ftype('TQ1_0', 36, 'tq1_0', '1.69 bits, for ternary models only'),
  ftype('TQ2_0', 37, 'tq2_0', '2.06 bits, for ternary models only'),
  ftype('Q2_K', 10, 'q2_K', '2.6 bits and more for delicate tensors'),
  ftype('Q2_K_S', 21, 'q2_K', '2.6 bits; needs --imatrix'),
  ftype('Q3_K_S', 11, 'q3_K', '3.4 bits throughout'),
  ftype('Q3_K_M', 12, 'q3_K', '3.4 bits, more for values, attention outputs and ffn_down (alias Q3_K)'),
  ftype('Q3_K_L', 13, 'q3_K', 'as Q3_K_M with 5.5 bits there'),
  ftype('IQ4_NL', 25, 'iq4_nl', '4.5 bits, non-linear, blocks of 32'),
  ftype('IQ4_XS', 30, 'iq4_xs', '4.25 bits, non-linear, blocks of 256'),
  ftype('Q4_K_S', 14, 'q4_K', "4.5 bits, 5.5 for the first layers' values and ffn_down"),
  ftype('Q4_K_M', 15, 'q4_K', '4.5 bits, 6.6 for half of the values and ffn_down (alias Q4_K)'),
  ftype('Q5_K_S', 16, 'q5_K', '5.5 bits throughout'),
  ftype('Q5_K_M', 17, 'q5_K', '5.5 bits, 6.6 for half of the values and ffn_down (alias Q5_K)'),
  ftype('Q6_K', 18, 'q6_K', '6.6 bits'),
  ftype('Q8_0', 7, 'q8_0', '8.5 bits, hardly any loss'),
  ftype('F16', 1, 'f16', '16 bits'),
  ftype('BF16', 32, 'bf16', '16 bits with the range of 32'),
  ftype('F32', 0, 'f32', '32 bits'),
  // Not llama.cpp's: every matrix as mxfp4, where MXFP4_MOE gives it to expert tensors only and q8_0 to the rest.
  ftype('MXFP4', 38, 'mxfp4', '4.25 bits for all matrices (not in llama.cpp)'),
];

const ALIASES: Readonly<Record<string, string>> = { Q3_K: 'Q3_K_M', Q4_K: 'Q4_K_M', Q5_K: 'Q5_K_M' };

/**
 * The kind of file a TYPE argument means: a name in any case, an alias (`Q4_K` is `Q4_K_M`), or llama.cpp's number.
 *
 * @throws QuantletError ERR_USAGE with the names there are
 */
export const parseFtype = (text: string): Ftype => {
  const name = text.toUpperCase();
  const found = FTYPES.find((f) => f.name === (ALIASES[name] ?? name)) ?? (/^\d+$/.test(text) ? FTYPES.find((f) => f.id === Number(text)) : undefined);
  if (!found) throw new QuantletError('ERR_USAGE', `"${text}" is no type that quantlet can make, expected one of ${FTYPES.map((f) => f.name).join(', ')}`);
  return found;
};

/** Types that rows can be quantised to (assembly/quantize.ts). */
export const QUANTIZERS: readonly TypeTraits[] = [
  TYPE.f32, TYPE.f16, TYPE.bf16, TYPE.q4_0, TYPE.q4_1, TYPE.q5_0, TYPE.q5_1, TYPE.q8_0, TYPE.q2_K, TYPE.q3_K, TYPE.q4_K, TYPE.q5_K, TYPE.q6_K,
  TYPE.iq4_nl, TYPE.iq4_xs, TYPE.mxfp4, TYPE.tq1_0, TYPE.tq2_0,
];

/**
 * The tensor type that `--output-tensor-type` and its like mean, a ggml name in any case.
 *
 * @throws QuantletError ERR_USAGE with the names there are
 */
export const parseTensorType = (text: string): TypeTraits => {
  const found = QUANTIZERS.find(({ name }) => name.toLowerCase() === text.toLowerCase());
  if (!found) throw new QuantletError('ERR_USAGE', `"${text}" is no tensor type that quantlet can make, expected one of ${QUANTIZERS.map(({ name }) => name).join(', ')}`);
  return found;
};

/** Whether a type stores plain numbers, one by one: what can be quantised without losing what was lost before (ggml_is_quantized is its opposite). */
export const isPlain = (type: TypeTraits): boolean => type.blckSize === 1;
