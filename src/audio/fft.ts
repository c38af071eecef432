/**
 * Power spectra of real frames, for any length: halves as long as the length is even, then a plain
 * transform.
 */
export class PowerSpectrum {
  readonly n: number;
  private readonly cos: Float64Array;
  private readonly sin: Float64Array;
  private readonly re: Float64Array;
  private readonly im: Float64Array;
  private readonly spareRe: Float64Array;
  private readonly spareIm: Float64Array;

  constructor(n: number) {
    this.n = n;
    this.cos = Float64Array.from({ length: n }, (_, i) => Math.cos((2 * Math.PI * i) / n));
    this.sin = Float64Array.from({ length: n }, (_, i) => Math.sin((2 * Math.PI * i) / n));
    [this.re, this.im, this.spareRe, this.spareIm] = Array.from({ length: 4 }, () => new Float64Array(n));
  }

  /**
   * |X_k|^2 for k = 0 to n / 2.
   * @param x n samples
   * @param out n / 2 + 1 numbers
   */
  of(x: ArrayLike<number>, out: Float64Array): void {
    const { n, re, im } = this;
    this.transform(x, 0, 1, n, 0);
    for (let k = 0; 2 * k <= n; k++) out[k] = re[k] * re[k] + im[k] * im[k];
  }

  /** Transforms x[from], x[from + step] ..., `size` of them, to `re` and `im` from `to` on. */
  private transform(x: ArrayLike<number>, from: number, step: number, size: number, to: number): void {
    if (size % 2 === 0) {
      this.transform(x, from, 2 * step, size / 2, to);
      this.transform(x, from + step, 2 * step, size / 2, to + size / 2);
      this.combine(step, size, to);
    } else this.plain(x, from, step, size, to);
  }

  private plain(x: ArrayLike<number>, from: number, step: number, size: number, to: number): void {
    const { n, cos, sin, re, im } = this;
    for (let k = 0; k < size; k++) {
      let [a, b] = [0, 0];
      for (let j = 0, turn = 0; j < size; j++, turn = (turn + k * step) % n) {
        a += x[from + j * step] * cos[turn];
        b -= x[from + j * step] * sin[turn];
      }
      re[to + k] = a;
      im[to + k] = b;
    }
  }

  /** The transforms of even and odd samples, one after the other, become that of all. */
  private combine(step: number, size: number, to: number): void {
    const { cos, sin, re, im, spareRe, spareIm } = this;
    const half = size / 2;
    for (let k = 0; k < half; k++) {
      const [c, s] = [cos[k * step], sin[k * step]];
      const [oddRe, oddIm] = [re[to + half + k], im[to + half + k]];
      const [a, b] = [c * oddRe + s * oddIm, c * oddIm - s * oddRe];
      spareRe[k] = re[to + k] - a;
      spareIm[k] = im[to + k] - b;
      re[to + k] += a;
      im[to + k] += b;
    }
    re.set(spareRe.subarray(0, half), to + half);
    im.set(spareIm.subarray(0, half), to + half);
  }
}
