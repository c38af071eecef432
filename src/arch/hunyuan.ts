/** Tencent's dense Hunyuan: the norms of q and k heads follow the rotation. */
import { angles, decoder } from './llama.ts';

export const hunyuanDense = decoder('hunyuan-dense', (hp, g) => {
  const table = angles(hp, g);
  return { layer: () => ({ angles: table, normAfterRope: true }) };
});
