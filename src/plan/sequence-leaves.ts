/**
 * Leaves of a model's graph that a sequence fills: keys and values, recurrent states; and the
 * tables of angles.
 */
import type { CacheHolds, GraphContext, KvCache } from '../arch/architecture.ts';
import type { HParams } from '../arch/hparams.ts';
import type { RopeParams } from '../arch/rope-table.ts';
import { QuantletError } from '../errors.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { paddedHeadDim, type CacheRotation, type KvType } from '../graph/attention-ops.ts';
import { powerOfTwo } from '../graph/fwht-size.ts';
import { leaf, type Tensor } from '../graph/tensor.ts';
import { TYPE } from '../type-traits.ts';
import type { ModelPlanOptions } from './plan-options.ts';

/**
 * Angles for one set of parameters, and the tensor of frequency factors that goes into them, if
 * there is one.
 */
export interface RopeTable {
  readonly params: RopeParams;
  readonly factors: TensorInfo | undefined;
  /** One in each memory where angles are read. */
  readonly tensors: readonly Tensor[];
}

/** Each cache, state and table is made when an architecture first asks for it. */
export class SequenceLeaves {
  readonly caches = new Map<string, KvCache>();
  readonly states = new Map<string, Tensor>();
  readonly tables: (Omit<RopeTable, 'tensors'> & { readonly tensor: Tensor })[] = [];

  private readonly hparams: HParams;
  private readonly options: ModelPlanOptions;
  /** Cells of a slot: the longest sequence. */
  private readonly slotCells: number;

  constructor(hparams: HParams, options: ModelPlanOptions, slotCells: number) {
    this.hparams = hparams;
    this.options = options;
    this.slotCells = slotCells;
  }

  /** @see GraphContext.cache */
  cache(layer: number, headDim: number, valueDim: number, holds: CacheHolds): KvCache {
    const { cacheTypeK, cacheTypeV, parallel } = this.options;
    const { nHeadKv, rotations } = this.hparams;
    // An encoder reads keys and values only in the step and layer that wrote them, so one cache
    // serves all its layers.
    const name = holds === 'step' ? holds : `${holds}.${layer}`;
    const tensor = (of: string, type: KvType, dims: number): Tensor =>
      leaf(`cache_${of}.${name}`, TYPE[type], [paddedHeadDim(type, dims), this.slotCells * parallel, nHeadKv, 1]);
    const cache = this.caches.get(name) ?? {
      k: tensor('k', cacheTypeK, headDim),
      v: tensor('v', cacheTypeV, valueDim),
      rotation: rotationOf(headDim, valueDim, rotations.queries, this.options),
      holds,
    };
    this.caches.set(name, cache);
    return cache;
  }

  /**
   * @see GraphContext.states
   * @param runs input that says which cells a step continues from
   */
  state(name: string, ne: readonly [number, number, number], runs: Tensor): ReturnType<GraphContext['states']> {
    const { causal, arch } = this.hparams;
    if (!causal)
      throw new QuantletError(
        'ERR_UNSUPPORTED_ARCH',
        `this ${arch} model has recurrent layers in both directions (${arch}.attention.causal is false), which quantlet does not run yet`,
      );
    const { stateCells, parallel } = this.options;
    const tensor = this.states.get(name) ?? leaf(`states of ${name}`, TYPE.f32, [ne[0], ne[1], ne[2], stateCells * parallel]);
    this.states.set(name, tensor);
    return { from: tensor, to: tensor, runs };
  }

  /** @see GraphContext.ropeTable */
  ropeTable(params: RopeParams, factors: TensorInfo | undefined): Tensor {
    const { nDims } = params;
    if (nDims % 2 !== 0)
      throw new QuantletError(
        'ERR_GGUF_INVALID',
        `${this.hparams.arch}.rope.dimension_count (or the head) is ${nDims}; expected an even number, because rope rotates pairs`,
      );
    const found = this.tables.find((t) => t.params === params && t.factors === factors);
    if (found) return found.tensor;
    if (factors && (factors.type !== TYPE.f32 || factors.ne[0] !== nDims / 2))
      throw new QuantletError(
        'ERR_TENSOR_SHAPE',
        `tensor "${factors.name}" is ${factors.type.name} [${factors.ne.join(', ')}]; expected f32 [${nDims / 2}], a factor for each pair`,
      );
    const tensor = leaf('rope angles', TYPE.f32, [nDims, this.slotCells, 1, 1]);
    this.tables.push({ params, factors, tensor });
    return tensor;
  }
}

/**
 * Rotation of a cache before it is quantised, as llama.cpp does it: caches of block types whose
 * heads have a multiple of 64 dimensions. Keys are rotated in the largest parts that are a power of
 * two, values in parts of 64. Keys are always rotated if the model says so (R3), in parts of
 * `always`.
 */
function rotationOf(
  keyDim: number,
  valueDim: number,
  always: number,
  { cacheTypeK, cacheTypeV, cacheRotation }: ModelPlanOptions,
): CacheRotation {
  const rotated = (type: KvType, dim: number, n: number): number => (cacheRotation && dim % 64 === 0 && TYPE[type].blckSize > 1 ? n : 0);
  return { k: keyDim % always === 0 ? always : rotated(cacheTypeK, keyDim, powerOfTwo(keyDim)), v: rotated(cacheTypeV, valueDim, 64) };
}
