/** A result as JSON has it: names in snake case. */
export function snakeCase(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(snakeCase);
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), snakeCase(one)]),
  );
}
