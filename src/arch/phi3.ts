/** Phi 3 and 3.5: fused products, and with longrope one set of frequency factors up to the original context and another beyond it. */
import type { Architecture } from './architecture.ts';
import { decoderOutput, embed } from './blocks.ts';
import { llamaLayer } from './llama.ts';

export const phi3: Architecture = {
  name: 'phi3',
  build(hp, g) {
    // The context that the model is loaded with decides, for all positions: keys turned by one set are of no use beside those of the other.
    const angles = g.ropeTable(hp.rope, g.contextLength > hp.rope.nCtxOrig ? 'rope_factors_long.weight' : 'rope_factors_short.weight');
    let x = embed(g, hp);
    for (let il = 0; il < hp.nLayer; il++) x = llamaLayer(g, hp, il, x, { angles });
    return decoderOutput(g, hp, x);
  },
};
