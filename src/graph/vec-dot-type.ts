/** Which types have kernels, and ggml's type_traits.vec_dot_type: what activations become before they meet weights of a type. */
import { QuantletError } from '../errors.ts';
import { mustBe, isFloat } from './operands.ts';
import { TYPE, isMx, namesOf, typesWith, type TypeTraits } from '../type-traits.ts';
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

/**
 * Activations b that weights a can meet: floats, blocks of the weights' vec_dot_type, and MX blocks where both are MX: these are made f32, which is exact, and
 * so is each product of two elements (as long as it is in f32's range); sums are of f32.
 *
 * @throws ERR_UNSUPPORTED_TYPE
 */
export function mustMeet(op: string, a: Tensor, b: Tensor): void {
  mustBeReadable(op, a, b);
  const want = vecDotType(a.type) ?? TYPE.f32;
  const kinds = `activations of f32, f16, bf16 or ${isMx(a.type) ? namesOf(typesWith((_, type) => isMx(type))).join(', ') : want.name}`;
  mustBe(op, isFloat(b) || b.type === want || (isMx(a.type) && isMx(b.type)), kinds, a, b);
}
