/**
 * Steps on the orthogonal matrices (Li, Fuxin and Todorovic, arXiv 2002.01113). For a
 * skew-symmetric W, Cayley's transform (I - W / 2)^-1 (I + W / 2) is orthogonal, and a step
 * multiplies X by it from the left. The paper iterates; here the system is solved in f64, because
 * the matrices are only as wide as a model's residual stream.
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
 * Returns a^-1 b for n x n matrices, and overwrites both. The symmetric part of a is positive
 * definite, so elimination needs no pivots.
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
 * One step of stochastic gradient descent with momentum. All steps have the same length: the size
 * of the gradient tells little, because rounding to few bits makes the losses small.
 *
 * @param x orthogonal, [n, n] by rows; changed
 * @param momentum the same size, zeros at first; changed: afterwards only its part along the
 * orthogonal matrices is left
 * @param gradient gradient of the loss by the elements of x
 * @param rate root mean square angle by which rows turn, in radians
 * @param kept factor of the old momentum
 */
export function cayleyStep(x: Float32Array, momentum: Float32Array, gradient: Float32Array, rate: number, kept = 0.95): void {
  const n = Math.sqrt(x.length);
  momentum.forEach((m, i) => (momentum[i] = kept * m + gradient[i]));
  // W = (X M^T - M X^T) / 2: the skew-symmetric part of -M X^T, which keeps X orthogonal.
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
