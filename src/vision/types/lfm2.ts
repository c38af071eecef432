/** LFM2-VL: SigLIP 2 with stretched positions, pixel shuffle, two products. */
import { antialiased } from '../grid.ts';
import { lfm2Tiles, type ImageLayout } from '../layout.ts';
import { scaleFactor, type ProjectorType, type PromptPiece } from '../projector.ts';
import { joined } from '../../encoder/transformer.ts';

function pieces({ grid: [columns, rows] }: ImageLayout): PromptPiece[] {
  const tiles = Array.from({ length: columns * rows }, (_, i): PromptPiece[] => [
    { text: `<|img_row_${Math.floor(i / columns) + 1}_col_${(i % columns) + 1}|>` },
    { image: i },
  ]);
  const overview: PromptPiece[] = [...(tiles.length > 0 ? [{ text: '<|img_thumbnail|>' }] : []), { image: tiles.length }];
  return [{ text: '<|image_start|>' }, ...tiles.flat(), ...overview, { text: '<|image_end|>' }];
}

export const lfm2: ProjectorType = {
  names: ['lfm2'],
  norm: 'layer',
  merge: (p) => scaleFactor(p),
  layout: (p, width, height, limits) => lfm2Tiles(width, height, p.patch, limits),
  pieces,
  build(t) {
    const x = joined(t.vit(t.withPositions(t.patches(), antialiased)), scaleFactor(t.p) ** 2);
    return t.mlp(t.has('mm.input_norm.weight') ? t.norm(x, 'mm.input_norm', { eps: 1e-5 }) : x, 'mm.1', 'mm.2');
  },
};
