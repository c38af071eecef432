/** Sources of packed formats that `npm run generate` writes: their facts, and which loop multiplies by a type's weights, as direct calls. */
import { readdirSync } from 'node:fs';
import { actType } from '../src/graph/packed-products.ts';
import { forIsa, ISAS, KINDS, type CodeFacts, type Isa, type PackedFormat } from '../src/packed-format.ts';
import { typesWith, type TypeTraits } from '../src/type-traits.ts';
import { LEVEL_TYPES, id, importing, ladder, lookup, root, source, withIds } from './kernel-source.ts';

const PACKED: readonly TypeTraits[] = [...typesWith((k) => k.packed), ...LEVEL_TYPES];

const formatOf = ({ kernels }: TypeTraits): PackedFormat => kernels!.packed!;
const isFloat = (t: TypeTraits): boolean => formatOf(t).act === undefined;
const isOfGrid = (t: TypeTraits): boolean => formatOf(t).facts.grid === true || LEVEL_TYPES.includes(t);

// ---- Facts ----

/** Facts that are numbers, as methods of a format's class: their types. The others are fields, which say something by being there (format/format.ts). */
const NUMBERS: { readonly [fact: string]: string } = {
  width: 'i32',
  centre: 'i32',
  largest: 'i32',
  subs: 'i32',
  scaleBits: 'i32',
  f16Vectors: 'i32',
  factor: 'f32',
};

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

function factsOf(type: TypeTraits): string {
  const { facts, kind } = formatOf(type);
  const fields = Object.keys(facts).filter((fact) => !(fact in NUMBERS));
  const numbers = Object.entries(facts).filter(([fact]) => fact in NUMBERS) as [string, number][];
  const method = (name: string, result: string, value: string): string => `  @inline ${name}(): ${result} {\n    return ${value};\n  }`;
  return `@unmanaged
export class ${id(type)}_Facts${kind ? ` extends ${kind}` : ''} {
${[
  ...fields.map((fact) => `  ${snake(fact)}: bool;`),
  method('bytes', 'usize', `16 * ${type.typeSize}`),
  ...numbers.map(([fact, value]) => method(snake(fact), NUMBERS[fact], String(value))),
].join('\n')}
}
`;
}

/** Facts of each packed format, as a class that the format's own extends. */
export function formatFacts(): string {
  const types = PACKED.filter((t) => !isFloat(t));
  const kinds = [...new Set(types.flatMap((t) => formatOf(t).kind ?? []))];
  return `/** Facts of packed formats. bytes: of a packed block, as many as of 16 plain ones, because rows are packed where they are. */
${kinds.map((kind) => importing([kind], `./${KINDS[kind]}`)).join('\n')}

${types.map(factsOf).join('\n')}`;
}

// ---- Dispatch ----

interface Declaration {
  readonly file: string;
  readonly generic: boolean;
  readonly params: readonly string[];
}

/** The functions that assembly/matmul/ exports, by their names. */
function declarations(): ReadonlyMap<string, Declaration> {
  const found = new Map<string, Declaration>();
  for (const path of readdirSync(new URL('assembly/matmul', root)).filter((name) => name.endsWith('.ts')))
    for (const [, name, of, params] of source(`assembly/matmul/${path}`).matchAll(/^export function (\w+)(<F>)?\(([^)]*)\): void/gm))
      found.set(name, {
        file: path.replace('.ts', ''),
        generic: of !== undefined,
        params: params.split(',').map((param) => param.split(':')[0].trim()),
      });
  return found;
}

/** The constants of assembly/simd.ts that say which instructions there are. */
const IF_ISA: { readonly [isa in Exclude<Isa, 'simd'>]: string } = { dotadd: 'HAS_DOT_ADD', relaxed: 'HAS_RELAXED_DOT' };

/** A statement, or one for each set of instructions where they differ: undefined where nothing is called. */
function byIsa(of: (isa: Isa) => string | undefined): string {
  const [simd, relaxed, dotadd] = ISAS.map((isa) => of(isa) ?? 'unreachable()');
  if (simd === relaxed && relaxed === dotadd) return simd;
  const whereRelaxed = relaxed === dotadd ? relaxed : `if (${IF_ISA.dotadd}) ${dotadd}; else ${relaxed}`;
  return `if (${IF_ISA.relaxed}) { ${whereRelaxed}; } else ${simd}`;
}

/** The same as a value. */
function valueByIsa(of: (isa: Isa) => string | number): string | number {
  const [simd, relaxed, dotadd] = ISAS.map(of);
  if (simd === relaxed && relaxed === dotadd) return simd;
  return relaxed === dotadd
    ? `${IF_ISA.relaxed} ? ${relaxed} : ${simd}`
    : `${IF_ISA.dotadd} ? ${dotadd} : ${IF_ISA.relaxed} ? ${relaxed} : ${simd}`;
}

/** Weights of a grid are other codes in a panel: of 7 bits with scales for 16 weights, and where these are multiplied into them of 8. */
const codesInPanel = (isa: Isa): string => (isa === 'simd' ? 'Codes8' : 'Codes7');
const factsInPanel = (t: TypeTraits, isa: Isa): CodeFacts =>
  !isOfGrid(t)
    ? formatOf(t).facts
    : isa === 'simd'
      ? { width: 8, superBlock: true }
      : { width: 7, centre: 64, superBlock: true, s16: true };

/** Integer scales of a panel's sub-block behind its codes (its halves); 3: two that are f32, and no d. */
function panelScales(t: TypeTraits, isa: Isa): number {
  const { width, superBlock, s16, f32Scales } = factsInPanel(t, isa);
  const inCodes = width === 8 && isa !== 'dotadd'; // codes as i16 have their scale in them (dot_signed.ts)
  if (!superBlock || inCodes) return 0;
  return f32Scales ? 3 : s16 ? 2 : 1;
}

/** A panel's minima: 0 none, 1 an f32, 2 an integer for each sub-block, 3 for each half. */
function panelMinima(t: TypeTraits): number {
  const { hasMin, superBlock, s16 } = formatOf(t).facts;
  if (!hasMin) return 0;
  return !superBlock ? 1 : s16 ? 3 : 2;
}

/** The functions by type id, of all packed types or of some. */
export function byType(types = PACKED): string {
  const known = declarations();
  const called = new Set<string>();
  const call = (name: string, t: TypeTraits, of = id(t)): string => {
    const declared = known.get(name);
    if (!declared) throw new Error(`the table has the loop ${name}, and assembly/matmul/ no function of the name`);
    called.add(name);
    // The meaning of a parameter's name, where it is not an argument of the function by type id.
    const pairs = t.blckSize / 64;
    const meant: { readonly [param: string]: string } = {
      pairs: String(pairs),
      runs: `n * ${pairs}`,
      factor: String(formatOf(t).facts.factor),
      fours: String(formatOf(t).facts.fours ?? false),
      has_signs: String(formatOf(t).facts.hasSigns ?? false),
      even: String(formatOf(t).facts.even ?? false),
      x: 'a',
      sums: 'scratch',
      levels_at: `changetype<${id(t)}>(0).levels()`,
    };
    return `${name}${declared.generic ? `<${of}>` : ''}(${declared.params.map((param) => meant[param] ?? param).join(', ')})`;
  };
  const plain = types.filter((t) => !LEVEL_TYPES.includes(t));
  const blocks = types.filter((t) => !isFloat(t));
  const panels = (doc: string, name: string, of: (t: TypeTraits, isa: Isa) => number): string =>
    lookup(doc, name, blocks, (t) => valueByIsa((isa) => of(t, isa)), '0');
  const functions = [
    lookup(
      'The type in which a product takes its activations: F32, or one of act.ts; 0xffffffff for types that cannot be packed.',
      'act_type',
      types,
      (t) => (isFloat(t) ? 'F32' : valueByIsa((isa) => actType(t, { isa }).id)),
      '0xffffffff',
    ),
    lookup(
      'Vectors of f16 at the start of a packed block, all of which must be finite.',
      'f16_vectors',
      blocks,
      (t) => formatOf(t).facts.f16Vectors ?? (formatOf(t).facts.hasMin ? 2 : 1),
      '0',
    ),
    panels('Not 0 where codes in a panel are signed and have 8 bits.', 'panel_signed', (t, isa) =>
      Number(factsInPanel(t, isa).width === 8),
    ),
    panels(
      "Integer scales of a panel's sub-block behind its codes (its halves); 3: two that are f32, and no d.",
      'panel_scales',
      panelScales,
    ),
    panels("A panel's minima: 0 none, 1 an f32, 2 an integer for each sub-block, 3 for each half.", 'panel_minima', panelMinima),
    panels('The number that is taken off every code of a panel.', 'panel_centre', (t, isa) => factsInPanel(t, isa).centre ?? 0),
    lookup('Not 0 where a panel has runs of 64 weights.', 'panel_runs', blocks, (t) => Number(formatOf(t).tile === 'gemm_8x4_bits'), '0'),
    ladder(
      '/** Packs 16 plain rows, `stride` bytes apart at src, to w: a block of each, or of floats all n numbers. */',
      'pack_block(type: u32, src: usize, stride: usize, w: usize, n: i32): void',
      plain,
      (t) => `changetype<${id(t)}>(0).pack(src, stride, ${isFloat(t) ? 'n, w' : 'w'})`,
    ),
    ladder(
      '/** The same to what the type can be packed as besides (`fast` in src/type-traits.ts). */',
      'pack_fast(type: u32, src: usize, stride: usize, w: usize): void',
      types.filter(({ kernels }) => kernels!.fast),
      (t) => `changetype<${id(t)}>(0).pack_fast(src, stride, w)`,
    ),
    ladder(
      '/** Unpacks n packed blocks at w, or of floats n weights of a row, to the panels of 8 rows each. */',
      'unpack(type: u32, w: usize, n: i32, panel: usize): void',
      types,
      (t) => call(formatOf(t).unpack ?? 'unpack_blocks', t),
    ),
    ladder(
      '/** A column block times n blocks of a panel. (Tiles of floats are alike: product_f32.ts.) */',
      'tile(type: u32, w: usize, a: usize, acc: usize, n: i32): void',
      blocks,
      (t) => byIsa((isa) => call(forIsa(formatOf(t).tile, isa), t, isOfGrid(t) ? codesInPanel(isa) : id(t))),
    ),
    ladder(
      '/** One column times 16 rows of n blocks (of floats n weights). */',
      'column(type: u32, w: usize, n: i32, a: usize, y: usize, scratch: usize): void',
      types,
      (t) => byIsa((isa) => call(forIsa(formatOf(t).column, isa), t)),
    ),
    ladder(
      '/** Two and more columns times 16 rows, for types of activations that lie so. */',
      'few_columns(type: u32, w: usize, n: i32, a: usize, stride: usize, ncols: i32, acc: usize, scratch: usize): void',
      blocks.filter((t) => ISAS.some((isa) => forIsa(formatOf(t).act!, isa) === 'few')),
      (t) => byIsa((isa) => (forIsa(formatOf(t).act!, isa) === 'few' ? call('gemm_16xn', t) : undefined)),
    ),
  ].map(withIds);
  const imports = new Map<string, string[]>();
  for (const name of called) {
    const { file } = known.get(name)!;
    imports.set(file, [...(imports.get(file) ?? []), name]);
  }
  const text = functions.join('\n');
  const used = (from: readonly string[]): string[] => from.filter((name) => new RegExp(`\\b${name}\\b`).test(text));
  const isaNames = used(Object.values(IF_ISA));
  const panelCodes = used(['Codes7', 'Codes8']);
  return `/** Packed weights by type id. */
${classes(types)}
${panelCodes.length ? importing(panelCodes, './format/grid') : ''}
${[...imports]
  .sort()
  .map(([file, names]) => importing(names, `./${file}`))
  .join('\n')}
${isaNames.length ? importing(isaNames, '../simd') : ''}
import * as id from '../type/ids';

${text}`;
}

/** Apart from the rest, because the loops of grids call it. */
export function openGrid(): string {
  const grids = PACKED.filter((t) => formatOf(t).facts.grid);
  return `${classes(grids)}
import * as id from '../type/ids';

${withIds(
  ladder(
    '/** Opens the packed block of a grid at w to o: its scales and the addresses of its entries (format/grid.ts). */',
    'open_grid(type: u32, w: usize, o: usize): void',
    grids,
    (t) => `changetype<${id(t)}>(0).open(w, o)`,
  ),
)}`;
}

const classes = (types: readonly TypeTraits[]): string => {
  const floats = types.filter(isFloat);
  const levels = types.filter((t) => LEVEL_TYPES.includes(t));
  const blocks = types.filter((t) => !isFloat(t) && !levels.includes(t));
  return [
    ...(floats.length ? [importing(floats.map(id), './format/float')] : []),
    ...blocks.map((t) => importing([id(t)], `./format/${t.name}`)),
    ...(levels.length ? [importing(levels.map(id), './format/levels')] : []),
  ].join('\n');
};

export function panelRoom(): string {
  const blocks = typesWith((k, t) => k.packed && t.blckSize > 1);
  const most = (terms: readonly string[]): string =>
    terms.length === 1 ? terms[0] : `most(${most(terms.slice(0, terms.length >> 1))}, ${most(terms.slice(terms.length >> 1))})`;
  return `${classes(blocks)}
import { most, panel_bytes } from './panel_size';

/** Bytes of a panel: the most that any format needs. */
@inline
export function PANEL(): usize {
  return ${most(blocks.map((t) => `panel_bytes<${id(t)}>()`))};
}
`;
}
