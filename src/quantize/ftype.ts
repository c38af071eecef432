/** Kinds of quantised files, and the tensor types that they use. */
import { QuantletError } from '../errors.ts';
import type { TypeName, TypeTraits } from '../type-traits.ts';
import { TYPE, typeById, typesWith } from '../type-traits.ts';

/**
 * A kind of file of llama-quantize: its number in `general.file_type` and the type of most
 * matrices.
 */
export interface Ftype {
  readonly name: string;
  readonly id: number;
  readonly type: TypeTraits;
  /** Short text for the help. */
  readonly help: string;
}

const bits = ({ typeSize, blckSize }: TypeTraits): number => (typeSize * 8) / blckSize;

/** Remarks in the help, after a type's bits. */
const REMARKS: { readonly [type in TypeName]?: string } = {
  q4_0: 'blocks of 32 with a scale',
  q4_1: 'scale and offset',
  q5_0: 'blocks of 32 with a scale',
  q5_1: 'scale and offset',
  q8_0: 'hardly any loss',
  iq4_nl: 'non-linear, blocks of 32',
  iq4_xs: 'non-linear, blocks of 256',
  tq1_0: 'for ternary models only',
  tq2_0: 'for ternary models only',
  q1_0: 'signs, blocks of 128 with a scale',
  q2_0: 'blocks of 64 with a scale',
  bf16: 'with the range of 32',
};

/** Kinds that are named like their type. Their numbers are in the table of types. */
const PLAIN: readonly Ftype[] = typesWith((k) => k.ftype !== undefined).map((type) => {
  const remark = REMARKS[type.name];
  return {
    name: type.name.toUpperCase(),
    id: type.kernels!.ftype!,
    type,
    help: `${Number(bits(type).toFixed(2))} bits${remark ? `, ${remark}` : ''}`,
  };
});

const mix = (name: string, id: number, type: TypeName, help: string): Ftype => ({ name, id, type: TYPE[type], help });

const MIXES: readonly Ftype[] = [
  mix('Q2_K_S', 21, 'q2_K', '2.6 bits; needs --imatrix'),
  mix('Q2_K', 10, 'q2_K', '2.6 bits and more for delicate tensors'),
  mix('Q3_K_S', 11, 'q3_K', '3.4 bits throughout'),
  mix('Q3_K_M', 12, 'q3_K', '3.4 bits, more for values, attention outputs and ffn_down (alias Q3_K)'),
  mix('Q3_K_L', 13, 'q3_K', 'as Q3_K_M with 5.5 bits there'),
  mix('Q4_K_S', 14, 'q4_K', "4.5 bits, 5.5 for the first layers' values and ffn_down"),
  mix('Q4_K_M', 15, 'q4_K', '4.5 bits, 6.6 for half of the values and ffn_down (alias Q4_K)'),
  mix('Q5_K_S', 16, 'q5_K', '5.5 bits throughout'),
  mix('Q5_K_M', 17, 'q5_K', '5.5 bits, 6.6 for half of the values and ffn_down (alias Q5_K)'),
  mix('IQ1_S', 24, 'iq1_s', '1.6 bits and more for delicate tensors; needs --imatrix'),
  mix('IQ1_M', 31, 'iq1_m', '1.8 bits and more; needs --imatrix'),
  mix('IQ2_XXS', 19, 'iq2_xxs', '2.1 bits and more; needs --imatrix'),
  mix('IQ2_XS', 20, 'iq2_xs', '2.3 bits and more; needs --imatrix'),
  mix('IQ2_S', 28, 'iq2_xs', '2.3 bits, 3.4 for delicate tensors; needs --imatrix'),
  mix('IQ2_M', 29, 'iq2_s', '2.6 bits, 3.4 for delicate tensors; needs --imatrix'),
  mix('IQ3_XXS', 23, 'iq3_xxs', '3.1 bits, 2.6 for queries and keys; needs --imatrix'),
  mix('IQ3_XS', 22, 'iq3_s', '3.4 bits, 3.1 for queries, keys and most of ffn_gate and ffn_up; needs --imatrix'),
  mix('IQ3_S', 26, 'iq3_s', '3.4 bits'),
  mix('IQ3_M', 27, 'iq3_s', '3.4 bits, 4.5 for values, attention outputs and the first ffn_down'),
  mix('MXFP4_MOE', 38, 'mxfp4', '4.25 bits for expert tensors, Q8_0 for the rest'),
  // Not in llama.cpp: every matrix as mxfp4. MXFP4_MOE uses it for expert tensors only, and q8_0
  // for the rest.
  mix('MXFP4', 38, 'mxfp4', '4.25 bits for all matrices (not in llama.cpp)'),
];

/**
 * Kinds of files, smallest first. Source: llama.h, enum llama_ftype; names as llama-quantize lists
 * them.
 */
export const FTYPES: readonly Ftype[] = [...MIXES, ...PLAIN].sort((a, b) => bits(a.type) - bits(b.type));

/** Pseudo-kind: every tensor is copied, and only metadata may change. */
export const COPY: Ftype = { name: 'COPY', id: -1, type: TYPE.f32, help: 'all tensors as they are' };

const ALIASES: Readonly<Record<string, string>> = { Q3_K: 'Q3_K_M', Q4_K: 'Q4_K_M', Q5_K: 'Q5_K_M' };

/**
 * Kind of file of a TYPE argument: a name in any case, an alias (`Q4_K` is `Q4_K_M`), or
 * llama.cpp's number.
 *
 * @throws QuantletError ERR_INVALID_ARGUMENT listing the names
 */
export const parseFtype = (text: string): Ftype => {
  const name = text.toUpperCase();
  if (name === COPY.name) return COPY;
  const found =
    FTYPES.find((f) => f.name === (ALIASES[name] ?? name)) ?? (/^\d+$/.test(text) ? FTYPES.find((f) => f.id === Number(text)) : undefined);
  if (!found)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `"${text}" is not a type that quantlet can make; expected one of ${FTYPES.map((f) => f.name).join(', ')}`,
    );
  return found;
};

/** Types that weights can be quantised to, among those that a file can have. */
export const QUANTIZERS: readonly TypeTraits<TypeName>[] = typesWith(
  (k, { id }) => typeById(id) && ((k.quantizer && k.packed) || k.gridQuantizer),
);

/**
 * Tensor type of an argument such as that of `--output-tensor-type`, a ggml name in any case.
 *
 * @throws QuantletError ERR_INVALID_ARGUMENT listing the names
 */
export const parseTensorType = (text: string): TypeTraits => {
  const found = QUANTIZERS.find(({ name }) => name.toLowerCase() === text.toLowerCase());
  if (!found)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `"${text}" is not a tensor type that quantlet can make; expected one of ${QUANTIZERS.map(({ name }) => name).join(', ')}`,
    );
  return found;
};

/**
 * True for types that store one number per element, so that they have lost nothing to quantisation
 * (the opposite of ggml_is_quantized).
 */
export const isPlain = (type: TypeTraits): boolean => type.blckSize === 1;
