/**
 * Angles of rotary embeddings for every position, computed once in f64. Frequency base, scaling,
 * YaRN and factors are all applied here.
 */

export interface RopeParams {
  /** Rotated dimensions, even. */
  nDims: number;
  freqBase: number;
  /** 1 / factor of linear scaling. */
  freqScale: number;
  /**
   * YaRN (arXiv 2309.00071): 0 none, 1 full; ggml's ext_factor, attn_factor, beta_fast, beta_slow,
   * n_ctx_orig.
   */
  extFactor: number;
  attnFactor: number;
  betaFast: number;
  betaSlow: number;
  nCtxOrig: number;
  /**
   * Divisors of each pair's frequency, [nDims / 2] (Llama 3's rope_freqs.weight, Phi 3's long and
   * short factors).
   */
  factors?: ArrayLike<number> | undefined;
  /**
   * For queries (Mistral 3, Llama 4): scales those of position p by 1 + scale ln(1 + floor(p /
   * length)).
   */
  temperature?: { readonly scale: number; readonly length: number } | undefined;
}

export const ROPE_DEFAULTS = { freqScale: 1, extFactor: 0, attnFactor: 1, betaFast: 32, betaSlow: 1, nCtxOrig: 0 } as const;

/**
 * M-RoPE (ggml_rope_multi) for text. Each pair belongs to a section of `rope.dimension_sections`
 * (time, height, width, extra). Sections are consecutive, or alternate if `interleaved`. A token of
 * text has its position in the first three sections and position 0 in the fourth, so pairs of the
 * fourth are not rotated: their frequency's divisor is Infinity. undefined: all pairs rotate.
 */
export function sectionFactors(sections: ArrayLike<number>, nPairs: number, interleaved: boolean): number[] | undefined {
  const factors = sectionOfPairs(sections, nPairs, interleaved).map((section) => (section === EXTRA ? Infinity : 1));
  return factors.includes(Infinity) ? factors : undefined;
}

/** Section without a position. */
const EXTRA = 3;

/** Section of each pair: 0 time, 1 height, 2 width, 3 extra. */
export function sectionOfPairs(sections: ArrayLike<number>, nPairs: number, interleaved: boolean): number[] {
  const sizes = Array.from({ length: 4 }, (_, i) => sections[i] ?? 0);
  const all = sizes.reduce((sum, n) => sum + n, 0);
  return Array.from({ length: nPairs }, (_, i) => {
    const sector = i % all;
    if (interleaved) return sector < 3 * sizes[sector % 3] ? sector % 3 : EXTRA;
    let section = 0;
    for (let end = sizes[0]; sector >= end; end += sizes[section]) section++;
    return section;
  });
}

/**
 * Alternating cos and sin, f32 [nDims, nPositions] (ne order): pair i of position p is at p * nDims
 * + 2 i. Source: ggml_rope_ext's rope_yarn.
 */
export function ropeTable(p: RopeParams, nPositions: number): Float32Array {
  const half = p.nDims / 2;
  const table = new Float32Array(nPositions * p.nDims);
  const pairAt = (rotations: number): number => (p.nDims * Math.log(p.nCtxOrig / (rotations * 2 * Math.PI))) / (2 * Math.log(p.freqBase));
  const low = Math.max(0, Math.floor(pairAt(p.betaFast)));
  const high = Math.min(p.nDims - 1, Math.ceil(pairAt(p.betaSlow)));
  const scale = p.extFactor === 0 ? p.attnFactor : p.attnFactor * (1 + 0.1 * Math.log(1 / p.freqScale));
  for (let i = 0; i < half; i++) {
    const extrapolated = p.freqBase ** ((-2 * i) / p.nDims) / (p.factors?.[i] ?? 1);
    const interpolated = extrapolated * p.freqScale;
    const ramp = 1 - Math.min(1, Math.max(0, (i - low) / Math.max(0.001, high - low)));
    const mix = p.extFactor === 0 ? 0 : ramp * p.extFactor;
    const frequency = interpolated * (1 - mix) + extrapolated * mix;
    for (let pos = 0; pos < nPositions; pos++) {
      const angle = pos * frequency;
      const at = pos * p.nDims + 2 * i;
      const size = p.temperature ? scale * (1 + p.temperature.scale * Math.log(1 + Math.floor(pos / p.temperature.length))) : scale;
      table[at] = Math.cos(angle) * size;
      table[at + 1] = Math.sin(angle) * size;
    }
  }
  return table;
}
