/** Planes of a JPEG's components to RGB: stb_image's filters and 20-bit fixed point. */
import { checkSize } from '../picture.ts';
import type { Component, Frame } from './frame.ts';

export interface ColourMarks {
  /** Transform of Adobe's marker; -1: no marker. */
  readonly adobe: number;
  readonly jfif: boolean;
}

/** Rows of a component at the frame's size. The result is valid until the next call. */
type Rows = (y: number) => ArrayLike<number>;

/** Triangle filters for a factor of 2; other factors repeat samples. */
function rowsOf({ plane, across, width, height, h, v }: Component, { hMax, vMax }: Frame): Rows {
  const [wide, high] = [hMax / h, vMax / v];
  const stride = 8 * across;
  const line = (y: number): Uint8ClampedArray => {
    const row = Math.min(Math.max(y, 0), height - 1);
    return plane.subarray(row * stride, row * stride + width);
  };
  const out = new Uint8Array(width * wide);
  const near = (y: number): number => Math.floor(y / high);
  /** The row that weighs a quarter: above for the first half of a sample, below for the second. */
  const far = (y: number): number => near(y) + (y % 2 === 0 ? -1 : 1);
  if (wide === 1 && high === 1) return line;
  if (wide === 1 && high === 2) return (y) => tall(out, line(near(y)), line(far(y)));
  if (wide === 2 && high === 1) return (y) => long(out, line(near(y)));
  if (wide === 2 && high === 2) return (y) => both(out, line(near(y)), line(far(y)));
  return (y) => {
    const row = line(near(y));
    for (let x = 0; x < out.length; x++) out[x] = row[Math.floor(x / wide)];
    return out;
  };
}

function tall(out: Uint8Array, near: Uint8ClampedArray, far: Uint8ClampedArray): Uint8Array {
  for (let i = 0; i < near.length; i++) out[i] = (3 * near[i] + far[i] + 2) >> 2;
  return out;
}

function long(out: Uint8Array, row: Uint8ClampedArray): Uint8Array {
  const n = row.length;
  out[0] = row[0];
  out[2 * n - 1] = row[n - 1];
  if (n === 1) return out;
  out[1] = (3 * row[0] + row[1] + 2) >> 2;
  for (let i = 1; i < n - 1; i++) {
    out[2 * i] = (3 * row[i] + row[i - 1] + 2) >> 2;
    out[2 * i + 1] = (3 * row[i] + row[i + 1] + 2) >> 2;
  }
  // The last sample but one weighs most here, as in stb.
  out[2 * n - 2] = (3 * row[n - 2] + row[n - 1] + 2) >> 2;
  return out;
}

function both(out: Uint8Array, near: Uint8ClampedArray, far: Uint8ClampedArray): Uint8Array {
  const n = near.length;
  let sum = 3 * near[0] + far[0];
  out[0] = (sum + 2) >> 2;
  for (let i = 1; i < n; i++) {
    const before = sum;
    sum = 3 * near[i] + far[i];
    out[2 * i - 1] = (3 * before + sum + 8) >> 4;
    out[2 * i] = (3 * sum + before + 8) >> 4;
  }
  out[2 * n - 1] = (sum + 2) >> 2;
  return out;
}

const fixed = (x: number): number => Math.floor(x * 4096 + 0.5) << 8;
const RED_CR = fixed(1.402);
const GREEN_CR = -fixed(0.71414);
const GREEN_CB = -fixed(0.34414);
const BLUE_CB = fixed(1.772);

const clamp = (x: number): number => (x < 0 ? 0 : x > 255 ? 255 : x);

/** a * b / 255, rounded. */
const product = (a: number, b: number): number => {
  const t = a * b + 128;
  return (t + (t >> 8)) >> 8;
};

type Pixel = (rgb: Uint8Array, at: number, c0: number, c1: number, c2: number, c3: number) => void;

const grey: Pixel = (rgb, at, c0) => void (rgb[at] = rgb[at + 1] = rgb[at + 2] = c0);

const plain: Pixel = (rgb, at, c0, c1, c2) => {
  rgb[at] = c0;
  rgb[at + 1] = c1;
  rgb[at + 2] = c2;
};

const luma: Pixel = (rgb, at, y, cb, cr) => {
  const base = (y << 20) + (1 << 19);
  const [blue, red] = [cb - 128, cr - 128];
  rgb[at] = clamp((base + red * RED_CR) >> 20);
  rgb[at + 1] = clamp((base + red * GREEN_CR + ((blue * GREEN_CB) & 0xffff0000)) >> 20);
  rgb[at + 2] = clamp((base + blue * BLUE_CB) >> 20);
};

const cmyk: Pixel = (rgb, at, c, m, y, k) => plain(rgb, at, product(c, k), product(m, k), product(y, k), 0);

const ycck: Pixel = (rgb, at, y, cb, cr, k) => {
  luma(rgb, at, y, cb, cr, 0);
  for (let i = 0; i < 3; i++) rgb[at + i] = product(255 - rgb[at + i], k);
};

function pixelOf({ components }: Frame, { adobe, jfif }: ColourMarks): Pixel {
  if (components.length === 1) return grey;
  if (components.length === 4) return adobe === 0 ? cmyk : adobe === 2 ? ycck : luma;
  const named = String.fromCharCode(...components.map(({ id }) => id)) === 'RGB';
  return named || (adobe === 0 && !jfif) ? plain : luma;
}

export function toRgb(frame: Frame, marks: ColourMarks): Uint8Array {
  const { width, height, components } = frame;
  checkSize(width, height);
  const rgb = new Uint8Array(3 * width * height);
  const sources = components.map((component) => rowsOf(component, frame));
  const pixel = pixelOf(frame, marks);
  for (let y = 0, at = 0; y < height; y++) {
    const [c0, c1 = c0, c2 = c0, c3 = c0] = sources.map((rows) => rows(y));
    for (let x = 0; x < width; x++, at += 3) pixel(rgb, at, c0[x], c1[x], c2[x], c3[x]);
  }
  return rgb;
}
