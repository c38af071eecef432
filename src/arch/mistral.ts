/**
 * Mistral 3 and Ministral: Llama with YaRN, and queries scaled up with their position
 * ("temperature").
 */
import { getNumber } from '../gguf/metadata.ts';
import { angles, decoder } from './llama.ts';

export const mistral3 = decoder('mistral3', (hp, g) => {
  const scale = getNumber(g.gguf, 'mistral3.attention.temperature_scale', 0);
  const table = angles(hp, g);
  const queryAngles = scale ? angles({ ...hp, rope: { ...hp.rope, temperature: { scale, length: hp.rope.nCtxOrig } } }, g) : table;
  return { layer: () => ({ angles: table, queryAngles, mode: 'normal' }) };
});
