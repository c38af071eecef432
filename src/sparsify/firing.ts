/**
 * Records which neurons of a feed-forward fire for the tokens of a text. Orders the neurons so that
 * those that fire together are adjacent: in memory, and in the row blocks of packed weights,
 * because a row block is multiplied if one of its rows is selected.
 */
import { ROW_BLOCK } from '../graph/layout.ts';

/** Maximum number of tokens used to group neurons. More only take longer. */
const MOST_COMPARED = 4096;

export interface Firing {
  readonly neurons: number;
  /**
   * Adds tokens: the activations of a layer, f32 [neurons, tokens], 0 if a neuron does not fire.
   * Tokens beyond the capacity are ignored.
   */
  add(activations: Float32Array): void;
  /** Number of tokens recorded. */
  readonly tokens: number;
  /** Number of these tokens for which each neuron fires. */
  readonly counts: Uint32Array;
  /** Sum of |activation| of each neuron. */
  readonly sums: Float64Array;
  /** True if the neuron fires for the token. */
  fires(neuron: number, token: number): boolean;
  /**
   * Number of neurons that fire for at least this share of the tokens, rounded down to whole groups
   * and never all neurons.
   */
  hot(share: number): number;
  /**
   * Order of the neurons: the `hot` most frequent, then groups of ROW_BLOCK neurons that fire
   * together, beginning with the group of the most frequent one.
   */
  order(hot?: number): Uint32Array;
  /**
   * Share of groups of ROW_BLOCK neurons, in this order, in which at least one neuron fires; mean
   * over tokens.
   */
  groupsRead(order: Uint32Array): number;
}

/** Number of set bits. */
function popcount(x: number): number {
  x -= (x >>> 1) & 0x55555555;
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
  return Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** @param most capacity in tokens */
export function createFiring(neurons: number, most: number): Firing {
  // Bit set of each neuron's tokens, 32 a word.
  const words = Math.ceil(most / 32);
  const bits = new Uint32Array(neurons * words);
  const counts = new Uint32Array(neurons);
  const sums = new Float64Array(neurons);
  let tokens = 0;
  const compared = (): number => Math.min(Math.ceil(tokens / 32), MOST_COMPARED / 32);

  return {
    neurons,
    add(activations) {
      for (let at = 0; at < activations.length && tokens < most; at += neurons, tokens++)
        for (let r = 0; r < neurons; r++) {
          if (activations[at + r] === 0) continue;
          bits[r * words + (tokens >>> 5)] |= 1 << (tokens & 31);
          counts[r]++;
          sums[r] += Math.abs(activations[at + r]);
        }
    },
    get tokens() {
      return tokens;
    },
    counts,
    sums,
    fires: (neuron, token) => ((bits[neuron * words + (token >>> 5)] >>> (token & 31)) & 1) === 1,
    hot(share) {
      const n = counts.reduce((sum, count) => sum + Number(count >= share * tokens), 0);
      return Math.min(n, neurons - 1) & -ROW_BLOCK;
    },
    order(hot = 0) {
      const end = compared();
      const together = (a: number, b: number): number => {
        let n = 0;
        for (let i = 0; i < end; i++) n += popcount(bits[a * words + i] & bits[b * words + i]);
        return n;
      };
      const sorted = Uint32Array.from(counts.keys()).sort((a, b) => counts[b] - counts[a] || a - b);
      const order = [...sorted.subarray(0, hot)];
      let left = sorted.slice(hot);
      while (left.length > 0) {
        // Take the most frequent remaining neuron, and the ones that fire most often together with
        // it; of equals, the more frequent. Each key encodes both in one number, because numbers
        // sort fast.
        const [first, ...others] = left;
        const keys = Float64Array.from(others, (r, i) => together(first, r) * neurons + neurons - 1 - i).sort();
        const group = Array.from(keys.subarray(-(ROW_BLOCK - 1)), (key) => others[neurons - 1 - (key % neurons)]).reverse();
        order.push(first, ...group);
        const taken = new Set([first, ...group]);
        left = left.filter((r) => !taken.has(r));
      }
      return Uint32Array.from(order);
    },
    groupsRead(order) {
      const end = compared();
      let read = 0;
      let groups = 0;
      for (let at = 0; at < neurons; at += ROW_BLOCK, groups++) {
        const group = order.subarray(at, at + ROW_BLOCK);
        for (let i = 0; i < end; i++) read += popcount(group.reduce((any, r) => any | bits[r * words + i], 0));
      }
      return read / (groups * Math.min(tokens, MOST_COMPARED));
    },
  };
}
