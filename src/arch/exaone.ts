/**
 * LG's EXAONE 4: norms after the branches, and norms of q and k heads. The 32B model has windows,
 * and rope only in the layers with a window.
 */
import { angles, decoder } from './llama.ts';
import { slidingWindows } from './windows.ts';

/** Number of layers of the 32B model, the one with windows. No metadata key says so. */
const WINDOWED = 64;

export const exaone4 = decoder('exaone4', (hp, g) => {
  const windowed = hp.nLayer === WINDOWED;
  const window = windowed ? slidingWindows(g.gguf, 'exaone4', { window: 4096, pattern: 4 }) : () => 0;
  const table = angles(hp, g);
  return { layer: (il) => ({ angles: windowed && !window(il) ? undefined : table, window: window(il), norms: 'behind' }) };
});
