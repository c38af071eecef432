/** LG's EXAONE 4: norms behind the branches and of the heads of q and k. The 32B model has windows, and rope in their layers alone. */
import { angles, decoder } from './llama.ts';
import { slidingWindows } from './windows.ts';

/** Layers of the one model with windows; no key tells it from the others. */
const WINDOWED = 64;

export const exaone4 = decoder('exaone4', (hp, g) => {
  const windowed = hp.nLayer === WINDOWED;
  const window = windowed ? slidingWindows(g.gguf, 'exaone4', { window: 4096, pattern: 4 }) : () => 0;
  const table = angles(hp, g);
  return { layer: (il) => ({ angles: windowed && !window(il) ? undefined : table, window: window(il), norms: 'behind' }) };
});
