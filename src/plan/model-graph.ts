/**
 * A model as a graph of ops over its leaves: weights, caches, states, tables of angles and the
 * inputs of a step. No tensor has an address yet.
 */
import type { Architecture, GraphContext, GraphInputs, ImageInputs } from '../arch/architecture.ts';
import { HEAD_ROWS } from '../arch/blocks.ts';
import type { HParams } from '../arch/hparams.ts';
import { QuantletError } from '../errors.ts';
import { alignUp } from '../align.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { withInputSums, withKeptInputs } from '../graph/input-sums.ts';
import { KV_SPLIT, RUN_WORDS } from '../graph/layout.ts';
import { cast, get_rows } from '../graph/ops.ts';
import { packWeights } from '../graph/packing.ts';
import { expand } from '../graph/plan.ts';
import { leaf, type BatchCount, type Tensor } from '../graph/tensor.ts';
import { TYPE } from '../type-traits.ts';
import type { ModelPlanOptions } from './plan-options.ts';
import { SequenceLeaves } from './sequence-leaves.ts';
import { WeightLeaves } from './weight-leaves.ts';

export type ModelGraph = ReturnType<typeof buildModelGraph>;

/**
 * Builds the graph. Afterwards it is known how each weight lies in memory (packed or plain).
 * @param fromFile tables that stay in the file: the rows of each step's tokens are read from there
 * @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE, ERR_UNSUPPORTED_TYPE
 */
export function buildModelGraph(
  gguf: GGUF,
  architecture: Architecture,
  hparams: HParams,
  options: ModelPlanOptions,
  fromFile: ReadonlySet<TensorInfo> = new Set(),
) {
  const { contextLength, wants } = options;
  const slotCells = alignUp(contextLength, KV_SPLIT);
  const batchSize = Math.min(options.batchSize, slotCells);
  const maxOutputs = Math.min(Math.max(options.maxOutputs, options.parallel), batchSize);

  const weights = new WeightLeaves(gguf, architecture.name, options.loras);
  const sequence = new SequenceLeaves(hparams, options, slotCells);
  const inputs = createInputs(batchSize, maxOutputs);
  const images = options.imageWidth > 0 ? createImageInputs(batchSize, options.imageWidth) : undefined;
  const lookUps = new TokenRowLookUps(weights, inputs, batchSize, fromFile);
  const roots: Tensor[] = [];
  const { has, shapeOf, weight, optional, rowsOf, loras } = weights;
  const context: GraphContext = {
    gguf,
    inputs,
    images,
    wants,
    contextLength,
    unifiedMax: options.unifiedMax,
    neuronsFromFile: options.neuronsFromFile,
    attnHeads: options.attnHeads,
    has,
    shapeOf,
    weight,
    optional,
    rowsOf,
    loras,
    cache: (layer, headDim = hparams.headDim, valueDim = headDim, holds = hparams.causal ? 'sequence' : 'step') =>
      sequence.cache(layer, headDim, valueDim, holds),
    states: (name, ne) => sequence.state(name, ne, inputs.runs),
    ropeTable: (params, factors) => sequence.ropeTable(params, factors === undefined ? undefined : weights.find(factors)),
    tokenRows: (table) => lookUps.rowsOf(table),
    expand: (...nodes) => void roots.push(...nodes),
  };
  architecture.encode?.(hparams, context);
  const encoder = expand(roots.splice(0));
  const result = architecture.build(hparams, context);
  weights.mustUseAdapters();
  mustAllowAttnHeads(options, architecture.name, sequence, weights);

  const isMeasured = (named: ((name: string) => boolean) | undefined) => (name: string) =>
    gguf.tensors.has(name) && (named?.(name) ?? false);
  const measured = withInputSums(expand([...roots, result]), isMeasured(options.inputSums));
  const kept = withKeptInputs(measured.nodes, isMeasured(options.keptInputs));
  const all = [...encoder, ...kept.nodes];
  packWeights(all, options.fastWeights);
  return {
    slotCells,
    batchSize,
    maxOutputs,
    inputs: { ...inputs, ...images },
    weights: weights.leaves,
    tables: sequence.tables,
    states: sequence.states,
    caches: [...sequence.caches.values()],
    encoder,
    nodes: kept.nodes,
    result,
    inputSums: measured.sums,
    keptInputs: kept.inputs,
    tokenRows: lookUps.fromFile,
    tablesOfRows: lookUps.tablesReadByRow(all),
    unusedTensors: wants === 'logits' ? weights.unused(hparams) : [],
  };
}

function createInputs(batchSize: number, maxOutputs: number): GraphInputs {
  const input = (name: string, by: BatchCount, n: number): Tensor => leaf(name, TYPE.i32, [n, 1, 1, 1], { dim: 0, by });
  return {
    ids: input('ids', 'tokens', batchSize),
    pos: input('pos', 'tokens', batchSize),
    cells: input('cells', 'tokens', batchSize),
    first: input('first', 'tokens', batchSize),
    visible: input('visible', 'tokens', batchSize),
    encoded: input('encoded', 'tokens', batchSize),
    outputs: input('outputs', 'outputs', maxOutputs),
    others: input('others', 'others', batchSize),
    runs: leaf('runs', TYPE.i32, [RUN_WORDS, batchSize, 1, 1]),
  };
}

function createImageInputs(batchSize: number, width: number): ImageInputs {
  const input = (name: string): Tensor => leaf(name, TYPE.i32, [batchSize, 1, 1, 1], { dim: 0, by: 'tokens' });
  const floats = (name: string, ne0: number): Tensor => leaf(name, TYPE.f32, [ne0, batchSize, 1, 1], { dim: 1, by: 'tokens' });
  return {
    rows: floats('images', width),
    isText: floats('is text', 1),
    height: input('height'),
    width: input('width'),
    extra: input('extra'),
    order: input('order'),
    far: input('far'),
    causal: input('causal'),
  };
}

/**
 * Look-ups of a row per token: in memory by get_rows, or as an input that the host reads from the
 * file.
 */
class TokenRowLookUps {
  /** For each table that stays in the file: the rows of a step's tokens. */
  readonly fromFile = new Map<TensorInfo, Tensor>();

  private readonly weights: WeightLeaves;
  private readonly inputs: GraphInputs;
  private readonly batchSize: number;
  private readonly tables: ReadonlySet<TensorInfo>;
  private readonly inMemory = new Set<Tensor>();

  constructor(weights: WeightLeaves, inputs: GraphInputs, batchSize: number, tables: ReadonlySet<TensorInfo>) {
    this.weights = weights;
    this.inputs = inputs;
    this.batchSize = batchSize;
    this.tables = tables;
  }

  /** @see GraphContext.tokenRows */
  rowsOf(table: Tensor): Tensor {
    const info = this.weights.infoOf(table);
    if (!this.tables.has(info)) {
      const rows = get_rows(table, this.inputs.ids);
      this.inMemory.add(rows);
      return rows;
    }
    const rows =
      this.fromFile.get(info) ?? leaf(`rows of ${info.name}`, info.type, [info.ne[0], this.batchSize, 1, 1], { dim: 1, by: 'tokens' });
    this.fromFile.set(info, rows);
    return cast(rows, 'f32');
  }

  /**
   * Tables that only look-ups of rows read. Tables with no more rows than a step has tokens are
   * left out, because a step could read all of them.
   */
  tablesReadByRow(nodes: readonly Tensor[]): Set<TensorInfo> {
    const readOtherwise = new Set(nodes.flatMap((t) => (this.inMemory.has(t) ? [] : t.src)));
    const tables = new Set([...this.inMemory].map(({ src }) => src[0]).filter((table) => !readOtherwise.has(table)));
    return new Set([...this.weights.leaves].flatMap(([info, t]) => (tables.has(t) && info.ne[1] > this.batchSize ? [info] : [])));
  }
}

/** @throws ERR_INVALID_ARGUMENT if attnHeads is set and the model cannot leave heads out */
function mustAllowAttnHeads(
  { attnHeads }: ModelPlanOptions,
  architecture: string,
  { states }: SequenceLeaves,
  { leaves }: WeightLeaves,
): void {
  if (attnHeads === undefined) return;
  if (states.size > 0)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `attnHeads is ${attnHeads}, and this ${architecture} model has recurrent layers, where generated tokens may be computed again as a prompt; leave it out`,
    );
  if (![...leaves.keys()].some(({ name }) => name.endsWith(HEAD_ROWS)))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `attnHeads is ${attnHeads}, and no layer of this ${architecture} model has rows of heads (attn_output_t); leave it out, or give a file made by quantlet sparsify --heads`,
    );
}
