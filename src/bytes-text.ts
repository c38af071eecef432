const UNITS = [
  ['GB', 1e9],
  ['MB', 1e6],
  ['kB', 1e3],
] as const;

/** Formats bytes: 1234567 as `1.2 MB`. */
export function bytesText(n: number): string {
  const [unit, size] = UNITS.find(([, most]) => n >= most) ?? ['bytes', 1];
  return `${size === 1 ? n : (n / size).toFixed(1)} ${unit}`;
}
