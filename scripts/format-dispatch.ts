/**
 * Sources of packed formats that `npm run generate` writes: their facts, and the dispatch from
 * types to loops, as direct calls.
 */
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

/**
 * Facts that are numbers, with their types; they become methods of a format's class. The others
 * become fields, which are markers (format/format.ts).
 */
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

/** Facts of each packed format, as the base class of the format's own class. */
export function formatFacts(): string {
  const types = PACKED.filter((t) => !isFloat(t));
  const kinds = [...new Set(types.flatMap((t) => formatOf(t).kind ?? []))];
  return `/**
 * Facts of packed formats. bytes: of a packed block, the same as of 16 plain blocks, because rows
 * are packed in place.
 */
${kinds.map((kind) => importing([kind], `./${KINDS[kind]}`)).join('\n')}

${types.map(factsOf).join('\n')}`;
}

// ---- Dispatch ----

interface Declaration {
  readonly file: string;
  readonly generic: boolean;
  readonly params: readonly string[];
}

/** Functions that assembly/matmul/ exports, by name. */
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

/** Constants of assembly/simd.ts that say which instructions a build has. */
const IF_ISA: { readonly [isa in Exclude<Isa, 'simd'>]: string } = { dotadd: 'HAS_DOT_ADD', relaxed: 'HAS_RELAXED_DOT' };

/** A statement, or one for each instruction set if they differ. undefined: unreachable. */
function byIsa(of: (isa: Isa) => string | undefined): string {
  const [simd, relaxed, dotadd] = ISAS.map((isa) => of(isa) ?? 'unreachable()');
  if (simd === relaxed && relaxed === dotadd) return simd;
  const whereRelaxed = relaxed === dotadd ? relaxed : `if (${IF_ISA.dotadd}) ${dotadd}; else ${relaxed}`;
  return `if (${IF_ISA.relaxed}) { ${whereRelaxed}; } else ${simd}`;
}

/** A value, or one for each instruction set if they differ. */
function valueByIsa(of: (isa: Isa) => string | number): string | number {
  const [simd, relaxed, dotadd] = ISAS.map(of);
  if (simd === relaxed && relaxed === dotadd) return simd;
  return relaxed === dotadd
    ? `${IF_ISA.relaxed} ? ${relaxed} : ${simd}`
    : `${IF_ISA.dotadd} ? ${dotadd} : ${IF_ISA.relaxed} ? ${relaxed} : ${simd}`;
}

/**
 * Codes of weights of grids in a panel: 7 bits with a scale for 16 weights or, in the simd build, 8
 * bits already multiplied by the scales.
 */
const codesInPanel = (isa: Isa): string => (isa === 'simd' ? 'Codes8' : 'Codes7');
const factsInPanel = (t: TypeTraits, isa: Isa): CodeFacts =>
  !isOfGrid(t)
    ? formatOf(t).facts
    : isa === 'simd'
      ? { width: 8, superBlock: true }
      : { width: 7, centre: 64, superBlock: true, s16: true };

/** Value of panel_scales for a type. */
function panelScales(t: TypeTraits, isa: Isa): number {
  const { width, superBlock, s16, f32Scales } = factsInPanel(t, isa);
  const inCodes = width === 8 && isa !== 'dotadd'; // codes as i16 are already multiplied by the scale (dot_signed.ts)
  if (!superBlock || inCodes) return 0;
  return f32Scales ? 3 : s16 ? 2 : 1;
}

/** Value of panel_minima for a type. */
function panelMinima(t: TypeTraits): number {
  const { hasMin, superBlock, s16 } = formatOf(t).facts;
  if (!hasMin) return 0;
  return !superBlock ? 1 : s16 ? 3 : 2;
}

/** Functions by type id, for all packed types or some of them. */
export function byType(types = PACKED): string {
  const known = declarations();
  const called = new Set<string>();
  const call = (name: string, t: TypeTraits, of = id(t)): string => {
    const declared = known.get(name);
    if (!declared) throw new Error(`the table has the loop ${name}, and assembly/matmul/ no function of the name`);
    called.add(name);
    // Values of parameters that are not arguments of the function by type id.
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
      'Activation type of a product: F32 or one of act.ts; 0xffffffff if the type cannot be packed.',
      'act_type',
      types,
      (t) => (isFloat(t) ? 'F32' : valueByIsa((isa) => actType(t, { isa }).id)),
      '0xffffffff',
    ),
    lookup(
      'Number of f16 vectors at the start of a packed block. All of them must be finite.',
      'f16_vectors',
      blocks,
      (t) => formatOf(t).facts.f16Vectors ?? (formatOf(t).facts.hasMin ? 2 : 1),
      '0',
    ),
    panels('1 if codes in a panel are signed and have 8 bits, else 0.', 'panel_signed', (t, isa) =>
      Number(factsInPanel(t, isa).width === 8),
    ),
    panels('Integer scales of a sub-block in a panel, 2: one a half; 3: two f32 scales, and no d.', 'panel_scales', panelScales),
    panels('Minima in a panel, 0: none, 1: an f32, 2: an integer a sub-block, 3: an integer a half.', 'panel_minima', panelMinima),
    panels('Number to subtract from every code of a panel.', 'panel_centre', (t, isa) => factsInPanel(t, isa).centre ?? 0),
    lookup(
      '1 if a panel consists of runs of 64 weights, else 0.',
      'panel_runs',
      blocks,
      (t) => Number(formatOf(t).tile === 'gemm_8x4_bits'),
      '0',
    ),
    ladder(
      '/**\n * Packs 16 plain rows, `stride` bytes apart at src, to w: one block of each row or, for float\n * types, all n numbers.\n */',
      'pack_block(type: u32, src: usize, stride: usize, w: usize, n: i32): void',
      plain,
      (t) => (isOfGrid(t) ? call('pack_grid', t) : `changetype<${id(t)}>(0).pack(src, stride, ${isFloat(t) ? 'n, w' : 'w'})`),
    ),
    ladder(
      '/** Packs one block of 16 plain rows in the faster form (`fast` in src/type-traits.ts). */',
      'pack_fast(type: u32, src: usize, stride: usize, w: usize): void',
      types.filter(({ kernels }) => kernels!.fast),
      (t) => (isOfGrid(t) ? call('pack_levels', t) : `changetype<${id(t)}>(0).pack_fast(src, stride, w)`),
    ),
    ladder(
      '/**\n * Unpacks n packed blocks at w, or for float types n weights of each row, to two panels of 8 rows.\n */',
      'unpack(type: u32, w: usize, n: i32, panel: usize): void',
      types,
      (t) => call(formatOf(t).unpack ?? 'unpack_blocks', t),
    ),
    ladder(
      '/** Multiplies a column block by n blocks of a panel. (For float types: product_f32.ts.) */',
      'tile(type: u32, w: usize, a: usize, acc: usize, n: i32): void',
      blocks,
      (t) => byIsa((isa) => call(forIsa(formatOf(t).tile, isa), t, isOfGrid(t) ? codesInPanel(isa) : id(t))),
    ),
    ladder(
      '/** Multiplies one column by 16 rows of n blocks (for float types n weights). */',
      'column(type: u32, w: usize, n: i32, a: usize, y: usize, scratch: usize): void',
      types,
      (t) => byIsa((isa) => call(forIsa(formatOf(t).column, isa), t)),
    ),
    ladder(
      '/** Multiplies two or more columns by 16 rows, for activations with ACT_FEW. */',
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
  return `/** Dispatch from type ids to the functions of packed weights. */
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

/** open_grid.ts is a separate file, because the loops of grids import it. */
export function openGrid(): string {
  const grids = PACKED.filter((t) => formatOf(t).facts.grid);
  return `${classes(grids)}
import * as id from '../type/ids';

${withIds(
  ladder(
    '/** Opens the packed block of a grid at w to o: scales, addresses of entries (format/grid.ts). */',
    'open_grid(type: u32, w: usize, o: usize): void',
    grids,
    (t) => `changetype<${id(t)}>(0).open(w, o)`,
  ),
)}`;
}

/** grid_rows.ts is a separate file, because the packing of grids imports it. */
export function gridRows(): string {
  const grids = PACKED.filter((t) => formatOf(t).facts.grid);
  return `${classes(grids)}
import * as id from '../type/ids';

${[
  ladder(
    '/** Index and signs of step t of a plain row (pack_grid.ts). */',
    'grid_entry(type: u32, row: usize, t: i32): u32',
    grids,
    (t) => `changetype<${id(t)}>(0).entry(row, t)`,
  ),
  ladder(
    '/** Integer scale i of a plain row. */',
    'grid_scale(type: u32, row: usize, i: i32): u32',
    grids,
    (t) => `changetype<${id(t)}>(0).scale(row, i)`,
  ),
]
  .map(withIds)
  .join('\n')}`;
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

/** Bytes of a panel: the maximum over all formats. */
@inline
export function PANEL(): usize {
  return ${most(blocks.map((t) => `panel_bytes<${id(t)}>()`))};
}
`;
}
