/** Qwen 2, 2.5, 3 and 3.5 VL: blocks of 2 x 2 patches, rope by row and column, windows, deepstack. */
import type { Tensor } from '../../graph/tensor.ts';
import { concat, get_rows } from '../../graph/ops.ts';
import { alignedCorners, halves } from '../grid.ts';
import { dynamicImage } from '../layout.ts';
import type { VisionParams } from '../params.ts';
import { between, type ProjectorType } from '../projector.ts';
import { joined, type VitOptions } from '../../encoder/transformer.ts';
import type { Tower } from '../tower.ts';

const mergeOf = (p: VisionParams): number => p.count('spatial_merge_size', 2);

/** The first half of the pairs turns by row, the second by column, with the same frequencies. */
export const visionAngles = ({ grid, p: { headDim } }: Pick<Tower, 'grid' | 'p'>): VitOptions['angles'] => ({
  mode: 'neox',
  table: halves(grid, headDim, 10000, 'row'),
});

const common = {
  inRows: true,
  merge: mergeOf,
  layout: (p: VisionParams, width: number, height: number, { min = 8, max = 4096 }) =>
    dynamicImage(width, height, p.patch * mergeOf(p), { min, max }),
  pieces: between('<|vision_start|>', '<|vision_end|>'),
};

const merged = (t: Tower, x: Tensor): Tensor => joined(x, mergeOf(t.p) ** 2);

export const qwen2vl: ProjectorType = {
  ...common,
  names: ['qwen2vl_merger'],
  norm: 'layer',
  mayExchange: true,
  build: (t) => t.mlp(merged(t, t.vit(t.patches(), { angles: visionAngles(t) })), 'mm.0', 'mm.2'),
};

/** Side of a window in pixels; files do not say another one. */
const WINDOW = 112;

/**
 * Tokens window by window: the order of tokens, and for each patch the run of patches of its
 * window.
 */
function windows({ grid, p }: Tower): { readonly order: Int32Array; readonly first: Int32Array; readonly count: Int32Array } {
  const merge = mergeOf(p);
  const [columns, rows] = [grid.columns / merge, grid.rows / merge];
  const side = Math.max(1, Math.floor(WINDOW / p.patch / merge));
  const order: number[] = [];
  const size = merge * merge;
  const first = new Int32Array(size * columns * rows);
  const count = new Int32Array(first.length);
  for (let top = 0; top < rows; top += side)
    for (let left = 0; left < columns; left += side) {
      const from = size * order.length;
      for (let y = top; y < Math.min(top + side, rows); y++)
        for (let x = left; x < Math.min(left + side, columns); x++) order.push(y * columns + x);
      const end = size * order.length;
      first.fill(from, from, end);
      count.fill(end - from, from, end);
    }
  return { order: Int32Array.from(order), first, count };
}

export const qwen25vl: ProjectorType = {
  ...common,
  names: ['qwen2.5vl_merger'],
  norm: 'rms',
  mayExchange: true,
  build(t) {
    const { order, first, count } = windows(t);
    const size = mergeOf(t.p) ** 2;
    const patchOrder = Int32Array.from({ length: size * order.length }, (_, i) => size * order[Math.floor(i / size)] + (i % size));
    const inverse = new Int32Array(order.length);
    order.forEach((token, i) => (inverse[token] = i));
    const pattern = t.p.count('n_wa_pattern');
    const runs = { first, count };
    // Angles follow the patches into the order of windows.
    const inWindows = { ...t.grid, places: patchOrder.map((i) => t.grid.places[i]) };
    const angles = visionAngles({ grid: inWindows, p: t.p });
    const x = t.vit(get_rows(t.patches(), t.input('order of windows', [patchOrder.length], patchOrder)), {
      angles,
      runs: (il) => ((il + 1) % pattern === 0 ? undefined : runs),
    });
    return get_rows(t.mlp(merged(t, x), 'mm.0', 'mm.2'), t.input('order of tokens', [inverse.length], inverse));
  },
};

export const qwen3vl: ProjectorType = {
  ...common,
  names: ['qwen3vl_merger'],
  norm: 'layer',
  build(t) {
    const deep: Tensor[] = [];
    const x = t.vit(t.withPositions(t.patches(), alignedCorners), {
      angles: visionAngles(t),
      after(states, il) {
        const name = `v.deepstack.${il}`;
        if (t.has(`${name}.fc1.weight`)) deep.push(t.mlp(t.norm(merged(t, states), `${name}.norm`), `${name}.fc1`, `${name}.fc2`));
      },
    });
    return [t.mlp(merged(t, x), 'mm.0', 'mm.2'), ...deep].reduce((a, b) => concat(a, b, 0));
  },
};
