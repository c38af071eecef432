/** GLM 4: norms before and after each branch, rope on the first dimensions of a head. */
import { angles, decoder, multimodalAngles } from './llama.ts';

export const glm4 = decoder('glm4', (hp, g) => {
  // Files of the vision models have sections, and rotate pairs that are half a head apart.
  const sections = multimodalAngles(hp, g);
  const table = sections ?? angles(hp, g);
  return { layer: () => ({ angles: table, mode: sections ? 'neox' : 'normal', norms: 'both' }) };
});
