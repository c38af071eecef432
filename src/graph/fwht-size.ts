/**
 * True for sizes of a Walsh-Hadamard transform: 2^k, and 12, 20 and 28 times 2^k
 * (assembly/ops/fwht.ts).
 */
export function isFwhtSize(n: number): boolean {
  if (!Number.isSafeInteger(n) || n < 1) return false;
  const odd = n / powerOfTwo(n);
  return odd === 1 || (odd <= 7 && n % 4 === 0);
}

/** Largest power of two that divides a whole number of at least 1. */
export function powerOfTwo(n: number): number {
  let power = 1;
  while (n % (2 * power) === 0) power *= 2;
  return power;
}

/** Largest transform that divides rows of n elements. */
export function largestFwhtSize(n: number): number {
  const power = powerOfTwo(n);
  const odd = n / power;
  return power * (power < 4 ? 1 : ([7, 5, 3].find((m) => odd % m === 0) ?? 1));
}
