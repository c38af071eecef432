/** LLaVA 1.5 and 1.6, Granite Vision: CLIP or SigLIP without its last layer, and two products. */
import { concat } from '../../graph/ops.ts';
import type { Tensor } from '../../graph/tensor.ts';
import { reshape } from '../../graph/views.ts';
import { candidateTiles, fixedImage, type Size } from '../layout.ts';
import type { Colour } from '../resize.ts';
import { between, type ProjectorType } from '../projector.ts';
import { rowsFrom } from '../../encoder/transformer.ts';
import type { Tower } from '../tower.ts';

/** Colour of CLIP's mean, which fills the borders of pictures that are not square. */
const BORDER: Colour = [122, 116, 104];

/** States that the products read: of the last layer but one, or of several layers side by side. */
function features(t: Tower, start: Tensor): Tensor {
  const wanted = t.p.numbers('feature_layer');
  const last = wanted ? Math.max(...wanted) : t.p.nLayer - 1;
  const kept: Tensor[] = wanted?.includes(0) && last > 0 ? [start] : [];
  const x = t.vit(start, {
    layers: Math.min(last, t.p.nLayer),
    after: (states, il) => void (wanted?.includes(il + 1) && il + 1 < last && kept.push(states)),
  });
  return [...kept, x].reduce((a, b) => concat(a, b, 0));
}

export const mlp: ProjectorType = {
  names: ['mlp'],
  norm: 'layer',
  mayExchange: true,
  merge: () => 1,
  layout(p, width, height) {
    const points = p.numbers('image_grid_pinpoints');
    if (!points) return fixedImage(p.imageSize, 'bicubic', BORDER);
    const pairs = Array.from({ length: points.length >> 1 }, (_, i): Size => [points[2 * i], points[2 * i + 1]]);
    return candidateTiles(width, height, p.imageSize, pairs);
  },
  pieces: between('', ''),
  build(t) {
    const cls = t.has('v.class_embd');
    const n = t.nPatches;
    const x = cls ? concat(t.patches(), reshape(t.weight('v.class_embd'), [t.p.nEmbd, 1]), 1) : t.patches();
    const states = features(
      t,
      t.withRows(
        x,
        Int32Array.from({ length: x.ne[1] }, (_, i) => i),
      ),
    );
    // llama.cpp drops the first row, although the class is the last one.
    return t.mlp(cls ? rowsFrom(states, 1, n) : states, 'mm.0', 'mm.2');
  },
};
