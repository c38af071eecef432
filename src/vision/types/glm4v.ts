/** GLM 4.1V to 4.6V: bicubic positions, rope by row and column, merged patches, a gated product. */
import { gelu_erf, mul } from '../../graph/elementwise-ops.ts';
import { cont } from '../../graph/ops.ts';
import { permute, reshape } from '../../graph/views.ts';
import { bicubic } from '../grid.ts';
import { dynamicImage } from '../layout.ts';
import type { VisionParams } from '../params.ts';
import { between, type ProjectorType } from '../projector.ts';
import { joined } from '../../encoder/transformer.ts';
import { visionAngles } from './qwen-vl.ts';

const mergeOf = (p: VisionParams): number => p.count('spatial_merge_size', 2);

export const glm4v: ProjectorType = {
  names: ['glm4v'],
  norm: 'rms',
  inRows: true,
  merge: mergeOf,
  layout: (p, width, height, { min = 8, max = 4096 }) => dynamicImage(width, height, p.patch * mergeOf(p), { min, max }),
  pieces: between('<|begin_of_image|>', '<|end_of_image|>'),
  build(t) {
    const { nEmbd } = t.p;
    const size = mergeOf(t.p) ** 2;
    const x = t.vit(t.withPositions(t.norm(t.patches(), 'v.norm_embd'), bicubic), { angles: visionAngles(t) });
    const channels = cont(permute(reshape(x, [nEmbd, size, t.nPatches / size]), 1, 0, 2, 3));
    const merged = t.linear(joined(reshape(channels, [nEmbd, t.nPatches]), size), 'mm.patch_merger');
    const h = gelu_erf(t.norm(t.linear(merged, 'mm.model.fc'), 'mm.post_norm', { kind: 'layer', eps: 1e-5 }));
    return t.linear(mul(t.act(t.linear(h, 'mm.gate')), t.linear(h, 'mm.up')), 'mm.down');
  },
};
