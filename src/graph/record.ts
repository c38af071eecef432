/** A record is one call of a kernel on all threads: what lower.ts makes of nodes, and plan.ts encodes. */
import { type TypeTraits } from '../type-traits.ts';
import type { OpCode } from './kernels.ts';
import { contiguousNb, leaf, type Ne, type Tensor } from './tensor.ts';

/** What explain() knows of an engine. */
export interface Explained {
  readonly threads: number;
  /** The elements of a tensor that the host can read before the graph runs. */
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
  /** Sources that the kernel writes beside dst. */
  readonly writtenSrc?: readonly Tensor[];
  /** Scratch bytes a thread needs. */
  readonly scratch?: number;
  /** What was chosen and why, as explain() prints it. */
  readonly how?: string | ((of: Explained) => string);
}

/** A node that lowering adds: contiguous, by default of the shape of `like`, whose dimension that follows the batch it then has too. */
export const temporary = (
  name: string,
  type: TypeTraits,
  like: Tensor,
  ne: Ne = like.ne,
  batch = ne === like.ne ? like.batch : undefined,
): Tensor => ({ ...leaf(name, type, ne, batch), op: 'view', nb: contiguousNb(type, ne) });
