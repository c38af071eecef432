/**
 * Sliding windows: the layers ("local") whose tokens see only the last keys, and the window's size.
 */
import { getCount, getNumber } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { FAR } from '../graph/attention-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { GraphContext } from './architecture.ts';
import type { AttentionOptions } from './blocks.ts';
import type { HParams } from './hparams.ts';

export interface WindowDefaults {
  /**
   * Keys that a token of a local layer sees, itself included, if the file does not say; 0: no
   * windows.
   */
  readonly window?: number;
  /** One layer of every `pattern` is global. */
  readonly pattern: number;
  /** The global layer is the first of each `pattern`, not the last. */
  readonly globalFirst?: boolean;
}

/**
 * Window of each layer, 0 if the layer is global. Metadata keys: `attention.sliding_window` and its
 * `_pattern`, a number or a list with true for local layers.
 */
export function slidingWindows(
  gguf: GGUF,
  arch: string,
  { window = 0, pattern, globalFirst = false }: WindowDefaults,
): (il: number) => number {
  const size = getCount(gguf, `${arch}.attention.sliding_window`, window);
  const key = `${arch}.attention.sliding_window_pattern`;
  const list = gguf.metadata.get(key);
  if (Array.isArray(list) || ArrayBuffer.isView(list)) return (il) => ((list as ArrayLike<unknown>)[il] ? size : 0);
  const n = getCount(gguf, key, pattern);
  return (il) => (n === 0 || il % n !== (globalFirst ? 0 : n - 1) ? size : 0);
}

/** Angles of local layers, which may have a frequency base of their own (`rope.freq_base_swa`). */
export function localAngles(hp: HParams, g: GraphContext): Tensor {
  const freqBase = getNumber(g.gguf, `${hp.arch}.rope.freq_base_swa`, hp.rope.freqBase);
  return g.ropeTable(freqBase === hp.rope.freqBase ? hp.rope : { ...hp.rope, freqBase });
}

/**
 * Attention of a layer with a window of n tokens, 0 for none. A token of an image may see what is
 * ahead of it in the image, but its window ends where that of a token of text does.
 */
export const windowOf = (g: GraphContext, n: number): AttentionOptions =>
  g.images && n > 0 ? { reach: n - 1 + FAR, reachFrom: g.images.far } : { window: n };
