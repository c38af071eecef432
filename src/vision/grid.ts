/** Patches of an image: their order, their pixels, and tables that depend on their places. */
import { fromF16, toF16 } from '../core/float16.ts';
import type { VisionParams } from './params.ts';
import type { Picture } from './picture.ts';

/** A grid of patches, in the order in which the encoder has them. */
export interface Grid {
  readonly columns: number;
  readonly rows: number;
  /** Row * columns + column of each patch. */
  readonly places: Int32Array;
}

/**
 * Patches in blocks of `merge` x `merge`, row by row, so that the patches of a token are
 * neighbours. Encoders do not see the order of patches.
 */
export function blockOrder(columns: number, rows: number, merge: number): Grid {
  const places = new Int32Array(columns * rows);
  let i = 0;
  for (let y = 0; y < rows; y += merge)
    for (let x = 0; x < columns; x += merge)
      for (let dy = 0; dy < merge; dy++) for (let dx = 0; dx < merge; dx++) places[i++] = (y + dy) * columns + x + dx;
  return { columns, rows, places };
}

/**
 * Pixels of each patch as a column of the first product: f32 [patch * patch * 3, patches], channel
 * by channel. Pixels are normalised, mapped by `pixel`, and rounded to f16, as ggml's im2col does.
 */
export function patchColumns(
  { rgb, width }: Picture,
  { columns, places }: Grid,
  { patch, mean, std }: VisionParams,
  pixel: (value: number) => number = (value) => value,
): Float32Array {
  const { fround } = Math;
  const values = [0, 1, 2].map((c) =>
    Float32Array.from({ length: 256 }, (_, v) =>
      fromF16(toF16(fround(pixel(fround(fround(fround(v / 255) - fround(mean[c])) / fround(std[c])))))),
    ),
  );
  const out = new Float32Array(3 * patch * patch * places.length);
  let to = 0;
  for (const place of places) {
    const corner = Math.floor(place / columns) * patch * width + (place % columns) * patch;
    for (let c = 0; c < 3; c++)
      for (let y = 0; y < patch; y++) {
        let from = 3 * (corner + y * width) + c;
        for (let x = 0; x < patch; x++, from += 3) out[to++] = values[c][rgb[from]];
      }
  }
  return out;
}

/** Rows of a table of positions and their weights, for each place along one side. */
type Taps = readonly (readonly [row: number, weight: number])[];

/** Method of stretching a table of N x N positions to a grid; takes the side of the grid, and N. */
export type Interpolation = (n: number, size: number) => readonly Taps[];

const each = <T>(n: number, of: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => of(i));

/** Bilinear, with the corners of table and grid aligned. */
export const alignedCorners: Interpolation = (n, size) =>
  each(n, (i) => {
    const at = n > 1 ? (i * (size - 1)) / (n - 1) : 0;
    const low = Math.min(Math.floor(at), size - 1);
    return [
      [low, 1 - (at - low)],
      [Math.min(low + 1, size - 1), at - low],
    ];
  });

/** Bilinear with antialias: the triangle is widened when the table is shrunk. */
export const antialiased: Interpolation = (n, size) =>
  each(n, (i) => {
    const scale = size / n;
    const wide = Math.max(1, scale);
    const centre = (i + 0.5) * scale;
    const from = Math.max(0, Math.floor(centre - wide + 0.5));
    const to = Math.min(size, Math.floor(centre + wide + 0.5));
    const taps = each(to - from, (j): [number, number] => [from + j, Math.max(0, 1 - Math.abs((from + j - centre + 0.5) / wide))]);
    const sum = taps.reduce((a, [, w]) => a + w, 0);
    return taps.map(([row, w]) => [row, w / sum] as const);
  });

/** Bicubic with a = -0.75, as in torch. */
export const bicubic: Interpolation = (n, size) => {
  const a = -0.75;
  const near = (d: number): number => ((a + 2) * d - (a + 3)) * d * d + 1;
  const far = (d: number): number => ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return each(n, (i) => {
    const at = ((i + 0.5) * size) / n - 0.5;
    const low = Math.floor(at);
    const d = at - low;
    return [far(d + 1), near(d), near(1 - d), far(2 - d)].map((w, j) => [Math.max(0, Math.min(size - 1, low - 1 + j)), w] as const);
  });
};

/** Rows of a table [width, N * N] for a grid: f32 [width, patches]. */
export function interpolated(table: Float32Array, width: number, { columns, rows, places }: Grid, how: Interpolation): Float32Array {
  const size = Math.round(Math.sqrt(table.length / width));
  const [xs, ys] = [how(columns, size), how(rows, size)];
  const out = new Float32Array(width * places.length);
  const row = new Float64Array(width);
  places.forEach((place, i) => {
    row.fill(0);
    for (const [y, wy] of ys[Math.floor(place / columns)])
      for (const [x, wx] of xs[place % columns]) {
        const from = (y * size + x) * width;
        for (let j = 0; j < width; j++) row[j] += wx * wy * table[from + j];
      }
    out.set(row, i * width);
  });
  return out;
}

/** An axis of the grid, and the exponent of the base, for each pair of a head's dimensions. */
export type PairAngle = (pair: number) => { readonly axis: 'row' | 'column'; readonly exponent: number };

/** Table of angles for rope(), f32 [head_dim, patches]: alternating cos and sin of each pair. */
export function gridAngles({ columns, places }: Grid, headDim: number, base: number, angleOf: PairAngle): Float32Array {
  const pairs = each(headDim / 2, angleOf);
  const out = new Float32Array(headDim * places.length);
  places.forEach((place, i) => {
    const [row, column] = [Math.floor(place / columns), place % columns];
    pairs.forEach(({ axis, exponent }, pair) => {
      const angle = (axis === 'row' ? row : column) * base ** exponent;
      out[i * headDim + 2 * pair] = Math.cos(angle);
      out[i * headDim + 2 * pair + 1] = Math.sin(angle);
    });
  });
  return out;
}

/**
 * gridAngles() whose first half of the pairs turns by one axis and the second by the other, with
 * the same frequencies.
 */
export const halves = (grid: Grid, headDim: number, base: number, first: 'row' | 'column'): Float32Array =>
  gridAngles(grid, headDim, base, (pair) => {
    const quarter = headDim / 4;
    return { axis: pair < quarter === (first === 'row') ? 'row' : 'column', exponent: (-2 * (pair % quarter)) / (headDim / 2) };
  });
