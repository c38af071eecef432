/**
 * Apertus: norms of q and k heads, and a feed-forward without a gate. Its activation is xIELU, with
 * parameters for each layer in the metadata.
 */
import { getNumberPerLayer } from '../gguf/metadata.ts';
import { xielu } from '../graph/elementwise-ops.ts';
import { linear } from './blocks.ts';
import { angles, decoder } from './llama.ts';

export const apertus = decoder('apertus', (hp, g) => {
  const [alphaN, alphaP, beta, eps] = ['alpha_n', 'alpha_p', 'beta', 'eps'].map((k) => getNumberPerLayer(g.gguf, `xielu.${k}`, hp.nLayer));
  const table = angles(hp, g);
  return {
    layer: (il) => ({
      angles: table,
      feedForward: (h) => {
        const activated = xielu(linear(g, h, `blk.${il}.ffn_up`, hp.nFf), alphaN[il], alphaP[il], beta[il], eps[il]);
        return linear(g, activated, `blk.${il}.ffn_down`, hp.nEmbd);
      },
    }),
  };
});
