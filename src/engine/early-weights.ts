/**
 * Weights that are read while the rest of their model is planned: finding memory for them takes the system longer than copying them, and planning is done on
 * another thread. (Node: pages do without.)
 */
import { alignUp, type GGUF } from '../gguf/types.ts';
import { SYNC_SIZE } from '../graph/layout.ts';
import { nbytes, type Tensor } from '../graph/tensor.ts';
import { TYPE } from '../type-traits.ts';
import { createAllocator } from '../wasm/allocator.ts';
import { ARENA_BASE, MEMORY_LIMIT } from '../wasm/memory.ts';
import type { WasmMemory } from '../globals.ts';
import type { OpRecord } from '../graph/lower.ts';
import { yieldToEventLoop, type Executor } from '../threads/executor.ts';
import { dummyBatch, writeInputs } from './batch-inputs.ts';
import { buildModelGraph, type ModelGraph } from './model-graph.ts';
import type { ModelPlan, PackedByThreads, Weight } from './model-plan.ts';
import { placeWeights } from './place-weights.ts';
import { hasFast, planOptions, wantedContext, type LayoutOptions, type Machine, type ModelLayout } from './plan-to-fit.ts';

/** Weights that are placed in one memory before anything else is, so that they can be read while the rest is planned. */
interface EarlyWeights {
  readonly resident: readonly Weight[];
  readonly packing: PackedByThreads;
  /** Bytes of the memory that this takes, those before it included. */
  readonly bytes: number;
  /** Bytes of caches and states, which come later. */
  readonly cacheBytes: number;
}

/** Where planModel() places the weights of a model that has one memory, and in it all weights. */
function placeEarly({ weights, nodes, encoder, caches, states }: ModelGraph, threads: number): EarlyWeights {
  const read = new Set([...encoder, ...nodes]);
  const resident = [...weights].filter(([, t]) => read.has(t));
  const memory = createAllocator(ARENA_BASE);
  memory.take(SYNC_SIZE);
  const packing = placeWeights(memory, resident, resident, threads);
  const cacheBytes = [...states.values(), ...caches.flatMap(({ k, v }) => [k, v])].reduce((sum, t) => sum + nbytes(t), 0);
  return { resident, packing, bytes: memory.end, cacheBytes };
}

/** Bytes that intermediate results, plans and tables hardly ever take, beyond a quarter of weights and caches. */
const COMPUTE_ROOM = 2 ** 28;

/** A model's graph, and its weights at the addresses that its plan will give them. */
export interface Early extends EarlyWeights {
  readonly graph: ModelGraph;
  /** Address of each of the resident weights. */
  readonly at: readonly number[];
}

/**
 * A model that surely fits as it was asked for, in one memory with all of its weights: they can be read while planToFit() plans the rest. undefined where
 * that is to be found out first.
 */
export function buildEarly(
  gguf: GGUF,
  layout: ModelLayout,
  options: LayoutOptions,
  { threads, free }: Pick<Machine, 'threads' | 'free'>,
): Early | undefined {
  const { architecture, hparams } = layout;
  const choices = options.iqWeights === 'auto' && hasFast(gguf);
  if (choices || options.links > 1 || options.weightsMemory !== undefined || options.neuronWindow !== undefined) return undefined;
  const contextLength = wantedContext(hparams, options);
  const chosen = { threads, contextLength, rowsFromFile: false, fastWeights: options.iqWeights === 'fast', links: options.links };
  const graph = buildModelGraph(gguf, architecture, hparams, planOptions(layout, options, chosen));
  const early = placeEarly(graph, threads);
  const most = 1.25 * (early.bytes + early.cacheBytes) + COMPUTE_ROOM;
  return most <= Math.min(free, MEMORY_LIMIT) ? { ...early, graph, at: early.resident.map(([, { data }]) => data) } : undefined;
}

/** Whether a plan has these weights, and all that their threads write to, where they are being read to. */
export const isOf = ({ resident, at, packing }: Early, { resident: planned, packings }: ModelPlan): boolean =>
  packings.length === 1 &&
  resident.length === planned.length &&
  new Set([...resident, ...planned].map(([, t]) => t)).size === resident.length &&
  resident.every(([, { data }], i) => data === at[i]) &&
  packings[0].broken.data === packing.broken.data &&
  packings[0].scratchAt === packing.scratchAt;

/** Linux's on x64. Where pages are larger each is touched several times, which costs next to nothing. */
const SYSTEM_PAGE = 4096;
/** Touched at once: about a millisecond, between which this thread has time for everything else. */
const CLAIM_PAGES = 256;

/**
 * Has the system find memory for weights whenever this thread has nothing else to do: half of what reading them takes is that. Readers begin at the start and
 * this at the end; what either has touched costs the other nothing. For threads that leave a core idle.
 */
export function claimPages({ buffer }: WasmMemory, bytes: number): Claiming {
  const words = new Int32Array(buffer);
  const [page, step] = [SYSTEM_PAGE / 4, (CLAIM_PAGES * SYSTEM_PAGE) / 4];
  let end = alignUp(bytes, SYSTEM_PAGE) / 4;
  const claim = async (): Promise<void> => {
    for (; end > 0; end -= step) {
      await yieldToEventLoop();
      // Changes nothing, and writes without reading first, as V8's Atomics.add and or do: that maps the page of zeros, which is then replaced on all cores.
      for (let i = Math.max(0, end - step); i < end; i += page) Atomics.compareExchange(words, i, 0, 0);
    }
  };
  return { done: claim(), stop: () => void (end = 0) };
}

export interface Claiming {
  /** Resolves when all of them have been touched, or it was stopped. */
  readonly done: Promise<void>;
  stop(): void;
}

/** Steps of more tokens have the same kernels, by what their number is beyond a multiple of four (packed-products.ts). */
const WIDE_STEP = 16;

/**
 * Computes a record of each kind for the first step's number of tokens, and then for one, so that V8 has compiled their kernels when the first step comes: that takes
 * it 40 ms, in which all threads compile the same. It does not matter what they compute with, nor what comes out: the first step writes all that it reads.
 * @param read ends it, as it settles
 * @param claiming comes first
 */
export async function rehearse(
  executor: Executor,
  model: ModelPlan,
  firstTokens: number,
  read: Promise<unknown>,
  claiming: Claiming | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { encoder, inputs, tokenRows, inputSums, batchSize } = model;
  if (!executor.rehearse || encoder.length > 0 || tokenRows.length > 0 || inputSums.size > 0) return;
  let over = false;
  const end = (): void => void (over = true);
  const ended = read.then(end, end);
  await Promise.race([claiming?.done, ended]); // a page saves the readers as much time as this would save the first step
  const records = oneOfEachKind(model);
  const wide = WIDE_STEP + (firstTokens % 4 || 4);
  for (const n of new Set([Math.min(firstTokens, wide, batchSize), 1])) {
    await writeInputs(executor, inputs, dummyBatch(n));
    for (const { at, record } of records) {
      await yieldToEventLoop();
      signal?.throwIfAborted();
      if (over) return;
      executor.rehearse(at, record, n, 1);
    }
  }
}

/**
 * The first record of each kind in a step: those of a kind are computed by the same kernels. What reads other indices than the step's own, as products of experts
 * do, is left out: they have to be ones, and memory has anything.
 */
function oneOfEachKind({ passes, inputs }: ModelPlan): readonly { readonly at: number; readonly record: number }[] {
  const given = new Set<Tensor>(Object.values(inputs).flat());
  const hasIndices = ({ dst, src }: OpRecord): boolean => [dst, ...src].some((t) => t?.type === TYPE.i32 && !given.has(t));
  const found = new Map<string, { at: number; record: number }>();
  for (const { plan, placed, neurons, streams } of passes) {
    if (neurons ?? streams) continue;
    for (const [record, op] of plan.records.entries()) {
      const kind = kindOf(op);
      if (!found.has(kind) && !hasIndices(op)) found.set(kind, { at: placed.at, record });
    }
  }
  return [...found.values()];
}

/** What says by which kernels a record is computed. */
const kindOf = ({ code, dst, src, casts = [] }: OpRecord): string =>
  [code, ...[dst, ...src, ...casts].map((t) => t && `${t.type.name} ${t.layout}`)].join();
