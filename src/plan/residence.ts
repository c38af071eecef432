/** Weights that stay in memory, and weights that are read again for every step. */
import type { HParams } from '../arch/hparams.ts';
import { QuantletError } from '../errors.ts';
import type { Tensor } from '../graph/tensor.ts';
import { layerOf } from './links.ts';
import type { ModelGraph } from './model-graph.ts';
import { neuronsOf, type Neurons } from './neurons.ts';
import { bytesOf, roomFor } from './place-weights.ts';
import type { ModelPlanOptions } from './plan-options.ts';
import { streamedLayers, WINDOWS } from './windows.ts';

export class Residence {
  /** Layers whose weights are read again for every step. */
  readonly streamed: ReadonlySet<number>;
  /** Weights of which a step reads the rows of neurons that fire. */
  readonly neurons: readonly Neurons[];
  /** Bytes of the window that all layers share for rows of neurons. */
  readonly neuronBytes: number;
  /** Bytes of weights if as few as possible are in memory at a time. */
  readonly leastWeights: number;

  private readonly nLayer: number;
  private readonly weights: ReadonlySet<Tensor>;
  /**
   * Leaves that are small, or the same for all layers: several memories may have a copy. All
   * others, caches included, lie in one memory.
   */
  private readonly copied: ReadonlySet<Tensor>;
  private readonly neuronsOfLeaf: ReadonlyMap<Tensor, Neurons>;

  /**
   * @param weights leaves of weights, without those of which the host reads rows
   * @throws ERR_INVALID_ARGUMENT if neuronWindow is set and the model has no such neurons;
   * ERR_OUT_OF_MEMORY if weightsMemory is too small
   */
  constructor(graph: ModelGraph, weights: readonly Tensor[], { nLayer, arch }: HParams, options: ModelPlanOptions) {
    this.nLayer = nLayer;
    this.weights = new Set(weights);
    this.copied = new Set([
      ...Object.values(graph.inputs),
      ...graph.tables.map(({ tensor }) => tensor),
      ...weights.filter(({ ne }) => ne[1] === 1),
      ...graph.caches.flatMap(({ k, v, holds }) => (holds === 'step' ? [k, v] : [])),
    ]);
    this.neurons = options.neuronsFromFile ? neuronsOf(graph.nodes, this.weights) : [];
    if (options.neuronsFromFile && this.neurons.length === 0)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `neuronWindow needs layers that compute only the neurons that fire (ffn_down_t), and this ${arch} model has none; leave it out`,
      );
    this.neuronsOfLeaf = new Map(this.neurons.flatMap((of) => of.weights.map((w) => [w, of])));
    this.neuronBytes = Math.max(0, ...this.neurons.map((of) => roomFor(of.weights)));
    const inLayers: number[] = [];
    let others = options.links * this.neuronBytes;
    for (const l of this.weights) {
      if (this.isReadByRows(l)) continue;
      const il = this.copied.has(l) ? -1 : this.layerOf(l);
      if (il >= 0) inLayers[il] = (inLayers[il] ?? 0) + bytesOf(l);
      else others += bytesOf(l);
    }
    const layers = Array.from(inLayers, (bytes = 0) => bytes);
    this.leastWeights = others + WINDOWS * options.links * Math.max(0, ...layers);
    this.streamed = streamedLayers(layers, others, options.weightsMemory, options.links);
  }

  layerOf(l: Tensor): number {
    return layerOf(l, this.nLayer);
  }

  neuronsFor(l: Tensor): Neurons | undefined {
    return this.neuronsOfLeaf.get(l);
  }

  /** True if a step reads some of the leaf's rows into the window of neurons. */
  isReadByRows(l: Tensor): boolean {
    return this.neuronsOfLeaf.has(l);
  }

  /** True if the leaf is read again for every step, into the window of its layer. */
  isStreamed(l: Tensor): boolean {
    return this.weights.has(l) && !this.copied.has(l) && !this.isReadByRows(l) && this.streamed.has(this.layerOf(l));
  }

  /** True if the leaf has bytes of its own. */
  isResident(l: Tensor): boolean {
    return !this.isStreamed(l) && !this.isReadByRows(l);
  }

  /** True if the leaf lies in one memory, so everything that reads it is computed there. */
  hasOnePlace(l: Tensor): boolean {
    return !l.values && !this.copied.has(l);
  }
}
