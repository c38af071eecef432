/**
 * Resizing as Pillow does it, bit for bit: a horizontal pass and a vertical one over 8-bit pixels,
 * with weights in 22-bit fixed point.
 */
import type { Picture } from './picture.ts';

export type Filter = 'bilinear' | 'bicubic' | 'lanczos';

interface Kernel {
  /** Distance at which the weight is 0. */
  readonly reach: number;
  weight(x: number): number;
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI));
/** Coefficient of the cubic, as Pillow has it. */
const A = -0.5;

function cubic(t: number): number {
  const x = Math.abs(t);
  if (x < 1) return ((A + 2) * x - (A + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * A : 0;
}

const KERNELS: Readonly<Record<Filter, Kernel>> = {
  bilinear: { reach: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { reach: 2, weight: cubic },
  lanczos: { reach: 3, weight: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

const BITS = 22;

/** For each output: its first source, and weights of the sources from there on. */
interface Taps {
  readonly from: Int32Array;
  readonly count: Int32Array;
  /** `most` weights for each output. */
  readonly weights: Int32Array;
  readonly most: number;
}

function tapsOf(size: number, target: number, { reach, weight }: Kernel): Taps {
  const scale = size / target;
  // When shrinking, the kernel covers all the sources of an output.
  const wide = Math.max(scale, 1);
  const support = reach * wide;
  const most = Math.ceil(support) * 2 + 1;
  const taps = { from: new Int32Array(target), count: new Int32Array(target), weights: new Int32Array(target * most), most };
  for (let i = 0; i < target; i++) {
    const centre = (i + 0.5) * scale;
    const from = Math.max(0, Math.trunc(centre - support + 0.5));
    const to = Math.min(size, Math.trunc(centre + support + 0.5));
    const exact = Array.from({ length: to - from }, (_, j) => weight((from + j - centre + 0.5) / wide));
    const sum = exact.reduce((a, w) => a + w, 0);
    taps.from[i] = from;
    taps.count[i] = to - from;
    exact.forEach((w, j) => {
      const scaled = (w / sum) * (1 << BITS);
      taps.weights[i * most + j] = Math.trunc(scaled + (scaled < 0 ? -0.5 : 0.5));
    });
  }
  return taps;
}

/**
 * One pass: `lines` lines of `target` outputs. `step` is the distance of a line's samples, `next`
 * the distance of lines, for sources and outputs.
 */
function pass(
  source: Uint8Array,
  taps: Taps,
  { lines, step, next, stepOut, nextOut }: { lines: number; step: number; next: number; stepOut: number; nextOut: number },
): Uint8ClampedArray {
  const target = taps.from.length;
  const out = new Uint8ClampedArray(3 * target * lines);
  for (let line = 0; line < lines; line++) {
    for (let i = 0; i < target; i++) {
      const to = line * nextOut + i * stepOut;
      let at = line * next + taps.from[i] * step;
      let red = 1 << (BITS - 1);
      let green = red;
      let blue = red;
      const end = i * taps.most + taps.count[i];
      for (let k = i * taps.most; k < end; k++, at += step) {
        const w = taps.weights[k];
        red += w * source[at];
        green += w * source[at + 1];
        blue += w * source[at + 2];
      }
      out[to] = red >> BITS;
      out[to + 1] = green >> BITS;
      out[to + 2] = blue >> BITS;
    }
  }
  return out;
}

const bytesOf = (a: Uint8ClampedArray): Uint8Array => new Uint8Array(a.buffer);

/** A picture of exactly this size. */
export function stretch({ width, height, rgb }: Picture, w: number, h: number, filter: Filter): Picture {
  const kernel = KERNELS[filter];
  let pixels = rgb;
  if (w !== width)
    pixels = bytesOf(pass(pixels, tapsOf(width, w, kernel), { lines: height, step: 3, next: 3 * width, stepOut: 3, nextOut: 3 * w }));
  if (h !== height)
    pixels = bytesOf(pass(pixels, tapsOf(height, h, kernel), { lines: w, step: 3 * w, next: 3, stepOut: 3 * w, nextOut: 3 }));
  return { width: w, height: h, rgb: pixels };
}

export type Colour = readonly [red: number, green: number, blue: number];

/** A picture of this size that keeps the ratio, centred on one colour. */
export function fit(picture: Picture, w: number, h: number, filter: Filter, colour: Colour = [0, 0, 0]): Picture {
  if (picture.width === w && picture.height === h) return picture;
  const { fround } = Math;
  const scale = Math.min(fround(w / picture.width), fround(h / picture.height));
  const inner = stretch(
    picture,
    Math.min(w, Math.ceil(fround(picture.width * scale))),
    Math.min(h, Math.ceil(fround(picture.height * scale))),
    filter,
  );
  const rgb = new Uint8Array(3 * w * h);
  if (colour.some((c) => c !== 0)) for (let i = 0; i < rgb.length; i++) rgb[i] = colour[i % 3];
  const x = Math.trunc((w - inner.width) / 2);
  const y = Math.trunc((h - inner.height) / 2);
  const row = 3 * inner.width;
  for (let i = 0; i < inner.height; i++) rgb.set(inner.rgb.subarray(i * row, (i + 1) * row), 3 * ((y + i) * w + x));
  return { width: w, height: h, rgb };
}

/** Tiles of this size, row by row. The picture's sides are multiples of the tile's. */
export function tilesOf(picture: Picture, width: number, height: number): Picture[] {
  const tiles: Picture[] = [];
  for (let y = 0; y < picture.height; y += height)
    for (let x = 0; x < picture.width; x += width) {
      const rgb = new Uint8Array(3 * width * height);
      for (let i = 0; i < height; i++) {
        const from = 3 * ((y + i) * picture.width + x);
        rgb.set(picture.rgb.subarray(from, from + 3 * width), 3 * i * width);
      }
      tiles.push({ width, height, rgb });
    }
  return tiles;
}
