/** Gemma 4: a table of positions and rope by column and row, average pooling, and a product. */
import { mul, scale, sub } from '../../graph/elementwise-ops.ts';
import { rms_norm } from '../../graph/row-ops.ts';
import { halves } from '../grid.ts';
import { dynamicImage, type TokenLimits } from '../layout.ts';
import type { VisionParams } from '../params.ts';
import { between, scaleFactor, type ProjectorType } from '../projector.ts';

/** Patches per side of a token: 3, if the file does not say. */
const poolOf = (p: VisionParams): number => scaleFactor(p, 3);

const limitsOf = ({ min = 70, max = 1120 }: TokenLimits): { min: number; max: number } => ({ min, max });

/** Widths of E2B and E4B, whose images are in causal order. Their files do not say it. */
const CAUSAL: readonly number[] = [1536, 2560];

export const gemma4v: ProjectorType = {
  names: ['gemma4v'],
  norm: 'rms',
  scale: 1,
  valueNorm: true,
  causal: (width) => CAUSAL.includes(width),
  most: (limits) => Math.max(...Object.values(limitsOf(limits))),
  pixel: (value) => 2 * value - 1,
  merge: poolOf,
  layout: (p, width, height, limits) => dynamicImage(width, height, p.patch * poolOf(p), limitsOf(limits)),
  pieces: between('<|image>', '<image|>'),
  build(t) {
    const { eps, headDim, nEmbd } = t.p;
    const { columns, places } = t.grid;
    const inColumns = t.withRows(
      t.patches(),
      places.map((place) => place % columns),
      { parts: 2 },
    );
    const start = t.withRows(
      inColumns,
      places.map((place) => Math.floor(place / columns)),
      { part: 1, parts: 2 },
    );
    const x = t.vit(start, { angles: { table: halves(t.grid, headDim, 100, 'column'), mode: 'neox', inHalves: true } });
    const pooled = scale(t.pooled(x, poolOf(t.p) ** 2), Math.sqrt(nEmbd));
    const isStandard = t.has('v.std_bias') && t.has('v.std_scale');
    const y = isStandard ? mul(sub(pooled, t.weight('v.std_bias')), t.weight('v.std_scale')) : pooled;
    return t.linear(rms_norm(y, { eps }), 'mm.input_projection');
  },
};
