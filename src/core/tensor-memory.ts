/** Memory of a tensor engine: the addresses of tensors, and checks of their use. */
import { QuantletError, tell } from '../errors.ts';
import { canPack, packedBytes } from '../graph/packing.ts';
import { isTensor } from '../graph/operands.ts';
import { baseOf, fourDims, isContiguous, leaf, nbytes, refuse, shape, type Tensor } from '../graph/tensor.ts';
import type { TypeTraits } from '../type-traits.ts';
import { createAllocator, type Allocator } from '../wasm/allocator.ts';
import { mebibytes } from '../wasm/memory.ts';

/** Reason why only products read a packed matrix. */
export const PACKED =
  'is packed; only mul_mat and get_rows read it (mul_mat_id where there are several matrices), and none of them for activations of MX or f32 precision';

export class TensorMemory {
  readonly buffer: ArrayBufferLike;
  /** Set by dispose(): everything throws ERR_DISPOSED from then on. */
  disposed = false;
  /** Addresses of the results of each plan, in the order in which the plans were made. */
  readonly results = new Set<ReadonlyMap<Tensor, number>>();

  private readonly arena: Allocator;
  /** Bytes of the tensors that were made here and not freed. */
  private readonly sizes = new Map<Tensor, number>();
  /** Constants of graphs. Each lies in memory once, for all plans that read it. */
  private readonly constants = new Map<Tensor, { readonly at: number; plans: number }>();
  /** Marks tensors of this engine. */
  private readonly owner = {};

  /** @param from first address for tensors and plans, `to` the end of the memory */
  constructor(buffer: ArrayBufferLike, from: number, to: number) {
    this.buffer = buffer;
    this.arena = createAllocator(from, to);
  }

  get freeBytes(): number {
    return this.arena.freeBytes;
  }

  /** @throws ERR_DISPOSED */
  mustLive(what: string): void {
    if (this.disposed) throw new QuantletError('ERR_DISPOSED', `${what}: the engine was disposed of; create another`);
  }

  /** The address of `n` free bytes. @throws ERR_OUT_OF_MEMORY */
  take(n: number, what: string): number {
    if (!this.arena.fits(n))
      throw new QuantletError(
        'ERR_OUT_OF_MEMORY',
        `${what} needs ${mebibytes(n)}, and the engine has ${mebibytes(this.freeBytes)} left; create it with more memoryBytes, or free tensors and plans`,
      );
    return this.arena.take(n);
  }

  give(at: number, n: number): void {
    this.arena.give(at, n);
  }

  bytes(at: number, n?: number): Uint8Array {
    return new Uint8Array(this.buffer, at, n);
  }

  /**
   * A new tensor. Its memory still has what was there before.
   * @throws ERR_TENSOR_SHAPE, ERR_OUT_OF_MEMORY
   */
  allocate<T extends string>(traits: TypeTraits<T>, ne: readonly number[], name: string): Tensor<T> {
    const dims = fourDims('tensor', ne);
    const t = leaf(name, traits, dims, undefined, this.owner);
    if (dims[0] % traits.blckSize !== 0) refuse('tensor', `ne0 must be a multiple of the block of ${traits.blckSize}`, t);
    // Quantised matrices are mostly packed sooner or later, so they get the room for that at once.
    const n = traits.blckSize > 1 && canPack(t) ? packedBytes(t) : nbytes(t);
    t.data = this.take(n, `the tensor ${shape(t)}`);
    this.sizes.set(t, n);
    return t;
  }

  /** All bytes allocated for a tensor, which may be more than its elements take. */
  allocated(t: Tensor): Uint8Array {
    return this.bytes(t.data, this.sizes.get(t));
  }

  free(t: Tensor): void {
    this.give(t.data, this.sizes.get(t)!);
    this.sizes.delete(t);
  }

  /** Moves a tensor to memory that was taken for it. */
  move(t: Tensor, to: number, n: number): void {
    if (to === t.data) return;
    this.free(t);
    t.data = to;
    this.sizes.set(t, n);
  }

  /**
   * @throws ERR_INVALID_ARGUMENT for anything but a tensor of this engine, and for a view of a
   * freed one
   */
  mustOwn(what: string, t: Tensor): void {
    if (!isTensor(t)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: expected a tensor, got ${tell(t)}`);
    if (t.owner !== undefined && t.owner !== this.owner)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: ${shape(t)} belongs to another engine; read it there and write it here`);
    const base = baseOf(t);
    if (base.op === 'leaf' && !base.values && !this.sizes.has(base))
      throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: ${shape(base)} was freed`);
  }

  /**
   * Bytes of a tensor, of a result in the newest plan that has it, or of a view.
   * @throws as mustLive, mustOwn and addressOf
   */
  bytesOf(what: string, t: Tensor): Uint8Array {
    this.mustLive(what);
    this.mustOwn(what, t);
    const values = baseOf(t).values?.();
    return values ? values.subarray(t.viewOffset, t.viewOffset + nbytes(t)) : this.bytes(this.addressOf(what, t), nbytes(t));
  }

  /**
   * Elements of a contiguous i32 leaf if they can be read now, else undefined. For explain(), which
   * must not throw.
   */
  intsOf(t: Tensor): Int32Array | undefined {
    const base = baseOf(t);
    if (base.op !== 'leaf' || !isContiguous(t) || (!base.values && (this.disposed || !this.sizes.has(base)))) return undefined;
    const bytes = base.values?.() ?? this.bytes(base.data, nbytes(base));
    return new Int32Array(bytes.slice(t.viewOffset, t.viewOffset + nbytes(t)).buffer);
  }

  /**
   * Allocates the constants of a plan; constants that other plans allocated are shared.
   * @throws ERR_OUT_OF_MEMORY, after which none is allocated
   */
  allocateConstants(constants: readonly Tensor[]): void {
    const allocated: Tensor[] = [];
    try {
      for (const c of constants) {
        this.allocateConstant(c);
        allocated.push(c);
      }
    } catch (error) {
      this.dropConstants(allocated);
      throw error;
    }
  }

  /** Undoes allocateConstants(): the last plan to drop a constant frees it. */
  dropConstants(constants: readonly Tensor[]): void {
    for (const c of constants) {
      const known = this.constants.get(c)!;
      if (--known.plans > 0) continue;
      this.give(known.at, nbytes(c));
      this.constants.delete(c);
    }
  }

  private allocateConstant(c: Tensor): void {
    let known = this.constants.get(c);
    if (!known) {
      const at = this.take(nbytes(c), `the constant ${shape(c)}`);
      this.bytes(at, nbytes(c)).set(c.values!());
      known = { at, plans: 0 };
      this.constants.set(c, known);
    }
    known.plans++;
    c.data = known.at;
  }

  /**
   * @throws ERR_TENSOR_SHAPE for a packed matrix, ERR_INVALID_ARGUMENT for an intermediate tensor
   * that no plan keeps
   */
  private addressOf(what: string, t: Tensor): number {
    const base = baseOf(t);
    if (base.layout === 'packed') refuse(what, PACKED, base);
    if (base.op === 'leaf') return base.data + t.viewOffset;
    const at = [...this.results].findLast((results) => results.has(base))?.get(base);
    if (at === undefined)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `${what}: ${shape(t)} is an intermediate tensor or its plan was disposed of; name it in plan() to keep it`,
      );
    return at + t.viewOffset;
  }
}
