/**
 * Splits a model into a chain of links. A link is a memory with a range of layers: their weights
 * and caches. The graph is cut between layers only, so that little crosses: the residual stream,
 * n_embd numbers per token. A pass is what one link computes without a stop. There is one pass per
 * link, and one more if a matrix of an earlier link is read again (token_embd, if it is the output
 * matrix too): its product is computed there.
 */
import { baseOf, inStep, node, nbytes, type Tensor } from '../graph/tensor.ts';
import type { Neurons } from './neurons.ts';

/** Result of a pass, and the leaf that holds it in the memory of a later pass. */
export interface Crossing {
  readonly from: Tensor;
  readonly to: Tensor;
}

export interface Place {
  readonly link: number;
  readonly tensor: Tensor;
}

export interface PassGraph {
  /** Index of the graph that the pass belongs to. */
  readonly graph: number;
  readonly link: number;
  /** The layer whose weights are read before the pass; undefined if its weights stay in memory. */
  readonly streams: number | undefined;
  /**
   * Neurons whose rows are read before the pass. Their idx has been computed by an earlier pass and
   * is among the leaves of this one.
   */
  readonly neurons: Neurons | undefined;
  readonly nodes: readonly Tensor[];
  readonly crossings: readonly Crossing[];
}

export interface Links {
  /** In the order of computation. */
  readonly passes: readonly PassGraph[];
  /** Leaves of each link. */
  readonly memories: readonly ReadonlySet<Tensor>[];
  /** Each leaf that is read, with its copies: one for each link that reads the leaf. */
  readonly places: ReadonlyMap<Tensor, readonly Place[]>;
  /** Node of a pass that computes this node of the whole graph. */
  computed(node: Tensor): Tensor;
}

export interface CutOptions {
  /** Most links; there are at most as many as layers. */
  readonly count: number;
  bytesOf(leaf: Tensor): number;
  layerOf(leaf: Tensor): number;
  /**
   * True for layers with a pass of their own, because their weights are in memory only while it
   * runs.
   */
  streams(layer: number): boolean;
  /**
   * Neurons that select the rows of a leaf, if a step reads only some. A pass begins as soon as
   * these rows are known.
   */
  neuronsOf(leaf: Tensor): Neurons | undefined;
  /**
   * True if the leaf lies in one link, so everything that reads it is computed there. Other leaves
   * have a copy in each link that reads them.
   */
  stays(leaf: Tensor): boolean;
}

const leavesOf = ({ src, viewOf }: Tensor): Tensor[] => [...src, viewOf].flatMap((t) => (t && baseOf(t).op === 'leaf' ? [baseOf(t)] : []));

/**
 * Layer of a leaf, by its name; -1 for leaves of no layer. Layers of a decoder are numbered after
 * those of its encoder.
 */
export function layerOf({ name }: Tensor, nEncoder: number): number {
  const [, part, layer] = /^(enc\.|dec\.)?blk\.(\d+)\./.exec(name) ?? [];
  return layer === undefined ? -1 : Number(layer) + (part === 'dec.' ? nEncoder : 0);
}

/**
 * @param graphs nodes of each graph that is computed by itself (encoder, decoder), each node after
 * its sources
 */
export function cutIntoLinks(
  graphs: readonly (readonly Tensor[])[],
  { count, bytesOf, stays, streams, neuronsOf, layerOf }: CutOptions,
): Links {
  const stepsOf = graphs.map((nodes) => nodes.filter((t) => t.op !== 'leaf' && t.op !== 'view'));
  const steps = stepsOf.flat();
  const graphOf = stepsOf.flatMap((of, graph) => of.map(() => graph));
  const begins = (i: number): boolean => graphOf[i] !== graphOf[i - 1];
  // A layer extends from the first node that reads one of its weights to the next layer. Nodes
  // before all layers belong to the first.
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
    /** Nodes of the whole graph, and the nodes of this pass that stand for them. */
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
  /**
   * Copy of a node whose sources are the nodes of this pass that stand for them; the node itself if
   * nothing changes.
   */
  const rebased = (t: Tensor, pass: Pass): Tensor => {
    const src = t.src.map((s) => s && inPass(s, pass));
    const viewOf = t.viewOf && inPass(t.viewOf, pass);
    return viewOf === t.viewOf && src.every((s, i) => s === t.src[i]) ? t : { ...t, src, viewOf };
  };

  let link = 0;
  for (const [i, t] of steps.entries()) {
    const leaves = leavesOf(t);
    if (begins(i) || layers[i] !== layers[i - 1] || leaves.some((leaf) => layerOf(leaf) === layers[i])) link = linkOfLayer[layers[i]];
    // Look-ups and products are computed where their matrix lies, attention where its cache lies.
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

/** Bytes of a tensor in a step of nTokens and nOutputs. */
export function bytesInStep(t: Tensor, nTokens: number, nOutputs: number): number {
  const { batch, ne, nb } = t;
  if (!batch || ne.some((n, dim) => dim > batch.dim && n > 1)) return nbytes(t);
  return nb[batch.dim] * inStep(batch.by, nTokens, nOutputs);
}

/**
 * Splits consecutive sizes into `count` runs (one per size if there are fewer sizes), minimising
 * the largest run. Returns the run of each size.
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
