/**
 * Which neurons of a feed-forward fire for the tokens of a text, and an order in which those lie side by side that fire together: in memory, and in the
 * row blocks of packed weights, of which one is multiplied where one of its rows counts.
 */
import { ROW_BLOCK } from '../graph/layout.ts';

/** Tokens by which neurons are grouped, at most: for more, all that is gained is in how long it takes. */
const MOST_COMPARED = 4096;

export interface Firing {
  readonly neurons: number;
  /** Adds tokens: the activations of a layer, f32 [neurons, tokens], 0 where a neuron does not fire. Of tokens beyond those there is room for, nothing is kept. */
  add(activations: Float32Array): void;
  /** How many tokens there are, at most as many as there is room for. */
  readonly tokens: number;
  /** For how many of them each neuron fires. */
  readonly counts: Uint32Array;
  /** The sum of each neuron's |activation|. */
  readonly sums: Float64Array;
  /** Whether a neuron fires for a token. */
  fires(neuron: number, token: number): boolean;
  /** How many neurons fire for at least this share of the tokens: whole groups of them, and not all neurons. */
  hot(share: number): number;
  /** The neurons: the `hot` hottest, then groups of ROW_BLOCK that fire together one after the other, the group of the hottest first. */
  order(hot?: number): Uint32Array;
  /** Of groups of ROW_BLOCK neurons in this order, the share that has one that fires, a mean over tokens. */
  groupsRead(order: Uint32Array): number;
}

/** The bits that are set. */
function popcount(x: number): number {
  x -= (x >>> 1) & 0x55555555;
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
  return Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** @param most tokens that there is room for */
export function createFiring(neurons: number, most: number): Firing {
  // A neuron's tokens, 32 a word.
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
        // The hottest that is left, and those that fire most often with it, of equals the hotter. (One number a neuron, since those sort fast.)
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
