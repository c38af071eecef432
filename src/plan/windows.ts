/**
 * Chooses the layers whose weights stay in memory if not all can, after "LLM in a flash" (arXiv
 * 2312.11514). The other layers are read again for every step, each while the previous one is
 * computed. Every link with such layers has two windows for them, as large as the largest layer.
 */
import { QuantletError } from '../errors.ts';
import { mebibytes } from '../wasm/memory.ts';

export const WINDOWS = 2;

/**
 * Chooses the layers that are read again for every step. They have as few bytes as possible and are
 * spread evenly, so that reading keeps up with computing.
 * @param layers bytes of each layer's matrices
 * @param others bytes of weights that stay in any case
 * @param most bytes of weights in memory at a time
 * @throws ERR_OUT_OF_MEMORY if the windows alone take more
 */
export function streamedLayers(layers: readonly number[], others: number, most: number, links: number): ReadonlySet<number> {
  const all = layers.reduce((sum, n) => sum + n, 0);
  if (others + all <= most) return new Set();
  const windows = WINDOWS * links * Math.max(...layers);
  for (let n = 1; n <= layers.length; n++) {
    const streamed = layers.map((_, i) => Math.floor(((i + 1) * n) / layers.length) > Math.floor((i * n) / layers.length));
    const stay = layers.reduce((sum, bytes, i) => sum + (streamed[i] ? 0 : bytes), 0);
    if (others + windows + stay <= most) return new Set(layers.flatMap((_, i) => (streamed[i] ? [i] : [])));
  }
  throw new QuantletError(
    'ERR_OUT_OF_MEMORY',
    `weightsMemory is ${most} (${mebibytes(most)}), but the model takes at least ${others + windows} (${mebibytes(others + windows)}), for ${WINDOWS} layers at a time and the weights outside of layers; choose that or more`,
  );
}
