/** A record is one call of a kernel on all threads: what lower.ts makes of nodes, and plan.ts encodes. */
import { type TypeTraits } from '../type-traits.ts';
import type { Kernels } from '../wasm/abi.ts';
import type { OpCode } from './layout.ts';
import { contiguousNb, leaf, type Ne, type Tensor } from './tensor.ts';

export interface Record {
  readonly code: OpCode;
  readonly dst: Tensor;
  readonly src: readonly (Tensor | undefined)[];
  /** Words p0, p1 ...; `f` marks f32 bits. */
  readonly params: readonly (number | { f: number })[];
  /** dst once more in other types, written with it (assembly/ops/also.ts). */
  readonly also?: readonly Tensor[];
  /** Sources that the kernel writes too. */
  readonly alsoWrites?: readonly Tensor[];
  /** Scratch bytes a thread needs. */
  readonly scratch?: number;
  /** What was chosen and why, for explain(). */
  readonly how?: string;
}

/** Sizes that the kernels know. */
export type KernelFacts = Pick<Kernels, 'act_row_size' | 'attention_scratch' | 'mul_mat_packed_scratch' | 'packed_act_type' | 'packed_loop' | 'quantize_work_size'>;

/** A node the lowering adds: contiguous, by default of its model's shape, which follows the batch where the model does. */
export const temporary = (name: string, type: TypeTraits, like: Tensor, ne: Ne = like.ne, batch = ne === like.ne ? like.batch : undefined): Tensor => ({ ...leaf(name, type, ne, batch), op: 'view', nb: contiguousNb(type, ne) });
