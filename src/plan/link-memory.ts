/**
 * Addresses of everything in the memory of one link: weights, caches, tensors that cross into it,
 * windows, plans and their scratch.
 */
import { alignUp } from '../align.ts';
import { SYNC_SIZE } from '../graph/layout.ts';
import { repackRecord } from '../graph/packing.ts';
import { createGraphPlan, placePlan, workBytes, type GraphPlan, type PlacedPlan } from '../graph/plan.ts';
import { baseOf, nbytes, type Tensor } from '../graph/tensor.ts';
import { view } from '../graph/views.ts';
import { ALIGN, createAllocator, type Allocator } from '../wasm/allocator.ts';
import { ARENA_BASE, MEMORY_SPACE } from '../wasm/memory.ts';
import type { Links } from './links.ts';
import type { Packing, Streams, Weight } from './model-plan.ts';
import { bytesOf, inFileOrder, placeWeights, roomFor, totalBytes } from './place-weights.ts';
import type { Residence } from './residence.ts';
import { WINDOWS } from './windows.ts';

export interface LinkMemory {
  /** Addresses of the plan of each pass of the link. */
  readonly placed: ReadonlyMap<GraphPlan, PlacedPlan>;
  readonly packing: Packing;
  /** Streamed weights by layer. */
  readonly streamsOf: ReadonlyMap<number, Streams>;
  /** Bytes of weights that share windows, less the windows. */
  readonly sharedBytes: number;
  /** Bytes of the memory. */
  readonly bytes: number;
}

/**
 * @param loaded every weight of the model, in every memory that has it; `threads` that compute,
 * `readers` that read weights and pack them
 */
export function placeLink(
  links: Links,
  link: number,
  plans: readonly GraphPlan[],
  loaded: readonly Weight[],
  residence: Residence,
  { threads, readers }: { readonly threads: number; readonly readers: number },
): LinkMemory {
  const memory = createAllocator(link * MEMORY_SPACE + ARENA_BASE);
  memory.take(SYNC_SIZE);
  const leaves = links.memories[link];
  const inLink = plans.filter((_, i) => links.passes[i].link === link);
  const all = loaded.filter(([, t]) => leaves.has(t));
  const resident = all.filter(([, t]) => residence.isResident(t));
  const byThreads = placeWeights(memory, resident, all, readers);
  const records = byThreads.matrices.map(([{ type }, m], i) => repackRecord(m, view(byThreads.broken, [1], { offset: 4 * i }), type));
  const packing = createGraphPlan(records);

  const crossed = new Set(links.passes.flatMap(({ crossings }) => crossings.map(({ to }) => to)));
  const own = new Set([...leaves, ...inLink.flatMap(({ constants }) => constants)]);
  for (const [, t] of all) own.delete(t);
  for (const l of own) if (!crossed.has(l)) l.data = memory.take(bytesOf(l));
  placeCrossings(links, plans, link, memory);
  const windows = placeWindows(links, link, loaded, residence, memory);
  const shared = windows.sharedBytes + placeNeurons(leaves, residence, memory);

  // One plan runs at a time, so all work in the same place.
  const work = memory.take(Math.max(...[...inLink, packing].map((plan) => workBytes(plan, threads))));
  const place = (plan: GraphPlan): PlacedPlan => placePlan(plan, work, threads, memory.take(plan.byteLength));
  const placed = new Map(inLink.map((plan) => [plan, place(plan)]));
  return {
    placed,
    packing: { ...byThreads, plan: packing, placed: place(packing) },
    streamsOf: windows.streamsOf,
    sharedBytes: shared,
    bytes: memory.end - link * MEMORY_SPACE,
  };
}

/**
 * Places what crosses into a link: from the end of the pass that leaves it to the end of the one
 * that reads it.
 */
function placeCrossings({ passes, memories }: Links, plans: readonly GraphPlan[], link: number, memory: Allocator): void {
  const from = memory.end;
  const room = createAllocator(from);
  passes.forEach(({ crossings }, i) => {
    for (const { to } of crossings) if (memories[link].has(to)) to.data = room.take(nbytes(to));
    const over = passes.slice(0, i).flatMap((pass) => pass.crossings.map(({ to }) => to));
    for (const to of over) if (memories[link].has(to) && plans[i].tensors.some((t) => baseOf(t) === to)) room.give(to.data, nbytes(to));
  });
  memory.take(room.end - from);
}

/**
 * Places the windows of streamed layers. One window is read while a pass computes with the other.
 */
function placeWindows({ passes }: Links, link: number, loaded: readonly Weight[], residence: Residence, memory: Allocator) {
  const streamed = new Set(passes.flatMap((pass) => (pass.link === link && pass.streams !== undefined ? [pass.streams] : [])));
  const layers = [...streamed].map((il) => ({
    il,
    weights: inFileOrder(loaded.filter(([, t]) => residence.isStreamed(t) && residence.layerOf(t) === il)),
  }));
  const leavesOf = (weights: readonly Weight[]): Tensor[] => weights.map(([, t]) => t);
  const bytes = Math.max(0, ...layers.map(({ weights }) => roomFor(leavesOf(weights))));
  const windows = layers.slice(0, WINDOWS).map(() => memory.take(bytes));
  const streamsOf = new Map<number, Streams>();
  for (const [i, { il, weights }] of layers.entries()) {
    placeFrom(windows[i % WINDOWS], leavesOf(weights));
    streamsOf.set(il, { window: link * WINDOWS + (i % WINDOWS), weights });
  }
  const all = totalBytes(layers.flatMap(({ weights }) => leavesOf(weights)));
  return { streamsOf, sharedBytes: all - bytes * windows.length };
}

/**
 * Places the window of neurons, which all layers share: each pass writes the rows that it reads
 * there.
 * @returns bytes of the weights that share the window, less the window
 */
function placeNeurons(leaves: ReadonlySet<Tensor>, { neurons, neuronBytes }: Residence, memory: Allocator): number {
  const here = neurons.map(({ weights }) => weights.filter((w) => leaves.has(w))).filter((weights) => weights.length > 0);
  if (here.length === 0) return 0;
  const at = memory.take(neuronBytes);
  for (const weights of here) placeFrom(at, weights);
  return totalBytes(here.flat()) - neuronBytes;
}

/** Gives leaves addresses, one after the other. */
function placeFrom(at: number, leaves: readonly Tensor[]): void {
  for (const t of leaves) [t.data, at] = [at, at + alignUp(bytesOf(t), ALIGN)];
}
