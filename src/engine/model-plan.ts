/** A model's plans, and the address of everything in the memories, for one context length. Nothing is loaded yet. */
import { buildModelGraph, type ModelGraph } from './model-graph.ts';
import type { ModelPlanOptions } from './plan-options.ts';
import type { RopeTable } from './sequence-leaves.ts';
import type { Architecture, GraphInputs, KvCache } from '../arch/architecture.ts';
import type { HParams } from '../arch/hparams.ts';
import { QuantletError } from '../errors.ts';
import { alignUp, type GGUF, type TensorInfo } from '../gguf/types.ts';
import type { InputSumTensors } from '../graph/input-sums.ts';
import { SYNC_SIZE } from '../graph/layout.ts';
import { lower } from '../graph/lower.ts';
import { packedBytes, pieceRows, repackRecord } from '../graph/packing.ts';
import { createGraphPlan, placePlan, workBytes, type PlacedPlan, type GraphPlan } from '../graph/plan.ts';
import { leaf, nbytes, type Tensor } from '../graph/tensor.ts';
import { view } from '../graph/views.ts';
import { cutIntoLinks, layerOf, type Crossing, type Links } from './links.ts';
import type { MemoryParts } from './memory-use.ts';
import { streamedLayers, WINDOWS } from './windows.ts';
import { neuronsOf, type NeuronRows } from './neurons.ts';
import { rowSize, TYPE } from '../type-traits.ts';
import type { Isa } from '../packed-format.ts';
import { ALIGN, createAllocator, type Allocator } from '../wasm/allocator.ts';
import { ARENA_BASE, MEMORY_SPACE } from '../wasm/memory.ts';

/** A tensor of a file, and where it is in memory. */
export type Weight = readonly [TensorInfo, Tensor];

/** A plan and its place. */
export interface Placed {
  readonly plan: GraphPlan;
  readonly placed: PlacedPlan;
}

/** Weights of a layer that have to be read before its passes run, in the order of the files. Those with the same `window` lie in one place. */
export interface Streams {
  readonly window: number;
  readonly weights: readonly Weight[];
}

/** What is computed in one memory without a stop. */
export interface ModelPass extends Placed {
  readonly crossings: readonly Crossing[];
  readonly streams: Streams | undefined;
  /** Rows that are read before it runs. */
  readonly neurons: NeuronRows | undefined;
}

/** Matrices of a memory that are packed when they have been read, and what threads need that read and pack them. */
export interface PackedByThreads {
  readonly matrices: readonly Weight[];
  /** i32 [matrices]: after packing not 0 for those with an Inf or NaN among their scales. */
  readonly broken: Tensor;
  /** Address of the first thread's room for a piece of any of them (pieceRows); the next one's is scratchSize bytes further on. */
  readonly scratchAt: number;
  readonly scratchSize: number;
}

/** The same with a plan of one record for each matrix, for hosts that read by themselves. */
export interface Packing extends PackedByThreads, Placed {}

export interface ModelPlan {
  readonly contextLength: number;
  /** Cells of a slot: the context rounded up to whole KV splits. */
  readonly slotCells: number;
  readonly batchSize: number;
  readonly maxOutputs: number;
  /** Each in every memory where it is read. */
  readonly inputs: { readonly [K in keyof GraphInputs]: readonly Tensor[] };
  /** f32 [n_vocab or n_embd; n_outputs]. */
  readonly result: Tensor;
  readonly weights: readonly TensorInfo[];
  /** Those that stay in memory, each in every memory where it is read. */
  readonly resident: readonly Weight[];
  readonly tokenRows: readonly TokenRows[];
  readonly tables: readonly RopeTable[];
  /** Of those, the sums. */
  readonly inputSums: ReadonlyMap<string, InputSumTensors>;
  /** For each weight whose inputs are kept: what the last step's tokens gave it, f32 [ne0, tokens]. */
  readonly keptInputs: ReadonlyMap<string, Tensor>;
  /** One for each layer with attention, in order; one in all for an encoder, and one for each layer that looks back at what an encoder has read. */
  readonly caches: readonly KvCache[];
  /** States of recurrent layers, f32 [..., cells of all slots]. */
  readonly states: readonly Tensor[];
  /** What a step computes, in this order. */
  readonly passes: readonly ModelPass[];
  /** What a step of an encoder computes, where it reads prompts for a decoder. */
  readonly encoder: readonly ModelPass[];
  /** For each memory: runs once, record by record as weights are read. */
  readonly packings: readonly Packing[];
  /** Bytes of each memory, and what all of them are for. */
  readonly memories: readonly number[];
  readonly memory: MemoryParts;
  /** Bytes of weights at least, with as few as can be in memory at a time. */
  readonly leastWeights: number;
  /** Tensors of the file that no op reads; none where the model makes vectors, for which it needs less. */
  readonly unusedTensors: readonly string[];
  /** How its weights of IQ1 to IQ3 and TQ1_0 lie in memory (load-options.ts), where it has such. */
  readonly iqWeights: 'compact' | 'fast' | undefined;
}

/** A table of which a step reads a row a token, and where the host puts these rows. */
export interface TokenRows {
  readonly info: TensorInfo;
  /** In the table's type, [ne0, n_tokens]. */
  readonly tensors: readonly Tensor[];
}

const bytesOf = (l: Tensor): number => (l.layout === 'packed' ? packedBytes(l) : nbytes(l));

/** The first things in a memory: weights in the order of their files, and what `readers` threads need that read and pack them. */
export function placeWeights(memory: Allocator, resident: readonly Weight[], all: readonly Weight[], readers: number): PackedByThreads {
  for (const [, t] of inFileOrder(resident)) t.data = memory.take(bytesOf(t));
  const matrices = all.filter(([, t]) => t.layout === 'packed');
  const broken = leaf('broken matrices', TYPE.i32, [matrices.length, 1, 1, 1]);
  broken.data = memory.take(nbytes(broken));
  const scratchSize = alignUp(Math.max(0, ...matrices.map(([{ type }, m]) => pieceRows(m) * rowSize(type, m.ne[0]))), ALIGN);
  return { matrices, broken, scratchSize, scratchAt: memory.take(scratchSize * readers) };
}

/**
 * @param built the graph of the same model and options, if it exists already; weights that buildEarly() gave addresses keep them
 * @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE, ERR_UNSUPPORTED_TYPE
 */
export function planModel(
  gguf: GGUF,
  architecture: Architecture,
  hparams: HParams,
  isa: Isa,
  options: ModelPlanOptions,
  built?: ModelGraph,
): ModelPlan {
  const { contextLength, threads } = options;
  const whole = built ?? buildModelGraph(gguf, architecture, hparams, options);
  // Where not all weights may stay, tables are the first to go: a row of them a token is read, not all of it.
  const fewer = options.rowsFromFile || sum([...whole.weights.values()].map(bytesOf)) > options.weightsMemory;
  const graph = fewer && whole.tablesOfRows.size > 0 ? buildModelGraph(gguf, architecture, hparams, options, whole.tablesOfRows) : whole;
  const { slotCells, batchSize, maxOutputs, inputs, tables, states, caches, encoder, nodes, result, tokenRows } = graph;
  const weights = new Map([...graph.weights].filter(([info]) => !tokenRows.has(info)));
  // What is small, or the same for all layers, may be in several memories. Everything else has one place, caches among it.
  const copied = new Set([
    ...Object.values(inputs),
    ...tables.map(({ tensor }) => tensor),
    ...[...weights.values()].filter(({ ne }) => ne[1] === 1),
    ...caches.flatMap(({ k, v, holds }) => (holds === 'step' ? [k, v] : [])),
  ]);
  const inLayers: Tensor[][] = [];
  const layer = (l: Tensor): number => layerOf(l, hparams.nLayer);
  const weightLeaves = new Set(weights.values());
  const neurons = options.neuronsFromFile ? neuronsOf(nodes, weightLeaves) : [];
  if (options.neuronsFromFile && neurons.length === 0)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `neuronWindow is for models of which only the neurons that fire are computed (ffn_down_t), and this ${hparams.arch} model has no such layers; leave it out`,
    );
  const neuronsOfLeaf = new Map(neurons.flatMap((of) => of.weights.map((w) => [w, of])));
  const byRows = (l: Tensor): boolean => neuronsOfLeaf.has(l);
  const room = (all: readonly Tensor[]): number => sum(all.map((l) => alignUp(bytesOf(l), ALIGN)));
  const neuronBytes = Math.max(0, ...neurons.map((of) => room(of.weights)));
  for (const l of weightLeaves) if (!copied.has(l) && !byRows(l) && layer(l) >= 0) (inLayers[layer(l)] ??= []).push(l);
  const layers = Array.from(inLayers, (l = []) => sum(l.map(bytesOf)));
  const others = sum([...weightLeaves].map((l) => (byRows(l) ? 0 : bytesOf(l)))) - sum(layers) + options.links * neuronBytes;
  const leastWeights = others + WINDOWS * options.links * Math.max(0, ...layers);
  const streamed = streamedLayers(layers, others, options.weightsMemory, options.links);
  const streams = (l: Tensor): boolean => !copied.has(l) && !byRows(l) && streamed.has(layer(l)) && weightLeaves.has(l);
  const links = cutIntoLinks([encoder, nodes], {
    count: options.links,
    layerOf: layer,
    bytesOf: (l) => (streams(l) || byRows(l) ? 0 : bytesOf(l)),
    stays: (l) => !l.values && !copied.has(l),
    streams: (il) => streamed.has(il),
    neuronsOf: (l) => neuronsOfLeaf.get(l),
  });
  const tensorsOf = (l: Tensor): Tensor[] => (links.places.get(l) ?? []).map(({ tensor }) => tensor);
  const loaded = [...weights].flatMap(([info, l]) => tensorsOf(l).map((tensor) => [info, tensor] as const));

  const plans = links.passes.map(({ nodes, crossings }) =>
    createGraphPlan(lower(nodes, { isa, actBits: options.actBits }), [links.computed(result), ...crossings.map(({ from }) => from)]),
  );
  const memories = links.memories.map((leaves, link) => {
    const memory = createAllocator(link * MEMORY_SPACE + ARENA_BASE);
    memory.take(SYNC_SIZE);
    const inLink = plans.filter((_, i) => links.passes[i].link === link);
    const all = loaded.filter(([, t]) => leaves.has(t));
    const resident = all.filter(([, t]) => !streams(t) && !byRows(t));
    const byThreads = placeWeights(memory, resident, all, Math.max(threads, streamed.size > 0 ? options.readers : 0));
    const packing = createGraphPlan(
      byThreads.matrices.map(([{ type }, m], i) => repackRecord(m, view(byThreads.broken, [1], { offset: 4 * i }), type)),
    );
    const crossed = new Set(links.passes.flatMap(({ crossings }) => crossings.map(({ to }) => to)));
    const own = new Set([...leaves, ...inLink.flatMap(({ constants }) => constants)]);
    for (const [, t] of all) own.delete(t);
    for (const l of own) if (!crossed.has(l)) l.data = memory.take(bytesOf(l));
    takeCrossings(links, plans, link, memory);
    // One window is read while a pass computes with what the other has.
    const ofLayer = [
      ...new Set(links.passes.flatMap((pass) => (pass.link === link && pass.streams !== undefined ? [pass.streams] : []))),
    ].map((il) => ({ layer: il, weights: inFileOrder(loaded.filter(([, t]) => streams(t) && layer(t) === il)) }));
    const windowBytes = Math.max(0, ...ofLayer.map(({ weights }) => sum(weights.map(([, t]) => alignUp(bytesOf(t), ALIGN)))));
    const windows = ofLayer.slice(0, WINDOWS).map(() => memory.take(windowBytes));
    const streamsOf = new Map<number, Streams>();
    for (const [i, { layer, weights }] of ofLayer.entries()) {
      let at = windows[i % WINDOWS];
      for (const [, t] of weights) [t.data, at] = [at, at + alignUp(bytesOf(t), ALIGN)];
      streamsOf.set(layer, { window: link * WINDOWS + (i % WINDOWS), weights });
    }
    // All layers share a window of neurons: each pass puts there what it reads.
    const rows = [...leaves].filter(byRows);
    const neuronsAt = rows.length > 0 ? memory.take(neuronBytes) : 0;
    for (const { weights } of neurons) weights.filter((w) => leaves.has(w)).reduce((at, w) => (w.data = at) + room([w]), neuronsAt);
    // One plan runs at a time, so all work in the same place.
    const work = memory.take(Math.max(...[...inLink, packing].map((plan) => workBytes(plan, threads))));
    const place = (plan: GraphPlan): PlacedPlan => placePlan(plan, work, threads, memory.take(plan.byteLength));
    const placed = new Map(inLink.map((plan) => [plan, place(plan)]));
    return {
      placed,
      packing: { ...byThreads, plan: packing, placed: place(packing) },
      streamsOf,
      /** Of the weights, those that have no bytes of their own. */
      streamedBytes:
        sum([...ofLayer.flatMap(({ weights }) => weights.map(([, t]) => t)), ...rows].map(bytesOf)) -
        windowBytes * windows.length -
        (rows.length > 0 ? neuronBytes : 0),
      bytes: memory.end - link * MEMORY_SPACE,
    };
  });
  const passesOf = (graph: number): ModelPass[] =>
    links.passes.flatMap(({ link, crossings, streams, neurons, ...of }, i) =>
      of.graph === graph
        ? {
            plan: plans[i],
            placed: memories[link].placed.get(plans[i])!,
            crossings,
            streams: streams === undefined ? undefined : memories[link].streamsOf.get(streams),
            neurons: neurons && { ...neurons, weights: inFileOrder([...weights].filter(([, t]) => neurons.weights.includes(t))) },
          }
        : [],
    );
  const weightBytes = sum(loaded.map(([, tensor]) => bytesOf(tensor))) - sum(memories.map(({ streamedBytes }) => streamedBytes));
  const cacheBytes = sum([...states.values(), ...caches.flatMap(({ k, v }) => [k, v])].flatMap((l) => tensorsOf(l).map(bytesOf)));
  const all = sum(memories.map(({ bytes }) => bytes));
  return {
    contextLength,
    slotCells,
    batchSize,
    maxOutputs,
    inputs: {
      ids: tensorsOf(inputs.ids),
      pos: tensorsOf(inputs.pos),
      cells: tensorsOf(inputs.cells),
      first: tensorsOf(inputs.first),
      visible: tensorsOf(inputs.visible),
      encoded: tensorsOf(inputs.encoded),
      outputs: tensorsOf(inputs.outputs),
      others: tensorsOf(inputs.others),
      runs: tensorsOf(inputs.runs),
    },
    result: links.computed(result),
    weights: [...new Set(loaded.map(([info]) => info)), ...tokenRows.keys()],
    resident: loaded.filter(([, tensor]) => !streams(tensor) && !byRows(tensor)),
    tokenRows: [...tokenRows].map(([info, rows]) => ({ info, tensors: tensorsOf(rows) })),
    // A table that no layer reads has no place.
    tables: tables
      .map(({ params, factors, tensor }) => ({ params, factors, tensors: tensorsOf(tensor) }))
      .filter(({ tensors }) => tensors.length > 0),
    inputSums: graph.inputSums,
    keptInputs: graph.keptInputs,
    caches,
    states: [...states.values()],
    encoder: passesOf(0),
    passes: passesOf(1),
    packings: memories.map(({ packing }) => packing),
    memories: memories.map(({ bytes }) => bytes),
    leastWeights,
    unusedTensors: whole.unusedTensors,
    iqWeights: loaded.some(([{ type }, t]) => t.type !== type)
      ? 'fast'
      : loaded.some(([{ type }]) => type.kernels?.fast)
        ? 'compact'
        : undefined,
    memory: { weights: weightBytes, cache: cacheBytes, compute: all - weightBytes - cacheBytes },
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, n) => all + n, 0);

/** As reading goes through the files. */
export const inFileOrder = <T>(weights: readonly (readonly [TensorInfo, T])[]): (readonly [TensorInfo, T])[] =>
  [...weights].sort(([a], [b]) => a.part - b.part || a.offset - b.offset);

/** Gives memory to what crosses into a link: from the end of the pass that leaves it to the end of the one that reads it. */
function takeCrossings({ passes, memories }: Links, plans: readonly GraphPlan[], link: number, memory: Allocator): void {
  const from = memory.end;
  const room = createAllocator(from);
  passes.forEach(({ crossings }, i) => {
    for (const { to } of crossings) if (memories[link].has(to)) to.data = room.take(nbytes(to));
    const over = passes.slice(0, i).flatMap((pass) => pass.crossings.map(({ to }) => to));
    for (const to of over)
      if (memories[link].has(to) && plans[i].tensors.some((t) => (t.viewOf ?? t) === to)) room.give(to.data, nbytes(to));
  });
  memory.take(room.end - from);
}
