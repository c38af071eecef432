/**
 * Steps on the orthogonal matrices (Li, Fuxin and Todorovic, arXiv 2002.01113). A skew-symmetric W
 * turns X to (I - W / 2)^-1 (I + W / 2) X. This is Cayley's transform, which is orthogonal for
 * every W. The paper iterates; here the system is solved in f64, because the matrices are only as
 * wide as a model's residual stream.
 */

/** a b, or a b^T with `transposed`, of n x n matrices. */
function product(a: ArrayLike<number>, b: ArrayLike<number>, n: number, transposed = false): Float64Array {
  const c = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < n; k++) {
      if (transposed) {
        let sum = 0;
        for (let j = 0; j < n; j++) sum += a[i * n + j] * b[k * n + j];
        c[i * n + k] = sum;
      } else {
        const x = a[i * n + k];
        for (let j = 0; j < n; j++) c[i * n + j] += x * b[k * n + j];
      }
    }
  }
  return c;
}

/**
 * a^-1 b, both n x n and overwritten. a's symmetric part is positive definite, so elimination needs
 * no pivots.
 */
function solved(a: Float64Array, b: Float64Array, n: number): Float64Array {
  for (let k = 0; k < n; k++) {
    for (let i = k + 1; i < n; i++) {
      const f = a[i * n + k] / a[k * n + k];
      if (f === 0) continue;
      for (let j = k; j < n; j++) a[i * n + j] -= f * a[k * n + j];
      for (let j = 0; j < n; j++) b[i * n + j] -= f * b[k * n + j];
    }
  }
  for (let k = n - 1; k >= 0; k--) {
    for (let j = 0; j < n; j++) b[k * n + j] /= a[k * n + k];
    for (let i = 0; i < k; i++) {
      const f = a[i * n + k];
      for (let j = 0; j < n; j++) b[i * n + j] -= f * b[k * n + j];
    }
  }
  return b;
}

/**
 * One step of stochastic gradient descent with momentum. The length of a step does not depend on
 * the gradient's size, which tells little: rounding to few bits makes the losses small.
 *
 * @param x orthogonal, [n, n] by rows, changed
 * @param momentum the same size, zeros at first, changed: only its part along the matrices is kept
 * @param gradient the loss's gradient by the elements of x
 * @param rate the root mean square angle by which rows turn, in radians
 */
export function cayleyStep(x: Float32Array, momentum: Float32Array, gradient: Float32Array, rate: number, kept = 0.95): void {
  const n = Math.sqrt(x.length);
  momentum.forEach((m, i) => (momentum[i] = kept * m + gradient[i]));
  // W = (X M^T - M X^T) / 2: the part of -M X^T that turns X.
  const w = product(momentum, x, n, true);
  for (let i = 0; i < n; i++)
    for (let j = 0; j <= i; j++) {
      const turn = (w[j * n + i] - w[i * n + j]) / 2;
      w[i * n + j] = turn;
      w[j * n + i] = -turn;
    }
  const wx = product(w, x, n);
  momentum.set(wx.map((m) => -m));
  const size = Math.sqrt(w.reduce((sum, v) => sum + v * v, 0) / n);
  if (!(size > 0)) return;
  const half = rate / size / 2;
  const left = w.map((v, i) => (i % (n + 1) === 0 ? 1 : 0) - half * v);
  x.set(
    solved(
      left,
      wx.map((v, i) => x[i] + half * v),
      n,
    ),
  );
}
