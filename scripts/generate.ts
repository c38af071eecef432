/**
 * `npm run generate`: writes the derived files, which are committed; test/generate.test.ts compares
 * them with their sources.
 *
 *   kernels' ids, dispatch  | from the tables of types (src/type-traits.ts) and ops
 *                           | (src/graph/kernels.ts), and the declarations of kernels
 *   assembly/layout.ts      | from src/graph/layout.ts and structures.ts
 *   loops                   | from their templates (assembly/templates/) and the table of their
 *                           | instances (loops.ts)
 *   docs/flags.md           | from the tables of flags
 *   docs/chat-templates.md  | from the output of templates
 *   docs/troubleshooting.md | the error codes, from src/errors.ts
 *   docs/server.md          | the fields, from src/server/protocols/protocol.ts
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as prettier from 'prettier';
import { withErrorTable } from './error-table.ts';
import { withFieldTables } from './field-tables.ts';
import { flagTable } from './flag-table.ts';
import { byType, formatFacts, gridRows, openGrid, panelRoom } from './format-dispatch.ts';
import { LEVEL_TYPES, id, importing, ladder, lookup, names, oneOf, root, source } from './kernel-source.ts';
import { layoutSource } from './layout-source.ts';
import { LOOPS, loopText } from './loops.ts';
import { sizesOfKernels } from './sizes.ts';
import { templatePage } from './template-table.ts';
import { KV_BLOCK_TYPES } from '../src/graph/attention-ops.ts';
import { CODE } from '../src/graph/kernels.ts';
import { TYPE, typesWith, type TypeTraits } from '../src/type-traits.ts';

const TYPES: readonly TypeTraits[] = Object.values(TYPE);
const READABLE = typesWith(() => true);

const vecDot = ({ name, kernels }: TypeTraits): string =>
  name === kernels?.vecDotType ? (name === 'f32' ? 'vec_dot_f32' : `vec_dot_${name}_${name}`) : `vec_dot_${name}_${kernels?.vecDotType}`;

const imatrixCall = ({ name, kernels }: TypeTraits): string => {
  const call = `quantize_imatrix_${name}(x, y, k, imatrix, work)`;
  return kernels?.quantizer === 'search' ? call : `if (imatrix) ${call}; else quantize_row_${name}(x, y, k)`;
};

/** Kernels of a type in assembly/type/block/<name>.ts. */
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
  lookup('Elements of a block; 0 for a type without kernels.', 'blck_size', [...READABLE, ...LEVEL_TYPES], (t) => t.blckSize, '0'),
  lookup('Bytes of a block; 0 for a type without kernels.', 'type_size', [...READABLE, ...LEVEL_TYPES], (t) => t.typeSize, '0'),
  lookup(
    'Type in which vec_dot takes its activations; 0xffffffff if there is no vec_dot.',
    'vec_dot_type',
    typesWith((k) => k.vecDotType),
    (t) => t.kernels!.vecDotType!.toUpperCase(),
    '0xffffffff',
  ),
].join('\n')}
${oneOf(
  'True for types whose plain rows are multiplied, eight at a time (matmul/rows_8x1.ts).',
  'takes_rows',
  typesWith((k) => k.plainRows),
)}
${oneOf(
  'True if a cache of this type is kept as blocks for integer products (ops/attention_blocks.ts).',
  'has_blocks',
  KV_BLOCK_TYPES.map((name) => TYPE[name]),
)}`;
}

/** Exports of the kernels of all block formats, by their own names, for the host. */
function blocks(): string {
  return `/** Exports of the kernels of every type, by their own names. */
${READABLE.map((t) => `export { ${blockKernels(t).join(', ')} } from './block/${t.name}';`).join('\n')}
`;
}

function traits(): string {
  const search = typesWith((k) => k.quantizer === 'search');
  const simple = typesWith((k) => k.quantizer && k.quantizer !== 'search');
  return `/** ggml's type_traits: dispatch from type ids to kernels. */
${READABLE.map((t) => importing([...blockKernels(t), ...imatrixKernels(t)], `./block/${t.name}`)).join('\n')}
${importing(READABLE.map(id), './ids')}

${[
  ladder(
    '/** x . y of n elements: a row of weights of `type` and a row of vec_dot_type(type). */',
    'vec_dot(type: u32, n: i32, x: usize, y: usize): f32',
    typesWith((k) => k.vecDotType),
    (t) => `${vecDot(t)}(n, x, y)`,
  ),
  ladder(
    '/** Converts k elements of block data at x to f32 at y. */',
    'dequantize_row(type: u32, x: usize, y: usize, k: i32): void',
    READABLE,
    (t) => `dequantize_row_${t.name}(x, y, k)`,
  ),
  ladder(
    '/**\n * Converts k f32 at x to block data at y, for types whose reference needs no search: every\n * vec_dot_type, and the simple formats.\n */',
    'quantize_row(type: u32, x: usize, y: usize, k: i32): void',
    simple,
    (t) => `quantize_row_${t.name}(x, y, k)`,
  ),
  ladder(
    "/**\n * ggml's from_float, for cpy and set_rows: as quantize_row, and also for types that search for\n * their scales. work: quantize_work_size() bytes of this thread's own.\n */",
    'from_float(type: u32, x: usize, y: usize, k: i32, work: usize): void',
    search,
    (t) => `quantize_row_${t.name}(x, y, k, work)`,
    'quantize_row(type, x, y, k);',
  ),
  ladder(
    '/** Quantises a row as in files. imatrix: its k weights, or 0; work: as for from_float. */',
    'quantize_imatrix_row(type: u32, x: usize, y: usize, k: i32, imatrix: usize, work: usize): void',
    typesWith((k) => k.quantizer && k.quantizer !== 'row'),
    imatrixCall,
    'quantize_row(type, x, y, k);',
  ),
].join('\n')}`;
}

/**
 * Functions of assembly/ops/ that take a record, with their arguments, by the name of the kernel.
 */
function opKernels(): Map<string, { readonly name: string; readonly file: string; readonly args: string }> {
  const found = new Map<string, { name: string; file: string; args: string }>();
  for (const file of readdirSync(new URL('assembly/ops', root)).sort()) {
    for (const [, name, params] of source(`assembly/ops/${file}`).matchAll(/^export function (\w+)\((op: Op\b[^)]*)\): void/gm)) {
      found.set(name.replace(/_op$/, '').toUpperCase(), { name, file: file.replace('.ts', ''), args: names(params) });
    }
  }
  return found;
}

function dispatch(): string {
  const all = opKernels();
  const kernels = Object.keys(CODE).map((code) => {
    const kernel = all.get(code);
    if (!kernel)
      throw new Error(`src/graph/kernels.ts has ${code}, and assembly/ops/ no function ${code.toLowerCase()}(op: Op, ...): void`);
    return { code, ...kernel };
  });
  const files = [...new Set(kernels.map((k) => k.file))].sort();
  return `/** Dispatch from the codes of records to kernels. */
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

/**
 * Runs a record as thread ith of nth, with this thread's scratch. cursor_bytes: from an op's cursor
 * for one range to that for the next.
 */
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

/** Loops, by path. They are written before the dispatch, which reads their declarations. */
async function loops(): Promise<Map<string, string>> {
  const out = new Map<string, string>();
  for (const [name, loop] of Object.entries(LOOPS)) {
    const path = `assembly/${name}.ts`;
    out.set(path, await formatted(path, loopText(loop)));
  }
  return out;
}

/** Sources of the kernels, by path. The sizes of the built kernels are written after these. */
async function kernelSources(): Promise<Map<string, string>> {
  const types = 'src/type-traits.ts';
  const files: readonly (readonly [path: string, table: string, text: string])[] = [
    ['assembly/type/ids.ts', types, typeIds()],
    ['assembly/type/blocks.ts', types, blocks()],
    ['assembly/type/traits.ts', types, traits()],
    ['assembly/matmul/format/facts.ts', types, formatFacts()],
    ['assembly/matmul/by_type.ts', types, byType()],
    ['assembly/matmul/open_grid.ts', types, openGrid()],
    ['assembly/matmul/grid_rows.ts', types, gridRows()],
    ['assembly/matmul/panel_room.ts', types, panelRoom()],
    ['assembly/layout.ts', 'src/graph/layout.ts and structures.ts', layoutSource()],
    ['assembly/runtime/dispatch.ts', 'src/graph/kernels.ts', dispatch()],
  ];
  const out = new Map<string, string>();
  for (const [path, table, text] of files) {
    const head = `// Generated from ${table} by \`npm run generate\`: edit that table and run it again.\n`;
    out.set(path, await formatted(path, head + text));
  }
  return out;
}

/** All generated files, by path. */
export async function generate(): Promise<Map<string, string>> {
  const out = new Map([...(await loops()), ...(await kernelSources())]);
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
  const write = (files: ReadonlyMap<string, string>): void => {
    for (const [path, text] of files) writeFileSync(new URL(path, root), text);
  };
  write(await loops());
  write(await kernelSources());
  // The compiler has said why.
  const { status } = spawnSync(process.execPath, ['scripts/build.mjs', '--wasm'], { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
  write(await generate());
}
