/**
 * Scores rows of logits by kernels in a small memory of their own. JavaScript is too slow for e^x
 * of every entry of the vocabulary.
 */
import { instantiate } from '../wasm/load.ts';
import { createAllocator } from '../wasm/allocator.ts';
import { ARENA_BASE, createMemory } from '../wasm/memory.ts';

/** Log-probabilities more than this below the best one are stored as the lowest. */
const RANGE = 16;

/**
 * Number of u16 in a base file's row: f32 scale, f32 lowest log-probability, nVocab steps above it,
 * padded to an even number.
 */
export const rowWords = (nVocab: number): number => 2 * Math.ceil(nVocab / 2) + 4;

export interface Scorer {
  /** Loads a row, which the other functions then use. */
  load(logits: Float32Array): void;
  /** ln p of a token; NaN if a logit is NaN or infinite. */
  logProb(id: number): number;
  /** The most probable token. */
  top(): number;
  /** Packs the row for llama-perplexity's base files (log_softmax in its perplexity.cpp). */
  pack(row: Uint16Array): void;
  /**
   * KL divergence from a base file's row, and that row's ln p of a token and most probable token.
   */
  compare(row: Uint16Array, id: number): { readonly kld: number; readonly logProb: number; readonly top: number };
}

const { fround } = Math;

export function createScorer(module: WebAssembly.Module, nVocab: number): Scorer {
  const arena = createAllocator(ARENA_BASE);
  const logitsAt = arena.take(4 * nVocab);
  const rowAt = arena.take(2 * rowWords(nVocab));
  const outAt = arena.take(32);
  const memory = createMemory(arena.end, false);
  const kernels = instantiate(module, memory);
  const logits = new Float32Array(memory.buffer, logitsAt, nVocab);
  const row = new Uint16Array(memory.buffer, rowAt, rowWords(nVocab));
  const head = new Float32Array(memory.buffer, rowAt, 2);
  const out = new Float64Array(memory.buffer, outAt, 4);
  const stepsAt = rowAt + 8;
  let max = 0;
  let min = 0;
  let logSum = 0;
  let top = 0;
  return {
    load(values) {
      logits.set(values);
      kernels.sum_exp(logitsAt, nVocab, outAt);
      [max, min, , top] = out;
      logSum = Math.log(out[2]);
    },
    logProb: (id) => logits[id] - max - logSum,
    top: () => top,
    pack(to) {
      const floor = Math.max(min, fround(max - RANGE));
      const scale = fround(fround(max - floor) / 65535);
      row.fill(0);
      head.set([scale, fround(floor - max) - fround(logSum)]);
      if (scale > 0) kernels.pack_log_probs(logitsAt, nVocab, stepsAt, floor, 1 / scale);
      to.set(row);
    },
    compare(base, id) {
      row.set(base);
      const [scale, floor] = head;
      const kld = kernels.kl_divergence(logitsAt, nVocab, max + logSum, stepsAt, scale, floor, outAt);
      return { kld, logProb: fround(fround(scale * row[4 + id]) + floor), top: out[0] };
    },
  };
}
