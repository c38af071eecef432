/** Kimi-VL: MoonViT with stretched positions and rope by column and row. */
import { antialiased, halves } from '../grid.ts';
import { dynamicImage } from '../layout.ts';
import { between, scaleFactor, type ProjectorType } from '../projector.ts';
import { joined } from '../../encoder/transformer.ts';

export const kimivl: ProjectorType = {
  names: ['kimivl'],
  norm: 'layer',
  merge: (p) => scaleFactor(p, 2),
  layout: (p, width, height, { min = 8, max = 1024 }) => dynamicImage(width, height, p.patch * scaleFactor(p, 2), { min, max }),
  pieces: between('<|media_start|>', '<|media_end|>'),
  build(t) {
    const table = halves(t.grid, t.p.headDim, 10000, 'column');
    const x = t.vit(t.withPositions(t.patches(), antialiased), { angles: { table, mode: 'normal' } });
    return t.mlp(joined(t.norm(x, 'mm.input_norm', { eps: 1e-5 }), scaleFactor(t.p, 2) ** 2), 'mm.1', 'mm.2');
  },
};
