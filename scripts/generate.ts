/**
 * `npm run generate`: writes the sources that are derived from the tables of types (src/type-traits.ts) and of ops (src/graph/kernels.ts), and from
 * the kernels' own declarations; docs/flags.md from the tables of flags; docs/chat-templates.md from what templates write; the error codes of
 * docs/troubleshooting.md from src/errors.ts; and the fields of docs/server.md from src/openai/protocol.ts. They are committed, and
 * test/generate.test.ts holds them to their sources.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as prettier from 'prettier';
import { withErrorTable } from './error-table.ts';
import { withFieldTables } from './field-tables.ts';
import { flagTable } from './flag-table.ts';
import { sizesOfKernels } from './sizes.ts';
import { templatePage } from './template-table.ts';
import { CODE } from '../src/graph/kernels.ts';
import { KINDS } from '../src/packed-format.ts';
import { LEVELS, TYPE, typesWith, type TypeTraits } from '../src/type-traits.ts';

const root = new URL('../', import.meta.url);
const source = (path: string): string => readFileSync(new URL(path, root), 'utf8');

const TYPES: readonly TypeTraits[] = Object.values(TYPE);
const READABLE = typesWith(() => true);
/** Types of packed weights that nothing else has. */
const LEVEL_TYPES: readonly TypeTraits[] = Object.values(LEVELS);
const PACKED: readonly TypeTraits[] = [...typesWith((k) => k.packed), ...LEVEL_TYPES];

/** A type's id in the kernels, which is the name of its class of packed weights, too. */
const id = ({ name }: TypeTraits): string => name.toUpperCase();

/** `case` labels of all types for which `of` gives the same, in the table's order, and what it gives. */
function grouped(types: readonly TypeTraits[], of: (t: TypeTraits) => string | number): string[] {
  const cases = new Map<string | number, string[]>();
  for (const t of types) cases.set(of(t), [...(cases.get(of(t)) ?? []), `case ${id(t)}:`]);
  return [...cases].map(([value, labels]) => `    ${labels.join(' ')} return ${value};`);
}

const lookup = (
  doc: string,
  name: string,
  types: readonly TypeTraits[],
  of: (t: TypeTraits) => string | number,
  otherwise: string,
): string => `/** ${doc} */
export function ${name}(type: u32): u32 {
  // prettier-ignore
  switch (type) {
${grouped(types, of).join('\n')}
    default: return ${otherwise};
  }
}
`;

/** A function that passes its arguments on to the kernel of a type; \`kernel\` is that kernel with what it is called with. */
function ladder(
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

const importing = (names: readonly string[], from: string): string => `import { ${[...names].sort().join(', ')} } from '${from}';`;

const vecDot = ({ name, kernels }: TypeTraits): string =>
  name === kernels?.vecDotType ? (name === 'f32' ? 'vec_dot_f32' : `vec_dot_${name}_${name}`) : `vec_dot_${name}_${kernels?.vecDotType}`;

const imatrixCall = ({ name, kernels }: TypeTraits): string => {
  const call = `quantize_imatrix_${name}(x, y, k, imatrix, work)`;
  return kernels?.quantizer === 'search' ? call : `if (imatrix) ${call}; else quantize_row_${name}(x, y, k)`;
};

/** The kernels in assembly/type/block/<name>.ts. */
const blockKernels = (t: TypeTraits): string[] => [
  `dequantize_row_${t.name}`,
  ...(t.kernels?.quantizer ? [`quantize_row_${t.name}`] : []),
  ...(t.kernels?.vecDotType ? [vecDot(t)] : []),
];
const imatrixKernels = ({ name, kernels }: TypeTraits): string[] =>
  kernels?.quantizer && kernels.quantizer !== 'row' ? [`quantize_imatrix_${name}`] : [];

function typeIds(): string {
  return `/** ggml's type ids and traits (ggml.h, enum ggml_type; ggml.c, type_traits). */
${[...TYPES, ...LEVEL_TYPES].map((t) => `export const ${id(t)}: u32 = ${t.id};`).join('\n')}

${[
  lookup('Elements of one block; 0 for a type without kernels.', 'blck_size', READABLE, (t) => t.blckSize, '0'),
  lookup('Bytes of one block; 0 for a type without kernels.', 'type_size', READABLE, (t) => t.typeSize, '0'),
  lookup(
    'The type that vec_dot wants its activations in; 0xffffffff where there is no vec_dot.',
    'vec_dot_type',
    typesWith((k) => k.vecDotType),
    (t) => t.kernels!.vecDotType!.toUpperCase(),
    '0xffffffff',
  ),
].join('\n')}`;
}

/** The kernels of all block formats by their names, as the host may call them. */
function blocks(): string {
  return `/** The kernels of every type by their own names. */
${READABLE.map((t) => `export { ${blockKernels(t).join(', ')} } from './block/${t.name}';`).join('\n')}
`;
}

function traits(): string {
  const search = typesWith((k) => k.quantizer === 'search');
  const simple = typesWith((k) => k.quantizer && k.quantizer !== 'search');
  return `/** ggml's type_traits: which kernel a type id means. */
${READABLE.map((t) => importing([...blockKernels(t), ...imatrixKernels(t)], `./block/${t.name}`)).join('\n')}
${importing(READABLE.map(id), './ids')}

${[
  ladder(
    '/** x . y: n elements of a row of weights of `type` with a row of vec_dot_type(type). */',
    'vec_dot(type: u32, n: i32, x: usize, y: usize): f32',
    typesWith((k) => k.vecDotType),
    (t) => `${vecDot(t)}(n, x, y)`,
  ),
  ladder(
    '/** k elements of block data at x -> f32 at y. */',
    'dequantize_row(type: u32, x: usize, y: usize, k: i32): void',
    READABLE,
    (t) => `dequantize_row_${t.name}(x, y, k)`,
  ),
  ladder(
    '/** k f32 at x -> block data at y, for the types whose reference needs no search: every vec_dot_type, and the simple formats. */',
    'quantize_row(type: u32, x: usize, y: usize, k: i32): void',
    simple,
    (t) => `quantize_row_${t.name}(x, y, k)`,
  ),
  ladder(
    "/** ggml's from_float, what cpy and set_rows write: as quantize_row, and the types that search for their scales. work: quantize_work_size() bytes, this thread's own. */",
    'from_float(type: u32, x: usize, y: usize, k: i32, work: usize): void',
    search,
    (t) => `quantize_row_${t.name}(x, y, k, work)`,
    'quantize_row(type, x, y, k);',
  ),
  ladder(
    '/** A row as files have it: imatrix is its k weights or 0, work as in from_float. */',
    'quantize_imatrix_row(type: u32, x: usize, y: usize, k: i32, imatrix: usize, work: usize): void',
    typesWith((k) => k.quantizer && k.quantizer !== 'row'),
    imatrixCall,
    'quantize_row(type, x, y, k);',
  ),
].join('\n')}`;
}

const classes = (types: readonly TypeTraits[]): string => {
  const floats = types.filter((t) => t.blckSize === 1);
  const levels = types.filter((t) => LEVEL_TYPES.includes(t));
  const blocks = types.filter((t) => t.blckSize > 1 && !levels.includes(t));
  return [
    ...(floats.length ? [importing(floats.map(id), './format/float')] : []),
    ...blocks.map((t) => importing([id(t)], `./format/${t.name}`)),
    ...(levels.length ? [importing(levels.map(id), './format/levels')] : []),
  ].join('\n');
};

/** Functions of per_format.ts that are not for all packed types: those that pack plain rows, and the loop for few columns. */
const IS_FOR: { readonly [name: string]: (t: TypeTraits) => unknown } = {
  pack_block: (t) => !LEVEL_TYPES.includes(t),
  pack_fast: ({ kernels }) => kernels?.fast,
  few_columns: (t) => !LEVEL_TYPES.includes(t),
};

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
  const { facts, kind } = type.kernels!.packed!;
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

/** What the table says of each packed format, as a class that the format's own extends. */
function formatFacts(): string {
  const types = PACKED.filter((t) => t.blckSize > 1);
  const kinds = [...new Set(types.flatMap((t) => t.kernels!.packed!.kind ?? []))];
  return `/** Facts of packed formats. bytes: of a packed block, as many as of 16 plain ones, because rows are packed where they are. */
${kinds.map((kind) => importing([kind], `./${KINDS[kind]}`)).join('\n')}

${types.map(factsOf).join('\n')}`;
}

/** The functions of per_format.ts, each for a type id; of all packed types, or of some. */
export function byType(types = PACKED): string {
  const functions = [
    ...source('assembly/matmul/per_format.ts').matchAll(
      /(\/\*\*(?:(?!\*\/)[^])*\*\/)\n(?:\/\/ @ts-ignore: decorator\n)?(?:@inline\n)?export function (\w+)_as<F>\(([^)]*)\): (\w+) \{/g,
    ),
  ];
  const ladders = functions.map(([, doc, name, params, result]) => {
    return ladder(
      doc,
      `${name}(${['type: u32', ...params.split(', ').filter(Boolean)].join(', ')}): ${result}`,
      types.filter(IS_FOR[name] ?? (() => true)),
      (t) => `${name}_as<${id(t)}>(${names(params)})`,
      { u64: 'return 0;' }[result],
    ).replaceAll(/case (\w+):/g, 'case id.$1:');
  });
  return `/** per_format.ts by type id. */
${classes(types)}
${importing(
  functions.map(([, , name]) => `${name}_as`),
  './per_format',
)}
import * as id from '../type/ids';

${ladders.join('\n')}`;
}

function panelRoom(): string {
  const blocks = typesWith((k, t) => k.packed && t.blckSize > 1);
  const most = (terms: readonly string[]): string =>
    terms.length === 1 ? terms[0] : `most(${most(terms.slice(0, terms.length >> 1))}, ${most(terms.slice(terms.length >> 1))})`;
  return `${classes(blocks)}
import { most, panel_bytes } from './panel_size';

/** Bytes of a panel: the most that any format needs. */
// @ts-ignore: decorator
@inline
export function PANEL(): usize {
  return ${most(blocks.map((t) => `panel_bytes<${id(t)}>()`))};
}
`;
}

/** The functions of assembly/ops/ that take a record: what each is called with, by the name of its kernel. */
function opKernels(): Map<string, { readonly name: string; readonly file: string; readonly args: string }> {
  const found = new Map<string, { name: string; file: string; args: string }>();
  for (const file of readdirSync(new URL('assembly/ops', root)).sort()) {
    for (const [, name, params] of source(`assembly/ops/${file}`).matchAll(/^export function (\w+)\((op: Op\b[^)]*)\): void/gm)) {
      found.set(name.replace(/_op$/, '').toUpperCase(), { name, file: file.replace('.ts', ''), args: names(params) });
    }
  }
  return found;
}

/** `a: usize, n: i32` as the arguments of a call. */
const names = (params: string): string =>
  params
    .split(',')
    .map((p) => p.split(':')[0].trim())
    .filter(Boolean)
    .join(', ');

function dispatch(): string {
  const all = opKernels();
  const kernels = Object.keys(CODE).map((code) => {
    const kernel = all.get(code);
    if (!kernel)
      throw new Error(`src/graph/kernels.ts has ${code}, and assembly/ops/ no function ${code.toLowerCase()}(op: Op, ...): void`);
    return { code, ...kernel };
  });
  const files = [...new Set(kernels.map((k) => k.file))].sort();
  return `/** Which kernel a record's code means. */
${files
  .map((file) =>
    importing(
      kernels.filter((k) => k.file === file).map((k) => k.name),
      `../ops/${file}`,
    ),
  )
  .join('\n')}
import { Op } from './tensor';

${Object.entries(CODE)
  .map(([name, code]) => `const ${name}: u32 = ${code};`)
  .join('\n')}

/** Runs a record as thread ith of nth, with this thread's scratch; cursor_bytes lie from one range's cursor of an op to the next one's. */
export function run(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  // prettier-ignore
  switch (op.code) {
${kernels.map(({ code, name, args }) => `    case ${code}: ${name}(${args}); break;`).join('\n')}
    default: unreachable();
  }
}
`;
}

async function formatted(path: string, text: string): Promise<string> {
  const filepath = fileURLToPath(new URL(path, root));
  return prettier.format(text, { ...(await prettier.resolveConfig(filepath)), filepath });
}

/** Path, and what is in the file. */
export async function generate(): Promise<Map<string, string>> {
  const types = 'src/type-traits.ts';
  const files: readonly (readonly [path: string, table: string, text: string])[] = [
    ['assembly/type/ids.ts', types, typeIds()],
    ['assembly/type/blocks.ts', types, blocks()],
    ['assembly/type/traits.ts', types, traits()],
    ['assembly/matmul/format/facts.ts', types, formatFacts()],
    ['assembly/matmul/by_type.ts', types, byType()],
    ['assembly/matmul/panel_room.ts', types, panelRoom()],
    ['assembly/runtime/dispatch.ts', 'src/graph/kernels.ts', dispatch()],
  ];
  const out = new Map<string, string>();
  for (const [path, table, text] of files) {
    const head = `// Generated from ${table} by \`npm run generate\`: edit that table and run it again.\n`;
    out.set(path, await formatted(path, head + text));
  }
  const sizes = 'src/wasm/sizes.ts';
  out.set(sizes, await formatted(sizes, sizesOfKernels()));
  out.set('docs/flags.md', flagTable());
  const templates = 'docs/chat-templates.md';
  out.set(templates, templatePage(source(templates)));
  const troubleshooting = 'docs/troubleshooting.md';
  out.set(troubleshooting, withErrorTable(source(troubleshooting), source('src/errors.ts')));
  const server = 'docs/server.md';
  out.set(server, withFieldTables(source(server)));
  return out;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const write = async (): Promise<void> => {
    for (const [path, text] of await generate()) writeFileSync(new URL(path, root), text);
  };
  await write();
  execFileSync(process.execPath, ['scripts/build.mjs', '--wasm'], { cwd: root, stdio: 'inherit' });
  await write(); // the sizes of the kernels as they are now
}
