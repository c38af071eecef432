/**
 * A record is one call of a kernel on all threads. lower.ts makes records from nodes, plan.ts
 * encodes them.
 */
import { type TypeTraits } from '../type-traits.ts';
import type { OpCode } from './kernels.ts';
import { contiguousNb, leaf, type Ne, type Tensor } from './tensor.ts';

/** Facts of an engine that explain() uses. */
export interface Explained {
  readonly threads: number;
  /** Elements of a tensor, if the host can read them before the graph runs. */
  ints(t: Tensor): ArrayLike<number> | undefined;
}

export interface OpRecord {
  readonly code: OpCode;
  readonly dst: Tensor;
  readonly src: readonly (Tensor | undefined)[];
  /** The words p0, p1 ... of the record; `f` marks those that are written as f32. */
  readonly params: readonly (number | { f: number })[];
  /** dst in other types, written with it (assembly/ops/casts.ts). */
  readonly casts?: readonly Tensor[];
  /** Sources that the kernel also writes. */
  readonly writtenSrc?: readonly Tensor[];
  /** Scratch bytes of a thread. */
  readonly scratch?: number;
  /** The choice and its reason, as explain() prints it. */
  readonly how?: string | ((of: Explained) => string);
}

/**
 * A contiguous node that lowering adds. By default it has the shape of `like`, and follows the
 * batch in the same dimension.
 */
export const temporary = (
  name: string,
  type: TypeTraits,
  like: Tensor,
  ne: Ne = like.ne,
  batch = ne === like.ne ? like.batch : undefined,
): Tensor => ({ ...leaf(name, type, ne, batch), op: 'view', nb: contiguousNb(type, ne) });
