/** Which types have kernels, and ggml's type_traits.vec_dot_type: what activations become before they meet weights of a type. */
import { QuantletError } from '../errors.ts';
import { TYPE, type TypeName, type TypeTraits } from '../type-traits.ts';
import { shape, type Tensor } from './tensor.ts';

const VEC_DOT_TYPE: Partial<{ [K in TypeName]: TypeName }> = {
  f32: 'f32', f16: 'f32', bf16: 'f32',
  q4_0: 'q8_0', q5_0: 'q8_0', q8_0: 'q8_0', iq4_nl: 'q8_0', mxfp4: 'q8_0', q4_1: 'q8_1', q5_1: 'q8_1',
  q2_K: 'q8_K', q3_K: 'q8_K', q4_K: 'q8_K', q5_K: 'q8_K', q6_K: 'q8_K', iq4_xs: 'q8_K', tq1_0: 'q8_K', tq2_0: 'q8_K',
};

/** Types that are only dequantised (assembly/type_traits.ts dequantize_row). */
const READ_ONLY: readonly TypeName[] = ['q8_1', 'q8_K', 'iq1_s', 'iq1_m', 'iq2_xxs', 'iq2_xs', 'iq2_s', 'iq3_xxs', 'iq3_s'];

/** The vec_dot_type, or undefined for a type without vec_dot. */
export function vecDotType(weights: TypeTraits): TypeTraits | undefined {
  const name = VEC_DOT_TYPE[weights.name as TypeName];
  return name && TYPE[name];
}

/** @throws ERR_UNSUPPORTED_TYPE where rows of `t` cannot be read, naming the op and the shapes */
export function mustBeReadable(op: string, t: Tensor, other?: Tensor): void {
  if (vecDotType(t.type) || READ_ONLY.includes(t.type.name as TypeName)) return;
  throw new QuantletError('ERR_UNSUPPORTED_TYPE', `${op}: ${shape(t)}${other ? ` and ${shape(other)}` : ''}: no kernel for ${t.type.name}; these run: ${[...Object.keys(VEC_DOT_TYPE), ...READ_ONLY].join(', ')}`);
}
