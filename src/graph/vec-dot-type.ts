/**
 * Types that have kernels, and ggml's type_traits.vec_dot_type: the type that activations are
 * converted to before they are multiplied by weights of a type.
 */
import { QuantletError } from '../errors.ts';
import { mustBe, isFloat } from './operands.ts';
import { TYPE, isMx, namesOf, typesWith, type TypeTraits } from '../type-traits.ts';
import { shape, type Tensor } from './tensor.ts';

/** vec_dot_type of a type, or undefined if it has no vec_dot. */
export function vecDotType({ kernels }: TypeTraits): TypeTraits | undefined {
  return kernels?.vecDotType && TYPE[kernels.vecDotType];
}

/** @throws ERR_UNSUPPORTED_TYPE if rows of `t` cannot be read, naming the op and the shapes */
export function mustBeReadable(op: string, t: Tensor, other?: Tensor): void {
  if (t.type.kernels) return;
  throw new QuantletError(
    'ERR_UNSUPPORTED_TYPE',
    `${op}: ${shape(t)}${other ? ` and ${shape(other)}` : ''}: no kernel for ${t.type.name}; expected one of ${namesOf(typesWith(() => true)).join(', ')}`,
  );
}

/**
 * Checks that weights a can be multiplied by activations b. b may be floats, blocks of the weights'
 * vec_dot_type, or MX blocks if a is MX too. MX blocks are converted to f32, which is exact, as are
 * products of two elements within f32's range; sums are rounded to f32.
 * @throws ERR_UNSUPPORTED_TYPE
 */
export function mustMeet(op: string, a: Tensor, b: Tensor): void {
  mustBeReadable(op, a, b);
  const want = vecDotType(a.type) ?? TYPE.f32;
  const kinds = `activations of f32, f16, bf16 or ${isMx(a.type) ? namesOf(typesWith((_, type) => isMx(type))).join(', ') : want.name}`;
  mustBe(op, isFloat(b) || b.type === want || (isMx(a.type) && isMx(b.type)), kinds, a, b);
}
