/**
 * Reads weights while the rest of their model is planned. The system takes longer to find memory
 * for weights than to copy them, and planning keeps only one thread busy. (Node only.)
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

/**
 * Weights that get their addresses before everything else, so that they can be read while the rest
 * is planned.
 */
interface EarlyWeights {
  readonly resident: readonly Weight[];
  readonly packing: PackedByThreads;
  /** Bytes of the memory up to the end of the weights and the readers' scratch. */
  readonly bytes: number;
  /** Bytes of caches and states, which are placed later. */
  readonly cacheBytes: number;
}

/**
 * Places weights where planModel() will place them if the model has one memory and all its weights
 * stay there.
 */
function placeEarly({ weights, nodes, encoder, caches, states }: ModelGraph, threads: number): EarlyWeights {
  const read = new Set([...encoder, ...nodes]);
  const resident = [...weights].filter(([, t]) => read.has(t));
  const memory = createAllocator(ARENA_BASE);
  memory.take(SYNC_SIZE);
  const packing = placeWeights(memory, resident, resident, threads);
  const cacheBytes = [...states.values(), ...caches.flatMap(({ k, v }) => [k, v])].reduce((sum, t) => sum + nbytes(t), 0);
  return { resident, packing, bytes: memory.end, cacheBytes };
}

/**
 * Bytes that intermediate results, plans and tables rarely exceed, on top of a quarter of the bytes
 * of weights and caches.
 */
const COMPUTE_ROOM = 2 ** 28;

/** A model's graph, and its weights at the addresses that its plan will give them. */
export interface Early extends EarlyWeights {
  readonly graph: ModelGraph;
  /** Address of each of the resident weights. */
  readonly at: readonly number[];
}

/**
 * Builds the graph of a model that surely fits with the options as given: in one memory, with all
 * its weights. Its weights can be read while planToFit() plans the rest. undefined if only a plan
 * can tell.
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

/**
 * True if the plan gives these weights, and the flags and scratch of their readers, the addresses
 * in use.
 */
export const isOf = ({ resident, at, packing }: Early, { resident: planned, packings }: ModelPlan): boolean =>
  packings.length === 1 &&
  resident.length === planned.length &&
  new Set([...resident, ...planned].map(([, t]) => t)).size === resident.length &&
  resident.every(([, { data }], i) => data === at[i]) &&
  packings[0].broken.data === packing.broken.data &&
  packings[0].scratchAt === packing.scratchAt;

/**
 * Page size of Linux on x64. Larger pages are touched several times, which costs next to nothing.
 */
const SYSTEM_PAGE = 4096;
/** Pages touched in one go: about a millisecond, after which this thread can do other work. */
const CLAIM_PAGES = 256;

/**
 * Touches the pages of weights while this thread is idle, so that the system finds memory for them:
 * half of the time of reading goes into that. Readers begin at the start and this thread at the
 * end. A page that one of them has touched costs the other nothing. For loads with so few threads
 * that a core is idle.
 */
export function claimPages({ buffer }: WasmMemory, bytes: number): Claiming {
  const words = new Int32Array(buffer);
  const [page, step] = [SYSTEM_PAGE / 4, (CLAIM_PAGES * SYSTEM_PAGE) / 4];
  let end = alignUp(bytes, SYSTEM_PAGE) / 4;
  const claim = async (): Promise<void> => {
    for (; end > 0; end -= step) {
      await yieldToEventLoop();
      // Keeps the value. V8's Atomics.add and Atomics.or read before they write: the read maps the
      // shared page of zeros, and replacing that page involves all cores.
      for (let i = Math.max(0, end - step); i < end; i += page) Atomics.compareExchange(words, i, 0, 0);
    }
  };
  return { done: claim(), stop: () => void (end = 0) };
}

export interface Claiming {
  /** Resolves when all pages have been touched, or after stop(). */
  readonly done: Promise<void>;
  stop(): void;
}

/**
 * Beyond this many tokens, kernels depend only on the number of tokens modulo 4
 * (packed-products.ts).
 */
const WIDE_STEP = 16;

/**
 * Computes one record of each kind, with the first step's number of tokens and then with one, so
 * that V8 has compiled their kernels before the first step. In that step, all threads would compile
 * the same kernels. Neither operands nor results matter, because the first step writes everything
 * that it reads.
 * @param read stops this function when it settles
 * @param claiming is awaited first
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
  await Promise.race([claiming?.done, ended]); // touched pages save the readers as much time as compiled kernels save the first step
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
 * First record of each kind in a step; records of a kind run the same kernels. Records that read
 * other indices than the step's inputs, such as products of experts, are left out: their indices
 * have to be valid, and the memory may hold anything.
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

/** Key that is the same for records which run the same kernels. */
const kindOf = ({ code, dst, src, casts = [] }: OpRecord): string =>
  [code, ...[dst, ...src, ...casts].map((t) => t && `${t.type.name} ${t.layout}`)].join();
