/**
 * Images that an encoder sees of a picture: sizes, tiles, and the resizing that makes them. Sizes
 * are known before a pixel is touched.
 */
import { invalid, type Picture } from './picture.ts';
import { fit, stretch, tilesOf, type Colour, type Filter } from './resize.ts';

export type Size = readonly [width: number, height: number];

/** Images of one picture, in the order of their tokens. */
export interface ImageLayout {
  /** Columns and rows of tiles, which come before an overview; [0, 0]: one image and no tiles. */
  readonly grid: Size;
  /** Sizes of the images, in pixels. */
  readonly sizes: readonly Size[];
  make(picture: Picture): Picture[];
}

/** Number of tokens that the caller wants of an image, for types whose sizes follow the picture. */
export interface TokenLimits {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

/**
 * Largest number of pixels of all images of a picture: bounds thin pictures, whose sizes some rules
 * of resizing blow up.
 */
const MAX_IMAGE_PIXELS = 1 << 25;
/** Most tiles of a picture; files ask for a few dozen at most. */
const MAX_TILES = 256;
/** Longest side of an image, as in llama.cpp. */
const MAX_IMAGE_SIDE = 65536;

/** @throws ERR_IMAGE_INVALID if an image would have no pixels, or too many */
export function checkLayout(layout: ImageLayout, width: number, height: number): ImageLayout {
  const bad = layout.sizes.find(([w, h]) => !(w >= 1 && h >= 1 && w <= MAX_IMAGE_SIDE && h <= MAX_IMAGE_SIDE));
  const pixels = layout.sizes.reduce((sum, [w, h]) => sum + w * h, 0);
  if (bad || !(pixels <= MAX_IMAGE_PIXELS))
    throw invalid(
      `of ${width} x ${height} pixels would be resized to ${bad ? `${bad[0]} x ${bad[1]}` : `${pixels} pixels`}; expected a picture that is less long and thin`,
    );
  return layout;
}

const { fround } = Math;
/** Half away from zero, as C's round. */
const round = (x: number): number => Math.floor(x + 0.5);
const roundHalfEven = (x: number): number => (x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

/**
 * The size nearest to the picture's whose sides are multiples of `align`, with a number of pixels
 * between two bounds (llama.cpp's calc_size_preserved_ratio, in f32).
 */
export function alignedSize(width: number, height: number, align: number, minPixels: number, maxPixels: number): Size {
  const aligned = (f: (x: number) => number, x: number): number => f(fround(x / align)) * align;
  const w = Math.max(align, aligned(round, width));
  const h = Math.max(align, aligned(round, height));
  if (w * h > maxPixels) {
    const beta = fround(Math.sqrt(fround(fround(height * width) / maxPixels)));
    const smaller = (x: number): number => Math.max(align, aligned(Math.floor, fround(x / beta)));
    return [smaller(width), smaller(height)];
  }
  if (w * h < minPixels) {
    const beta = fround(Math.sqrt(fround(minPixels / fround(height * width))));
    const larger = (x: number): number => aligned(Math.ceil, fround(x * beta));
    return [larger(width), larger(height)];
  }
  return [w, h];
}

/** One image of a fixed size that keeps the picture's ratio. */
export const fixedImage = (size: number, filter: Filter, colour?: Colour): ImageLayout => ({
  grid: [0, 0],
  sizes: [[size, size]],
  make: (picture) => [fit(picture, size, size, filter, colour)],
});

/** One image whose size follows the picture: a token is `align` pixels wide and high. */
export function dynamicImage(
  width: number,
  height: number,
  align: number,
  { min, max }: Required<{ [K in keyof TokenLimits]: number }>,
): ImageLayout {
  const size = alignedSize(width, height, align, min * align * align, max * align * align);
  return { grid: [0, 0], sizes: [size], make: (picture) => [fit(picture, ...size, 'bicubic')] };
}

/** Tiles of one size on a grid, then an overview of the whole picture. */
export function tiledImage(
  [columns, rows]: Size,
  tile: Size,
  overview: Size,
  resize: (picture: Picture, w: number, h: number) => Picture,
  filter: Filter,
): ImageLayout {
  if (!Number.isInteger(columns) || !Number.isInteger(rows) || !(columns * rows <= MAX_TILES))
    throw invalid(`would be cut into ${columns} x ${rows} tiles; expected whole ones, at most ${MAX_TILES}`);
  return {
    grid: [columns, rows],
    sizes: [...Array.from({ length: columns * rows }, (): Size => tile), overview],
    make: (picture) => [...tilesOf(resize(picture, columns * tile[0], rows * tile[1]), ...tile), stretch(picture, ...overview, filter)],
  };
}

/**
 * LLaVA's tiles: the candidate that keeps most of the picture's pixels, or else wastes least. A
 * picture that fits one tile has no tiles.
 */
export function candidateTiles(width: number, height: number, size: number, candidates: readonly Size[]): ImageLayout {
  const overview: Size = [size, size];
  if (width <= size && height <= size) return oneImage(overview);
  let best: Size = overview;
  let most = 0;
  let least = Infinity;
  for (const candidate of candidates) {
    const [w, h] = candidate;
    const scale = Math.min(fround(w / width), fround(h / height));
    const used = Math.min(Math.trunc(fround(width * scale)) * Math.trunc(fround(height * scale)), width * height);
    const wasted = w * h - used;
    if (used < most || (used === most && wasted >= least)) continue;
    [best, most, least] = [candidate, used, wasted];
  }
  return tiledImage([best[0] / size, best[1] / size], overview, overview, (p, w, h) => fit(p, w, h, 'bicubic'), 'bicubic');
}

/**
 * SmolVLM's tiles: the longer side becomes `longest`, then both are stretched to whole tiles. There
 * are always tiles. The overview is made from the stretched picture.
 */
export function stretchedTiles(width: number, height: number, size: number, longest: number): ImageLayout {
  const even = (x: number): number => Math.trunc(x) + (Math.trunc(x) % 2);
  const ratio = width / height;
  const [w, h] = width >= height ? [longest, even(longest / ratio)] : [even(longest * ratio), longest];
  const grid: Size = [Math.ceil(w / size), Math.ceil(h / size)];
  const whole = (picture: Picture): Picture => stretch(stretch(picture, w, h, 'lanczos'), grid[0] * size, grid[1] * size, 'lanczos');
  if (w < 1 || h < 1)
    throw invalid(`of ${width} x ${height} pixels would be resized to ${w} x ${h}; expected a picture that is less long and thin`);
  const layout = tiledImage(grid, [size, size], [size, size], (picture) => picture, 'lanczos');
  return { ...layout, make: (picture) => layout.make(whole(picture)) };
}

/** LFM2's tiles: constants that its files do not have. */
const LFM2 = { tile: 512, align: 32, minTokens: 64, maxTokens: 256, tolerance: 2, maxTiles: 10 };

/** LFM2: one image, or for pictures that are much larger tiles and a smaller overview. */
export function lfm2Tiles(width: number, height: number, patch: number, { min, max }: TokenLimits): ImageLayout {
  const { tile, align, tolerance } = LFM2;
  const area = align * align;
  const maxPixels = (max ?? LFM2.maxTokens) * area;
  const own = alignedSize(width, height, align, (min ?? LFM2.minTokens) * area, maxPixels);
  const side = (x: number): number => Math.max(patch, roundHalfEven(x / align) * align);
  if (side(width) * side(height) <= tolerance * maxPixels)
    return { grid: [0, 0], sizes: [own], make: (picture) => [stretch(picture, ...own, 'bilinear')] };
  return tiledImage(lfm2Grid(width, height), [tile, tile], own, (p, w, h) => fit(p, w, h, 'bilinear'), 'bilinear');
}

/** The grid of 2 to 10 tiles whose ratio is nearest to the picture's, smaller ones first. */
function lfm2Grid(width: number, height: number): Size {
  const { tile, maxTiles } = LFM2;
  const ratio = fround(width / height);
  const grids: Size[] = [];
  for (let w = 1; w <= maxTiles; w++) for (let h = 1; h <= maxTiles; h++) if (w * h >= 2 && w * h <= maxTiles) grids.push([w, h]);
  grids.sort((a, b) => a[0] * a[1] - b[0] * b[1]);
  let best = grids[0];
  let least = Infinity;
  for (const grid of grids) {
    const [w, h] = grid;
    const distance = fround(Math.abs(fround(ratio - fround(w / h))));
    const larger = fround(width * height) > 0.5 * fround(tile * tile * w * h);
    if (distance > least || (distance === least && !larger)) continue;
    [best, least] = [grid, distance];
  }
  return best;
}

/** MiniCPM-V's most slices of a picture. */
const MAX_SLICES = 9;

/** Sides of about `size` x `size` pixels with the ratio of w x h, as multiples of `align`. */
export function sliceSize([w, h]: Size, size: number, align: number, enlarge: boolean): Size {
  const nearest = (x: number): number => Math.max(align, Math.trunc(fround(round(fround(x / align)) * align)));
  if (w * h <= size * size && !enlarge) return [nearest(w), nearest(h)];
  const ratio = fround(w / h);
  const height = Math.trunc(fround(size / fround(Math.sqrt(ratio))));
  return [nearest(Math.trunc(fround(height * ratio))), nearest(height)];
}

/**
 * MiniCPM-V's slices: a grid of as many slices as the picture has squares of `size`, one more or one
 * less, whose ratio is nearest to the picture's. A picture that fits one square has none.
 */
export function slicedImage(width: number, height: number, size: number, align: number): ImageLayout {
  if (width <= size && height <= size) return oneImage([size, size]);
  const wanted = Math.min(Math.ceil(fround(fround(width * height) / (size * size))), MAX_SLICES);
  const ratio = fround(Math.log(fround(width / height)));
  let grid: Size = [1, 1];
  let least = Infinity;
  for (const n of [wanted - 1, wanted, wanted + 1]) {
    if (n === 1 || n > MAX_SLICES) continue;
    for (let columns = 1; columns <= n; columns++) {
      if (n % columns !== 0) continue;
      const difference = fround(Math.abs(ratio - Math.log(columns / (n / columns))));
      if (difference < least) [grid, least] = [[columns, n / columns], difference];
    }
  }
  const [columns, rows] = grid;
  // Sides become multiples of the grid first, so that slices have whole pixels.
  const side = (x: number, n: number): number => Math.max(1, round(fround(x / n)));
  const slice = sliceSize([side(width, columns), side(height, rows)], size, align, true);
  const overview = sliceSize([width, height], size, align, false);
  return tiledImage(grid, slice, overview, (p, w, h) => fit(p, w, h, 'bicubic'), 'bicubic');
}

/** One image of this size, stretched. */
export const oneImage = (size: Size): ImageLayout => ({
  grid: [0, 0],
  sizes: [size],
  make: (picture) => [stretch(picture, ...size, 'bicubic')],
});
