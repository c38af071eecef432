/** Pixtral, Mistral Small 3, Ministral 3: rope by row and column, patches merged, a break after each row. */
import { concat, cont, get_rows } from '../../graph/ops.ts';
import { permute, reshape } from '../../graph/views.ts';
import { gridAngles } from '../grid.ts';
import { dynamicImage } from '../layout.ts';
import type { VisionParams } from '../params.ts';
import { between, type ProjectorType } from '../projector.ts';
import { joined } from '../../encoder/transformer.ts';

const mergeOf = (p: VisionParams): number => p.count('spatial_merge_size', 1);

export const pixtral: ProjectorType = {
  names: ['pixtral'],
  norm: 'rms',
  merge: mergeOf,
  layout: (p, width, height, { min = 8, max = 1024 }) => dynamicImage(width, height, p.patch * mergeOf(p), { min, max }),
  tokens: (columns, rows) => columns * rows + rows - 1,
  pieces: between('', '[IMG_END]'),
  build(t) {
    const { headDim, nEmbd } = t.p;
    const size = mergeOf(t.p) ** 2;
    const table = gridAngles(t.grid, headDim, 10000, (pair) =>
      pair < headDim / 4
        ? { axis: 'row', exponent: (-4 * pair) / headDim }
        : { axis: 'column', exponent: -(4 * (pair - headDim / 4) + 2) / headDim },
    );
    let x = t.vit(t.patches(), { angles: { table, mode: 'normal' } });
    if (t.has('mm.patch_merger.weight')) {
      // Features of a convolution: channel by channel, each with its patches.
      const patches = reshape(t.norm(x, 'mm.input_norm'), [nEmbd, size, t.nPatches / size]);
      x = t.linear(joined(reshape(cont(permute(patches, 1, 0, 2, 3)), [nEmbd, t.nPatches]), size), 'mm.patch_merger');
    }
    const y = t.mlp(x, 'mm.1', 'mm.2');
    const columns = t.grid.columns / mergeOf(t.p);
    const n = y.ne[1];
    const order = Array.from({ length: n }, (_, i) => ((i + 1) % columns === 0 && i + 1 < n ? [i, n] : [i])).flat();
    const all = concat(y, reshape(t.weight('v.token_embd.img_break'), [y.ne[0], 1]), 1);
    return get_rows(all, t.input('order of tokens', [order.length], Int32Array.from(order)));
  },
};
