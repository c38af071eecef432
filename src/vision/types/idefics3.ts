/** SmolVLM, Granite Docling: SigLIP, tiles, pixel shuffle and one product. */
import { stretchedTiles, type ImageLayout } from '../layout.ts';
import { scaleFactor, type ProjectorType, type PromptPiece } from '../projector.ts';
import { joined } from '../../encoder/transformer.ts';

const AROUND = '<fake_token_around_image>';

function pieces({ grid: [columns, rows] }: ImageLayout): PromptPiece[] {
  const tiles = Array.from({ length: rows }, (_, y) => {
    const row = Array.from({ length: columns }, (_, x): PromptPiece[] => [
      { text: `${AROUND}<row_${y + 1}_col_${x + 1}>` },
      { image: y * columns + x },
    ]);
    return [...row.flat(), ...(y + 1 < rows ? [{ token: '\n' }] : [])];
  });
  const overview: PromptPiece[] = [
    { token: '\n\n' },
    { token: AROUND },
    { token: '<global-img>' },
    { image: columns * rows },
    { token: AROUND },
  ];
  return [...tiles.flat(), ...overview];
}

export const idefics3: ProjectorType = {
  names: ['idefics3'],
  norm: 'layer',
  mayExchange: true,
  merge: (p) => scaleFactor(p),
  layout: (p, width, height) => stretchedTiles(width, height, p.imageSize, p.count('preproc_image_size')),
  pieces,
  build(t) {
    const merge = scaleFactor(t.p);
    return t.linear(joined(t.vit(t.withRows(t.patches(), t.grid.places)), merge * merge), 'mm.model.fc');
  },
};
