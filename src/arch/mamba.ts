/** Mamba 1 (also FalconMamba) and 2: layers consist of a mixer only. */
import { add } from '../graph/elementwise-ops.ts';
import type { Architecture } from './architecture.ts';
import { decoderOutput, embed, norm } from './blocks.ts';
import { mamba2Mixer, mambaMixer } from './recurrent.ts';

const mixers = (name: string, mixer: typeof mambaMixer): Architecture => ({
  name,
  build(hp, g) {
    let x = embed(g, hp);
    for (let il = 0; il < hp.nLayer; il++) x = add(mixer(g, hp, il, norm(g, hp, x, `blk.${il}.attn_norm`)), x);
    return decoderOutput(g, hp, x);
  },
});

export const mamba = mixers('mamba', mambaMixer);
export const mamba2 = mixers('mamba2', mamba2Mixer);
