/** Which types have kernels, and ggml's type_traits.vec_dot_type: what activations become before they meet weights of a type. */
import { QuantletError } from '../errors.ts';
import { TYPE, namesOf, typesWith, type TypeTraits } from '../type-traits.ts';
import { shape, type Tensor } from './tensor.ts';

/** The vec_dot_type, or undefined for a type without vec_dot. */
export function vecDotType({ kernels }: TypeTraits): TypeTraits | undefined {
  return kernels?.vecDotType && TYPE[kernels.vecDotType];
}

/** @throws ERR_UNSUPPORTED_TYPE where rows of `t` cannot be read, naming the op and the shapes */
export function mustBeReadable(op: string, t: Tensor, other?: Tensor): void {
  if (t.type.kernels) return;
  throw new QuantletError(
    'ERR_UNSUPPORTED_TYPE',
    `${op}: ${shape(t)}${other ? ` and ${shape(other)}` : ''}: no kernel for ${t.type.name}; these run: ${namesOf(typesWith(() => true)).join(', ')}`,
  );
}
