import { QuantletError } from '../errors.ts';
import type { TypeName, TypeTraits } from '../type-traits.ts';
import { TYPE } from '../type-traits.ts';

/** A kind of file that llama-quantize makes: its number in `general.file_type` and the type most matrices get. */
export interface Ftype {
  readonly name: string;
  readonly id: number;
  readonly type: TypeTraits;
}

const ftype = (name: string, id: number, type: TypeName): Ftype => ({ name, id, type: TYPE[type] });

/** Source: llama.h, enum llama_ftype; names and order as llama-quantize lists them. */
export const FTYPES: readonly Ftype[] = [
  ftype('Q4_0', 2, 'q4_0'),
  ftype('Q4_1', 3, 'q4_1'),
  ftype('MXFP4_MOE', 38, 'mxfp4'),
  ftype('Q5_0', 8, 'q5_0'),
  ftype('Q5_1', 9, 'q5_1'),
  ftype('TQ1_0', 36, 'tq1_0'),
  ftype('TQ2_0', 37, 'tq2_0'),
  ftype('Q2_K', 10, 'q2_K'),
  ftype('Q2_K_S', 21, 'q2_K'),
  ftype('Q3_K_S', 11, 'q3_K'),
  ftype('Q3_K_M', 12, 'q3_K'),
  ftype('Q3_K_L', 13, 'q3_K'),
  ftype('IQ4_NL', 25, 'iq4_nl'),
  ftype('IQ4_XS', 30, 'iq4_xs'),
  ftype('Q4_K_S', 14, 'q4_K'),
  ftype('Q4_K_M', 15, 'q4_K'),
  ftype('Q5_K_S', 16, 'q5_K'),
  ftype('Q5_K_M', 17, 'q5_K'),
  ftype('Q6_K', 18, 'q6_K'),
  ftype('Q8_0', 7, 'q8_0'),
  ftype('F16', 1, 'f16'),
  ftype('BF16', 32, 'bf16'),
  ftype('F32', 0, 'f32'),
  // Not llama.cpp's: every matrix as mxfp4, where MXFP4_MOE gives it to expert tensors only and q8_0 to the rest.
  ftype('MXFP4', 38, 'mxfp4'),
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

const MADE: readonly TypeName[] = ['f32', 'f16', 'bf16', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q2_K', 'q3_K', 'q4_K', 'q5_K', 'q6_K', 'iq4_nl', 'iq4_xs', 'mxfp4', 'tq1_0', 'tq2_0'];

/**
 * The tensor type that `--output-tensor-type` and its like mean, a ggml name in any case.
 *
 * @throws QuantletError ERR_USAGE with the names there are
 */
export const parseTensorType = (text: string): TypeTraits => {
  const found = MADE.find((name) => name.toLowerCase() === text.toLowerCase());
  if (!found) throw new QuantletError('ERR_USAGE', `"${text}" is no tensor type that quantlet can make, expected one of ${MADE.join(', ')}`);
  return TYPE[found];
};

/** Whether a type stores plain numbers, one by one: what can be quantised without losing what was lost before (ggml_is_quantized is its opposite). */
export const isPlain = (type: TypeTraits): boolean => type.blckSize === 1;
