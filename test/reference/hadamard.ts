/** Orthonormal Hadamard matrices by their definitions. */

/**
 * Tells if a is a nonzero square in the field of q elements. For q = 9, a = 3 x + y stands for x +
 * y i with i * i = -1 over the field of three elements.
 */
function isSquare(a: number, q: number): boolean {
  const times = (b: number): number => {
    if (q !== 9) return (b * b) % q;
    const [x, y] = [Math.floor(b / 3), b % 3];
    return 3 * ((x * x - y * y + 9) % 3) + ((2 * x * y) % 3);
  };
  return Array.from({ length: q - 1 }, (_, i) => times(i + 1)).includes(a);
}

function difference(a: number, b: number, q: number): number {
  if (q !== 9) return (a - b + q) % q;
  return 3 * ((Math.floor(a / 3) - Math.floor(b / 3) + 3) % 3) + ((a - b + 9) % 3);
}

/** Paley's second construction: +-1 at row i and column j, of order 2 (q + 1). */
function paley(i: number, j: number, q: number): number {
  const [row, column] = [i % (q + 1), j % (q + 1)];
  const own = row === column ? 1 : 0;
  const c = own ? 0 : row * column === 0 ? 1 : isSquare(difference(row - 1, column - 1, q), q) ? 1 : -1;
  if (i <= q) return j <= q ? c + own : c - own;
  return j <= q ? c - own : -c - own;
}

/** Sylvester's construction: -1 if i and j have an odd number of binary ones in common. */
function sylvester(i: number, j: number): number {
  let sign = 1;
  for (let both = i & j; both; both >>= 1) if (both & 1) sign = -sign;
  return sign;
}

/** Element (i, j) of the matrix of order n, which is 2^k or m 2^k with m = 12, 20 or 28. */
export function hadamard(n: number, i: number, j: number): number {
  const m = [12, 20, 28].find((order) => Number.isInteger(Math.log2(n / order)));
  const length = n / (m ?? 1);
  const outer = m === undefined ? 1 : paley(Math.floor(i / length), Math.floor(j / length), m / 2 - 1);
  return (outer * sylvester(i % length, j % length)) / Math.sqrt(n);
}
