/** stb_image's inverse DCT in integers: 12-bit constants, 10 bits off after columns, 17 after rows. */

/** A constant as C converts it: negative ones are truncated, too. */
const fixed = (x: number): number => Math.trunc(x * 4096 + 0.5);

const C0 = fixed(0.5411961);
const C1 = fixed(-1.847759065);
const C2 = fixed(0.765366865);
const C3 = fixed(1.175875602);
const C4 = fixed(0.298631336);
const C5 = fixed(2.053119869);
const C6 = fixed(3.072711026);
const C7 = fixed(1.50132111);
const C8 = fixed(-0.899976223);
const C9 = fixed(-2.562915447);
const C10 = fixed(-1.96157056);
const C11 = fixed(-0.390180644);

const { imul } = Math;

/** Transforms the 8 values at `at`, `step` apart, in place. */
function transform(v: Int32Array, at: number, step: number, rounding: number, shift: number): void {
  const [i1, i2, i3] = [at + step, at + 2 * step, at + 3 * step];
  const i4 = at + 4 * step;
  const [i5, i6, i7] = [i4 + step, i4 + 2 * step, i4 + 3 * step];
  const even = imul(v[i2] + v[i6], C0);
  const t2 = even + imul(v[i6], C1);
  const t3 = even + imul(v[i2], C2);
  const t0 = ((v[at] + v[i4]) << 12) + rounding;
  const t1 = ((v[at] - v[i4]) << 12) + rounding;
  const [x0, x3, x1, x2] = [t0 + t3, t0 - t3, t1 + t2, t1 - t2];
  const [a, b, c, d] = [v[i7], v[i5], v[i3], v[i1]];
  const p5 = imul(a + c + b + d, C3);
  const p1 = p5 + imul(a + d, C8);
  const p2 = p5 + imul(b + c, C9);
  const p3 = imul(a + c, C10);
  const p4 = imul(b + d, C11);
  const y0 = imul(a, C4) + p1 + p3;
  const y1 = imul(b, C5) + p2 + p4;
  const y2 = imul(c, C6) + p2 + p3;
  const y3 = imul(d, C7) + p1 + p4;
  v[at] = (x0 + y3) >> shift;
  v[i7] = (x0 - y3) >> shift;
  v[i1] = (x1 + y2) >> shift;
  v[i6] = (x1 - y2) >> shift;
  v[i2] = (x2 + y1) >> shift;
  v[i5] = (x2 - y1) >> shift;
  v[i3] = (x3 + y0) >> shift;
  v[i4] = (x3 - y0) >> shift;
}

/** Turns 64 coefficients to samples at `to` of a plane. Overwrites the coefficients. */
export function inverseDct(v: Int32Array, plane: Uint8ClampedArray, to: number, stride: number): void {
  for (let i = 0; i < 8; i++) transform(v, i, 8, 512, 10);
  for (let i = 0; i < 8; i++) {
    transform(v, 8 * i, 1, 65536 + (128 << 17), 17);
    for (let k = 0; k < 8; k++) plane[to + i * stride + k] = v[8 * i + k];
  }
}
