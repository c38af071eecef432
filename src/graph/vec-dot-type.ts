/** ggml's type_traits.vec_dot_type: what activations become before they meet weights of a type. */
import { QuantletError } from '../errors.ts';
import { TYPE, type TypeName, type TypeTraits } from '../type-traits.ts';
import { shape, type Tensor } from './tensor.ts';

const VEC_DOT_TYPE: Partial<{ [K in TypeName]: TypeName }> = {
  f32: 'f32', f16: 'f32', bf16: 'f32',
  q4_0: 'q8_0', q5_0: 'q8_0', q8_0: 'q8_0', iq4_nl: 'q8_0', mxfp4: 'q8_0', q4_1: 'q8_1', q5_1: 'q8_1',
  q2_K: 'q8_K', q3_K: 'q8_K', q4_K: 'q8_K', q5_K: 'q8_K', q6_K: 'q8_K', iq4_xs: 'q8_K', tq1_0: 'q8_K', tq2_0: 'q8_K',
};

/** @throws ERR_UNSUPPORTED_TYPE where there is no kernel for weights of this type, naming `op` and the shapes */
export function vecDotType(op: string, weights: Tensor, other?: Tensor): TypeTraits {
  const name = VEC_DOT_TYPE[weights.type.name as TypeName];
  if (!name) {
    throw new QuantletError('ERR_UNSUPPORTED_TYPE', `${op}: ${shape(weights)}${other ? ` and ${shape(other)}` : ''}: no kernel for ${weights.type.name}; these run: ${Object.keys(VEC_DOT_TYPE).join(', ')}`);
  }
  return TYPE[name];
}
