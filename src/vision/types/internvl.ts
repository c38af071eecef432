/** InternVL: tiles, a class embedding after the patches, pixel shuffle, two products. */
import { concat } from '../../graph/ops.ts';
import { reshape } from '../../graph/views.ts';
import { candidateTiles, type Size } from '../layout.ts';
import type { VisionParams } from '../params.ts';
import { between, scaleFactor, type ProjectorType } from '../projector.ts';
import { joined, rowsFrom } from '../../encoder/transformer.ts';

/** All grids of as many tiles as the file allows. */
function candidates(p: VisionParams): Size[] {
  const [least, most] = [p.count('preproc_min_tiles', 1), Math.min(p.count('preproc_max_tiles', 12), 64)];
  const sides = Array.from({ length: Math.max(0, most - least + 1) }, (_, i) => least + i);
  return sides
    .flatMap((a) => sides.map((b): Size => [a, b]))
    .filter(([a, b]) => a * b >= least && a * b <= most)
    .map(([a, b]) => [a * p.imageSize, b * p.imageSize]);
}

export const internvl: ProjectorType = {
  names: ['internvl'],
  norm: 'layer',
  merge: (p) => scaleFactor(p),
  layout: (p, width, height) => candidateTiles(width, height, p.imageSize, candidates(p)),
  pieces: between('<img>', '</img>'),
  build(t) {
    const { nEmbd } = t.p;
    const n = t.nPatches;
    const all = concat(t.patches(), reshape(t.weight('v.class_embd'), [nEmbd, 1]), 1);
    const x = t.vit(t.withRows(all, Int32Array.from([...t.grid.places, n])));
    const y = joined(rowsFrom(x, 0, n), scaleFactor(t.p) ** 2);
    return t.mlp(t.norm(y, 'mm.model.mlp.0', { eps: 1e-5 }), 'mm.model.mlp.1', 'mm.model.mlp.3');
  },
};
