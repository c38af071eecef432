/** Planning of a model: passes, records and addresses, from its graph. */
import type { Architecture } from '../arch/architecture.ts';
import type { HParams } from '../arch/hparams.ts';
import type { GGUF } from '../gguf/types.ts';
import { lower } from '../graph/lower.ts';
import { createGraphPlan, type GraphPlan } from '../graph/plan.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Isa } from '../packed-format.ts';
import { placeLink, type LinkMemory } from './link-memory.ts';
import { cutIntoLinks, type Links } from './links.ts';
import type { MemoryParts } from './memory-use.ts';
import { buildModelGraph, type ModelGraph } from './model-graph.ts';
import type { ModelPass, ModelPlan, Weight } from './model-plan.ts';
import { bytesOf, inFileOrder, totalBytes } from './place-weights.ts';
import type { ModelPlanOptions } from './plan-options.ts';
import { Residence } from './residence.ts';

/**
 * Plans a model: cuts its graph into passes, and gives everything an address.
 *
 * @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE, ERR_UNSUPPORTED_TYPE, ERR_OUT_OF_MEMORY
 */
export function planModel(gguf: GGUF, architecture: Architecture, hparams: HParams, isa: Isa, options: ModelPlanOptions): ModelPlan {
  const whole = buildModelGraph(gguf, architecture, hparams, options);
  // If not all weights may stay in memory, tables of which a step needs a row per token are the
  // first to go.
  const fewer = options.rowsFromFile || totalBytes([...whole.weights.values()]) > options.weightsMemory;
  const graph = fewer && whole.tablesOfRows.size > 0 ? buildModelGraph(gguf, architecture, hparams, options, whole.tablesOfRows) : whole;
  const weights = [...graph.weights].filter(([info]) => !graph.tokenRows.has(info));
  const leaves = weights.map(([, t]) => t);
  const residence = new Residence(graph, leaves, hparams, options);
  const links = cutIntoLinks([graph.encoder, graph.nodes], {
    count: options.links,
    layerOf: (l) => residence.layerOf(l),
    bytesOf: (l) => (residence.isResident(l) ? bytesOf(l) : 0),
    stays: (l) => residence.hasOnePlace(l),
    streams: (il) => residence.streamed.has(il),
    neuronsOf: (l) => residence.neuronsFor(l),
  });
  const tensorsOf = (l: Tensor): Tensor[] => (links.places.get(l) ?? []).map(({ tensor }) => tensor);
  const loaded = weights.flatMap(([info, l]) => tensorsOf(l).map((tensor) => [info, tensor] as const));
  const plans = links.passes.map(({ nodes, crossings }) =>
    createGraphPlan(lower(nodes, { isa, actBits: options.actBits }), [links.computed(graph.result), ...crossings.map(({ from }) => from)]),
  );
  const { threads } = options;
  const readers = Math.max(threads, residence.streamed.size > 0 ? options.readers : 0);
  const memories = links.memories.map((_, link) => placeLink(links, link, plans, loaded, residence, { threads, readers }));
  const { slotCells, batchSize, maxOutputs, inputs, tables, states, caches, tokenRows } = graph;
  const sequence = [...states.values(), ...caches.flatMap(({ k, v }) => [k, v])];
  return {
    contextLength: options.contextLength,
    slotCells,
    batchSize,
    maxOutputs,
    inputs: inEveryMemory(inputs, tensorsOf),
    result: links.computed(graph.result),
    weights: [...new Set(loaded.map(([info]) => info)), ...tokenRows.keys()],
    resident: loaded.filter(([, tensor]) => residence.isResident(tensor)),
    tokenRows: [...tokenRows].map(([info, rows]) => ({ info, tensors: tensorsOf(rows) })),
    // A table that no layer reads lies nowhere.
    tables: tables
      .map(({ params, factors, tensor }) => ({ params, factors, tensors: tensorsOf(tensor) }))
      .filter(({ tensors }) => tensors.length > 0),
    inputSums: graph.inputSums,
    keptInputs: graph.keptInputs,
    caches,
    states: [...states.values()],
    encoder: passesOf(0, links, plans, memories, weights),
    passes: passesOf(1, links, plans, memories, weights),
    packings: memories.map(({ packing }) => packing),
    memories: memories.map(({ bytes }) => bytes),
    leastWeights: residence.leastWeights,
    unusedTensors: whole.unusedTensors,
    iqWeights: formOf(loaded),
    memory: memoryParts(memories, loaded, sequence.flatMap(tensorsOf)),
  };
}

function inEveryMemory(inputs: ModelGraph['inputs'], tensorsOf: (l: Tensor) => Tensor[]): ModelPlan['inputs'] {
  return Object.fromEntries(Object.entries(inputs).map(([name, l]) => [name, tensorsOf(l)])) as unknown as ModelPlan['inputs'];
}

/** Passes of the encoder (graph 0) or of the model (graph 1). */
function passesOf(
  graph: number,
  links: Links,
  plans: readonly GraphPlan[],
  memories: readonly LinkMemory[],
  weights: readonly Weight[],
): ModelPass[] {
  return links.passes.flatMap(({ graph: of, link, crossings, streams, neurons }, i) =>
    of === graph
      ? {
          plan: plans[i],
          placed: memories[link].placed.get(plans[i])!,
          crossings,
          streams: streams === undefined ? undefined : memories[link].streamsOf.get(streams),
          neurons: neurons && { ...neurons, weights: inFileOrder(weights.filter(([, t]) => neurons.weights.includes(t))) },
        }
      : [],
  );
}

/** @see ModelPlan.iqWeights */
function formOf(loaded: readonly Weight[]): ModelPlan['iqWeights'] {
  if (loaded.some(([{ type }, t]) => t.type !== type)) return 'fast';
  return loaded.some(([{ type }]) => type.kernels?.fast) ? 'compact' : undefined;
}

function memoryParts(memories: readonly LinkMemory[], loaded: readonly Weight[], sequence: readonly Tensor[]): MemoryParts {
  const all = sum(memories.map(({ bytes }) => bytes));
  const weights = totalBytes(loaded.map(([, t]) => t)) - sum(memories.map(({ sharedBytes }) => sharedBytes));
  const cache = totalBytes(sequence);
  return { weights, cache, compute: all - weights - cache };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, n) => all + n, 0);
