/** Building blocks of the AssemblyScript that `npm run generate` writes. */
import { readFileSync } from 'node:fs';
import { LEVELS, type TypeTraits } from '../src/type-traits.ts';

export const root = new URL('../', import.meta.url);
export const source = (path: string): string => readFileSync(new URL(path, root), 'utf8');

/** Types of packed weights that exist only in packed form. */
export const LEVEL_TYPES: readonly TypeTraits[] = Object.values(LEVELS);

/** A type's id in the kernels, which is also the name of its class of packed weights. */
export const id = ({ name }: TypeTraits): string => name.toUpperCase();

/** `case` labels and return statements, with types of equal value grouped in the table's order. */
function grouped(types: readonly TypeTraits[], of: (t: TypeTraits) => string | number): string[] {
  const cases = new Map<string | number, string[]>();
  for (const t of types) cases.set(of(t), [...(cases.get(of(t)) ?? []), `case ${id(t)}:`]);
  return [...cases].map(([value, labels]) => `    ${labels.join(' ')} return ${value};`);
}

export const lookup = (
  doc: string,
  name: string,
  types: readonly TypeTraits[],
  of: (t: TypeTraits) => string | number,
  otherwise: string,
): string => `/** ${doc} */
export function ${name}(type: u32): u32 {
  // prettier-ignore
  switch (type) {
${grouped(
  types.filter((t) => String(of(t)) !== otherwise),
  of,
).join('\n')}
    default: return ${otherwise};
  }
}
`;

/** A function that is true for some types. */
export const oneOf = (doc: string, name: string, types: readonly TypeTraits[]): string => `/** ${doc} */
@inline
export function ${name}(type: u32): bool {
  return ${types.map((t) => `type == ${id(t)}`).join(' || ')};
}
`;

/**
 * A function that passes its arguments on to the kernel of a type. kernel: the kernel with its
 * arguments.
 */
export function ladder(
  doc: string,
  declaration: string,
  types: readonly TypeTraits[],
  kernel: (t: TypeTraits) => string,
  otherwise = 'unreachable();',
): string {
  const returns = !declaration.endsWith('void');
  const call = (text: string): string => (returns ? `return ${text};` : `${text}; return;`);
  return `${doc}
export function ${declaration} {
  // prettier-ignore
  switch (type) {
${types.map((t) => `    case ${id(t)}: ${call(kernel(t))}`).join('\n')}
    default: ${otherwise}
  }${returns && otherwise === 'unreachable();' ? '\n  return 0;' : ''}
}
`;
}

/** The text with ids imported as `id`: its cases, and F32 as a value. */
export const withIds = (text: string): string => text.replaceAll(/case (\w+):/g, 'case id.$1:').replaceAll('return F32;', 'return id.F32;');

export const importing = (names: readonly string[], from: string): string => `import { ${[...names].sort().join(', ')} } from '${from}';`;

/** Converts parameters like `a: usize, n: i32` to the arguments of a call. */
export const names = (params: string): string =>
  params
    .split(',')
    .map((p) => p.split(':')[0].trim())
    .filter(Boolean)
    .join(', ');
