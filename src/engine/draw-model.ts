/** A model as a graph of ops, with the leaves that it reads: weights, caches, states, tables of angles, and what a step is told. Nothing has a place yet. */
import type { Architecture, GraphContext, GraphInputs, KvCache, Wants } from '../arch/architecture.ts';
import { HEAD_ROWS } from '../arch/blocks.ts';
import type { HParams } from '../arch/hparams.ts';
import type { RopeParams } from '../arch/rope-table.ts';
import { QuantletError } from '../errors.ts';
import { getCount } from '../gguf/metadata.ts';
import { alignUp, type GGUF, type TensorInfo } from '../gguf/types.ts';
import { paddedHeadDim, type CacheRotation, type KvType } from '../graph/attention-ops.ts';
import { powerOfTwo } from '../graph/fwht-size.ts';
import { withInputSums, withKeptInputs } from '../graph/input-sums.ts';
import { KV_SPLIT } from '../graph/layout.ts';
import { packWeights } from '../graph/packing.ts';
import { expand } from '../graph/plan.ts';
import { RUN_WORDS } from '../graph/recurrent.ts';
import { leaf, type BatchCount, type Ne, type Tensor } from '../graph/tensor.ts';
import { cast, get_rows } from '../graph/ops.ts';
import type { Loras } from './lora.ts';
import { TYPE } from '../type-traits.ts';

export interface ModelPlanOptions {
  /** Bytes of weights at most that are in memory. */
  readonly weightsMemory: number;
  /** Whether tables of which a step reads a row a token stay in the file. (They do where weightsMemory is less than all weights.) */
  readonly rowsFromFile: boolean;
  /** Whether rows of neurons stay in the file. */
  readonly neuronsFromFile: boolean;
  /** Threads that read weights while others compute. */
  readonly readers: number;
  /** Memories at most. */
  readonly links: number;
  readonly wants: Wants;
  readonly contextLength: number;
  /** Sequences at once. */
  readonly parallel: number;
  /** Cells for recurrent states that each of them has. */
  readonly stateCells: number;
  /** Tokens and outputs of one step at most. */
  readonly batchSize: number;
  readonly maxOutputs: number;
  readonly threads: number;
  readonly cacheTypeK: KvType;
  readonly cacheTypeV: KvType;
  /** Whether quantised caches are rotated. */
  readonly cacheRotation: boolean;
  /** Whether weights of IQ1 to IQ3 and TQ1_0 are packed as the faster type that theirs names (type-traits.ts). */
  readonly fastWeights: boolean;
  /** Bits that packed products round activations to. */
  readonly actBits: 4 | 8;
  readonly unifiedMax?: number | undefined;
  /** The share of attention's heads that outputs are computed with. */
  readonly attnHeads?: number | undefined;
  readonly loras: Loras;
  /** Which matrices' inputs are measured, by their names. */
  readonly inputSums: ((matrix: string) => boolean) | undefined;
  /** Of which weights the inputs are kept, likewise. */
  readonly keptInputs: ((weight: string) => boolean) | undefined;
}

/** The angles for one set of parameters, and the tensor of frequency factors that go into them, if any. */
export interface RopeTable {
  readonly params: RopeParams;
  readonly factors: TensorInfo | undefined;
  /** One in each memory where angles are read. */
  readonly tensors: readonly Tensor[];
}

/**
 * What planModel() begins with: the graph, in which it is known how each weight lies in memory.
 * @param fromFile tables whose rows come with every step: they have no place in memory
 * @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE, ERR_UNSUPPORTED_TYPE
 */
export function drawModel(
  gguf: GGUF,
  architecture: Architecture,
  hparams: HParams,
  options: ModelPlanOptions,
  fromFile: ReadonlySet<TensorInfo> = new Set(),
) {
  const { contextLength, wants } = options;
  const slotCells = alignUp(contextLength, KV_SPLIT);
  const cells = slotCells * options.parallel;
  const batchSize = Math.min(options.batchSize, slotCells);
  const maxOutputs = Math.min(Math.max(options.maxOutputs, options.parallel), batchSize);

  const weights = new Map<TensorInfo, Tensor>();
  const known = new Set<string>();
  const adapted = new Set<string>();
  const cacheOf = new Map<string, KvCache>();
  const tables: (Omit<RopeTable, 'tensors'> & { readonly tensor: Tensor })[] = [];
  const roots: Tensor[] = [];
  const input = (name: string, by: BatchCount, n: number): Tensor => leaf(name, TYPE.i32, [n, 1, 1, 1], { dim: 0, by });
  const inputs: GraphInputs = {
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
  const states = new Map<string, Tensor>();
  const tokenRows = new Map<TensorInfo, Tensor>();
  const lookUps = new Set<Tensor>();
  const weightOf = (info: TensorInfo): Tensor => {
    const tensor = weights.get(info) ?? leaf(info.name, info.type, info.ne as Ne);
    weights.set(info, tensor);
    return tensor;
  };
  const slices = new Map<string, TensorInfo>();
  const rowsOf = (name: string, from: number, ne: readonly number[]): Tensor | undefined => {
    known.add(name);
    const info = gguf.tensors.get(name);
    if (!info) return undefined;
    const rows = ne.length - 1;
    if (info.nDims !== ne.length || ne.some((n, i) => (i === rows ? from + n > info.ne[i] : n !== info.ne[i])))
      throw new QuantletError(
        'ERR_TENSOR_SHAPE',
        `tensor "${name}" is [${info.ne.join(', ')}], but the metadata asks for [${ne.join(', ')}] from ${from} on: the file is damaged`,
      );
    const key = `${name} from ${from}`;
    const bytes = info.byteLength / info.ne[rows];
    const slice = slices.get(key) ?? {
      ...info,
      name: key,
      ne: [...ne, 1, 1, 1].slice(0, 4) as unknown as Ne,
      offset: info.offset + from * bytes,
      byteLength: ne[rows] * bytes,
    };
    slices.set(key, slice);
    return weightOf(slice);
  };
  const optional = (name: string, ne: readonly number[]): Tensor | undefined => {
    known.add(name);
    const info = gguf.tensors.get(name);
    if (!info) return undefined;
    const want = [...ne, 1, 1, 1].slice(0, 4);
    if (want.some((n, i) => n !== info.ne[i])) {
      throw new QuantletError(
        'ERR_TENSOR_SHAPE',
        `tensor "${name}" is [${info.ne.join(', ')}], but the metadata asks for [${want.join(', ')}]: the file is damaged or of another variant of the architecture`,
      );
    }
    return weightOf(info);
  };

  const context: GraphContext = {
    gguf,
    inputs,
    wants,
    contextLength,
    unifiedMax: options.unifiedMax,
    neuronsFromFile: options.neuronsFromFile,
    attnHeads: options.attnHeads,
    optional,
    rowsOf,
    has: (name) => known.add(name) && gguf.tensors.has(name),
    shapeOf: (name) => known.add(name) && gguf.tensors.get(name)?.ne,
    weight(name, ne) {
      const tensor = optional(name, ne);
      if (!tensor)
        throw new QuantletError(
          'ERR_MISSING_TENSOR',
          `the file has no tensor "${name}", which ${architecture.name} models need; it is incomplete or of another architecture`,
        );
      return tensor;
    },
    loras(name) {
      adapted.add(name);
      return (options.loras.get(name) ?? []).map(({ a, b, scale }) => ({ a: weightOf(a), b: weightOf(b), scale }));
    },
    cache(layer, headDim = hparams.headDim, valueDim = headDim, holds = hparams.causal ? 'sequence' : 'step') {
      // An encoder reads keys and values only in the step and layer that wrote them, so one cache serves all its layers.
      const name = holds === 'step' ? holds : `${holds}.${layer}`;
      const tensor = (of: string, type: KvType, dims: number): Tensor =>
        leaf(`cache_${of}.${name}`, TYPE[type], [paddedHeadDim(type, dims), cells, hparams.nHeadKv, 1]);
      const cache = cacheOf.get(name) ?? {
        k: tensor('k', options.cacheTypeK, headDim),
        v: tensor('v', options.cacheTypeV, valueDim),
        rotation: rotationOf(headDim, valueDim, hparams.rotations.queries, options),
        holds,
      };
      cacheOf.set(name, cache);
      return cache;
    },
    states(name, ne) {
      if (!hparams.causal)
        throw new QuantletError(
          'ERR_UNSUPPORTED_ARCH',
          `this ${hparams.arch} model has recurrent layers that look both ways (${hparams.arch}.attention.causal is false), which quantlet does not run yet`,
        );
      const tensor = states.get(name) ?? leaf(`states of ${name}`, TYPE.f32, [ne[0], ne[1], ne[2], options.stateCells * options.parallel]);
      states.set(name, tensor);
      return { from: tensor, to: tensor, runs: inputs.runs };
    },
    tokenRows(table) {
      const info = [...weights].find(([, tensor]) => tensor === table)![0];
      if (!fromFile.has(info)) {
        const rows = get_rows(table, inputs.ids);
        lookUps.add(rows);
        return rows;
      }
      const rows = tokenRows.get(info) ?? leaf(`rows of ${info.name}`, info.type, [info.ne[0], batchSize, 1, 1], { dim: 1, by: 'tokens' });
      tokenRows.set(info, rows);
      return cast(rows, 'f32');
    },
    ropeTable(params, factorsName) {
      if (params.nDims % 2 !== 0)
        throw new QuantletError(
          'ERR_GGUF_INVALID',
          `rope rotates pairs, but ${hparams.arch}.rope.dimension_count (or the head) is ${params.nDims}; expected an even number`,
        );
      if (factorsName !== undefined) known.add(factorsName);
      const factors = factorsName === undefined ? undefined : gguf.tensors.get(factorsName);
      const found = tables.find((t) => t.params === params && t.factors === factors);
      if (found) return found.tensor;
      if (factors && (factors.type !== TYPE.f32 || factors.ne[0] !== params.nDims / 2)) {
        throw new QuantletError(
          'ERR_TENSOR_SHAPE',
          `tensor "${factors.name}" is ${factors.type.name} [${factors.ne.join(', ')}]; expected f32 [${params.nDims / 2}], a factor for each pair`,
        );
      }
      const tensor = leaf('rope angles', TYPE.f32, [params.nDims, slotCells, 1, 1]);
      tables.push({ params, factors, tensor });
      return tensor;
    },
    expand: (...nodes) => void roots.push(...nodes),
  };
  architecture.encode?.(hparams, context);
  const encoder = expand(roots.splice(0));
  const result = architecture.build(hparams, context);

  const idle = [...options.loras.keys()].find((name) => !adapted.has(name));
  if (idle !== undefined)
    throw new QuantletError(
      'ERR_ADAPTER',
      `an adapter adapts "${idle}", which no product here uses; expected matrices of the ${architecture.name} layers`,
    );

  if (options.attnHeads !== undefined && states.size > 0)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `attnHeads is ${options.attnHeads}, and this ${architecture.name} model has recurrent layers, for which generated tokens may be computed again as a prompt's; leave it out`,
    );
  if (options.attnHeads !== undefined && ![...weights.keys()].some(({ name }) => name.endsWith(HEAD_ROWS)))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `attnHeads is ${options.attnHeads}, and no layer of this ${architecture.name} model has rows of heads (attn_output_t) that could be left out; leave it out, or give a file that quantlet sparsify --heads made`,
    );

  const caches = [...cacheOf.values()];
  const { nodes: measured, sums: inputSums } = withInputSums(
    expand([...roots, result]),
    (name) => gguf.tensors.has(name) && (options.inputSums?.(name) ?? false),
  );
  const { nodes, inputs: keptInputs } = withKeptInputs(measured, (name) => gguf.tensors.has(name) && (options.keptInputs?.(name) ?? false));
  packWeights([...encoder, ...nodes], options.fastWeights);
  // A step of as many tokens as a table has rows would read all of it.
  const readOtherwise = new Set([...encoder, ...nodes].flatMap((t) => (lookUps.has(t) ? [] : t.src)));
  const lookedUp = new Set([...lookUps].map(({ src }) => src[0]).filter((table) => !readOtherwise.has(table)));
  const tablesOfRows = new Set([...weights].flatMap(([info, tensor]) => (lookedUp.has(tensor) && info.ne[1] > batchSize ? [info] : [])));
  return {
    slotCells,
    batchSize,
    maxOutputs,
    inputs,
    weights,
    tables,
    states,
    caches,
    encoder,
    nodes,
    result,
    inputSums,
    keptInputs,
    tokenRows,
    tablesOfRows,
    unusedTensors: wants === 'logits' ? unusedOf(gguf, hparams, known) : [],
  };
}

/** Keys and values of layers that read those of an earlier layer, and the rope factors for another context: files have them all the same. */
const LEFT_OUT = /\.attn_(?:k|v|k_norm)\.weight$|^rope_factors_(?:long|short)\.weight$/;

/** Tensors that an architecture never asks for. Layers after its own predict further tokens (MTP): they are left out knowingly. */
function unusedOf(gguf: GGUF, { arch, nLayer }: HParams, known: ReadonlySet<string>): string[] {
  const sharing = nLayer - getCount(gguf, `${arch}.attention.shared_kv_layers`, 0);
  const isLeftOut = (name: string): boolean => {
    const il = Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? Infinity);
    // Rows of heads are read with attnHeads alone.
    return name.endsWith(HEAD_ROWS) || (Number.isFinite(il) && il >= nLayer) || (il >= sharing && LEFT_OUT.test(name));
  };
  return [...gguf.tensors.keys()].filter((name) => !known.has(name) && !isLeftOut(name));
}

export type DrawnModel = ReturnType<typeof drawModel>;

/**
 * As llama.cpp rotates its caches: those of block types, where 64 divides their heads' dimensions; keys in the largest parts that are a power of two, values
 * in parts of 64. Keys always where the model says so (R3), in parts of `always`.
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
