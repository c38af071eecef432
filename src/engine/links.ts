/**
 * A model as a chain of links: each has a range of layers, with the weights and caches of these layers, in a memory of its own. The graph is cut between
 * layers only, so that little crosses: the residual stream, n_embd numbers a token. What is computed without a stop in one link is a pass; there are as many
 * as links, and one more where a matrix is read again that lies in an earlier link (token_embd, when it is the output matrix too): its product is computed
 * there.
 */
import { inStep, node, nbytes, type Tensor } from '../graph/tensor.ts';
import type { Neurons } from './neurons.ts';

/** What one pass leaves for a later one: a leaf of that one's memory takes it. */
export interface Crossing {
  readonly from: Tensor;
  readonly to: Tensor;
}

export interface Place {
  readonly link: number;
  readonly tensor: Tensor;
}

export interface PassGraph {
  /** Which of the graphs it is a part of. */
  readonly graph: number;
  readonly link: number;
  /** Where the pass is one layer whose weights come and go: that layer. */
  readonly streams: number | undefined;
  /** Of which rows are read before the pass: their idx has been computed, and is among the pass's leaves. */
  readonly neurons: Neurons | undefined;
  readonly nodes: readonly Tensor[];
  readonly crossings: readonly Crossing[];
}

export interface Links {
  /** In the order of computation. */
  readonly passes: readonly PassGraph[];
  /** The leaves that each link has. */
  readonly memories: readonly ReadonlySet<Tensor>[];
  /** For each leaf of the graph that is read: itself and its copies, one for each link that reads it. */
  readonly places: ReadonlyMap<Tensor, readonly Place[]>;
  /** The node that a pass computes in place of this one of the whole graph. */
  computed(node: Tensor): Tensor;
}

export interface CutOptions {
  /** Links at most; there are no more of them than layers. */
  readonly count: number;
  bytesOf(leaf: Tensor): number;
  layerOf(leaf: Tensor): number;
  /** Layers that have a pass of their own, because their weights are there only while it runs. */
  streams(layer: number): boolean;
  /** Where only some rows of a leaf are read, a pass begins when it is known which. */
  neuronsOf(leaf: Tensor): Neurons | undefined;
  /** Whether a leaf has one place, so that what reads it a second time has to be computed there. Others have a copy in each link that reads them. */
  stays(leaf: Tensor): boolean;
}

const baseOf = (t: Tensor): Tensor => t.viewOf ?? t;
const leavesOf = ({ src, viewOf }: Tensor): Tensor[] => [...src, viewOf].flatMap((t) => (t && baseOf(t).op === 'leaf' ? [baseOf(t)] : []));

/** The layer that a leaf belongs to, by its name: -1 for those of no layer. A decoder's come behind the layers of its encoder. */
export function layerOf({ name }: Tensor, nEncoder: number): number {
  const [, part, layer] = /^(enc\.|dec\.)?blk\.(\d+)\./.exec(name) ?? [];
  return layer === undefined ? -1 : Number(layer) + (part === 'dec.' ? nEncoder : 0);
}

/** @param graphs the nodes of each that is computed by itself (an encoder's, a decoder's), each after its sources */
export function cutIntoLinks(
  graphs: readonly (readonly Tensor[])[],
  { count, bytesOf, stays, streams, neuronsOf, layerOf }: CutOptions,
): Links {
  const stepsOf = graphs.map((nodes) => nodes.filter((t) => t.op !== 'leaf' && t.op !== 'view'));
  const steps = stepsOf.flat();
  const graphOf = stepsOf.flatMap((of, graph) => of.map(() => graph));
  const begins = (i: number): boolean => graphOf[i] !== graphOf[i - 1];
  // A layer begins with the first node that reads one of its weights, and has all up to the next layer. What comes before all layers is in the first.
  const layers: number[] = [];
  const bytes: number[] = [0];
  const seen = new Set<Tensor>();
  for (const [i, t] of steps.entries()) {
    const leaves = leavesOf(t);
    const layer = Math.max(begins(i) ? 0 : layers[i - 1], ...leaves.map(layerOf));
    layers.push(layer);
    for (const leaf of leaves) {
      if (!seen.has(leaf)) bytes[layer] = (bytes[layer] ?? 0) + bytesOf(leaf);
      seen.add(leaf);
    }
  }
  const linkOfLayer = partition([...bytes].map((n) => n ?? 0), count); // prettier-ignore

  const memories = Array.from({ length: linkOfLayer.at(-1)! + 1 }, () => new Set<Tensor>());
  const places = new Map<Tensor, Place[]>();
  const placed = (leaf: Tensor, link: number): Tensor => {
    const known = places.get(leaf) ?? [];
    let place = known.find((p) => p.link === link);
    if (!place) places.set(leaf, [...known, (place = { link, tensor: known.length === 0 ? leaf : { ...leaf } })]);
    memories[link].add(place.tensor);
    return place.tensor;
  };

  interface Pass extends PassGraph {
    neurons: Neurons | undefined;
    readonly nodes: Tensor[];
    readonly crossings: Crossing[];
    /** What nodes of the whole graph are in this pass. */
    readonly own: Map<Tensor, Tensor>;
  }
  const passes: Pass[] = [];
  const passOf = new Map<Tensor, Pass>();
  const inPass = (t: Tensor, pass: Pass): Tensor => {
    const known = pass.own.get(t);
    if (known) return known;
    let own: Tensor;
    if (t.op === 'leaf') own = placed(t, pass.link);
    else if (t.op === 'view') own = rebased(t, pass);
    else if (t.viewOf?.op === 'leaf') own = { ...rebased(t, pass), op: 'view' };
    else {
      const before = passOf.get(t)!;
      const from = before.own.get(t)!;
      own = node('leaf', from.ne, { name: from.name || from.op, type: from.type, nb: from.nb, batch: from.batch });
      before.crossings.push({ from, to: own });
      memories[pass.link].add(own);
    }
    pass.own.set(t, own);
    return own;
  };
  /** The same node over what its sources are in a pass. */
  const rebased = (t: Tensor, pass: Pass): Tensor => {
    const src = t.src.map((s) => s && inPass(s, pass));
    const viewOf = t.viewOf && inPass(t.viewOf, pass);
    return viewOf === t.viewOf && src.every((s, i) => s === t.src[i]) ? t : { ...t, src, viewOf };
  };

  let link = 0;
  for (const [i, t] of steps.entries()) {
    const leaves = leavesOf(t);
    if (begins(i) || layers[i] !== layers[i - 1] || leaves.some((leaf) => layerOf(leaf) === layers[i])) link = linkOfLayer[layers[i]];
    // A look-up or product goes where its matrix is, attention where the cache is.
    link = leaves.filter(stays).flatMap((leaf) => places.get(leaf) ?? [])[0]?.link ?? link;
    const streamed = link === linkOfLayer[layers[i]] && streams(layers[i]) ? layers[i] : undefined;
    const neurons = leaves.map(neuronsOf).find((of) => of);
    const last = passes.at(-1);
    if (begins(i) || last?.link !== link || last.streams !== streamed || (neurons && last.neurons?.weights !== neurons.weights))
      passes.push({ graph: graphOf[i], link, streams: streamed, neurons: undefined, nodes: [], crossings: [], own: new Map() });
    const pass = passes.at(-1)!;
    if (neurons && !pass.neurons) pass.neurons = { ...neurons, idx: inPass(neurons.idx, pass) };
    const own = rebased(t, pass);
    pass.nodes.push(own);
    pass.own.set(t, own);
    passOf.set(t, pass);
  }
  return { passes, memories, places, computed: (t) => passOf.get(t)!.own.get(t)! };
}

/** Bytes of a tensor in a step of so many tokens and outputs. */
export function bytesInStep(t: Tensor, nTokens: number, nOutputs: number): number {
  const { batch, ne, nb } = t;
  if (!batch || ne.some((n, dim) => dim > batch.dim && n > 1)) return nbytes(t);
  return nb[batch.dim] * inStep(batch.by, nTokens, nOutputs);
}

/**
 * Cuts a row of sizes into at most `count` runs of which the largest is as small as can be, and into as many where there are so many: the number of the run
 * that each is in.
 */
function partition(sizes: readonly number[], count: number): number[] {
  const most = Math.min(count, sizes.length);
  const cut = (limit: number): number[] => {
    let run = 0;
    let sum = 0;
    return sizes.map((size, i) => {
      const full = sum + size > limit || sizes.length - i < most - run;
      if (i > 0 && full) [run, sum] = [run + 1, 0];
      sum += size;
      return run;
    });
  };
  const all = sizes.reduce((sum, n) => sum + n, 0);
  let [from, to] = [Math.max(0, ...sizes), all];
  while (from < to) {
    const limit = Math.floor((from + to) / 2);
    if (cut(limit).at(-1)! < most) to = limit;
    else from = limit + 1;
  }
  return cut(to);
}
