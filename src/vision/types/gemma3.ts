/** Gemma 3, MedGemma: SigLIP, average pooling, and a product. Images are not in causal order. */
import { fixedImage } from '../layout.ts';
import { between, scaleFactor, type ProjectorType } from '../projector.ts';

/** Patches per side of a token, if the file does not say. */
const POOL = 4;

export const gemma3: ProjectorType = {
  names: ['gemma3'],
  norm: 'layer',
  mayExchange: true,
  causal: () => false,
  transposed: ['mm.input_projection.weight'],
  merge: (p) => scaleFactor(p, POOL),
  layout: (p) => fixedImage(p.imageSize, 'bilinear'),
  pieces: between('<start_of_image>', '<end_of_image>'),
  build(t) {
    const pooled = t.pooled(t.vit(t.withRows(t.patches(), t.grid.places)), scaleFactor(t.p, POOL) ** 2);
    return t.linear(t.norm(pooled, 'mm.soft_emb_norm', { kind: 'rms' }), 'mm.input_projection');
  },
};
