/**
 * Asks native ggml for the bytes of formats.json. Run it when a format is added; users, tests and
 * CI do not need it.
 *
 *   mkdir oracle && cd oracle && npm init -y
 *   npm install --ignore-scripts @node-llama-cpp/linux-x64@3.22.1 koffi
 *   npx tsx test/golden/formats.ts oracle
 *
 * The last line writes test/golden/formats.json. With --show it prints the hashed bytes instead:
 *
 *   npx tsx test/golden/formats.ts oracle --show ref q4_K "one NaN"
 *
 * Koffi's prebuilt binary comes as its optional dependency.
 *
 * The grid quantisers (IQ1, IQ2, IQ3) end the process for some rows. So each hostile row has a
 * process of its own, and a run takes some minutes.
 *
 * The file keeps hashes, not bytes: the first 16 hex digits of SHA-256. ggml's reference quantisers
 * and to_float are in libggml-base (built without FMA); the products are the scalar `_generic` ones
 * of libggml-cpu.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TYPE, namesOf, rowSize, typeById, typesWith, type TypeName } from '../../src/type-traits.ts';
import { BELOW_POWERS, HOSTILE, IMATRIX, N, ROWS, oneNaN, oneNaNScale, randomBlocks, scaledBlocks } from './formats-rows.ts';

const [folder, option, ...wanted] = process.argv.slice(2);
if (!folder) {
  console.error('usage: npx tsx test/golden/formats.ts FOLDER [--show ref|imatrix|plain|dequantize TYPE [ROW]]; see the head of this file');
  process.exit(2);
}
const require = createRequire(join(resolve(folder), 'package.json'));
const koffi = require('koffi');
const bins = join(dirname(require.resolve('@node-llama-cpp/linux-x64')), '..', 'bins', 'linux-x64');
const base = koffi.load(join(bins, 'libggml-base.so'));
const cpu = koffi.load(join(bins, 'libggml-cpu-haswell.so'));
cpu.func('void ggml_cpu_init()')();
const quantizeChunk = base.func(
  'size_t ggml_quantize_chunk(int type, const void *src, void *dst, int64_t start, int64_t nrows, int64_t n_per_row, const void *imatrix)',
);

/** Types with a quantiser, and types that are only read. */
const TYPES = namesOf(typesWith((k, { id, blckSize }) => k.quantizer && blckSize > 1 && typeById(id)));
const READ_ONLY = namesOf(typesWith((k) => !k.quantizer));
const dotType = (type: TypeName): TypeName | undefined => TYPE[type].kernels!.vecDotType;

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
const view = (a: Float32Array): Buffer => Buffer.from(a.buffer, a.byteOffset, a.byteLength);

function quantizeRef(type: TypeName, x: Float32Array): Buffer {
  const out = Buffer.alloc(rowSize(TYPE[type], x.length));
  base.func(`void quantize_row_${type}_ref(const void *x, void *y, int64_t k)`)(view(x), out, x.length);
  return out;
}

/**
 * Tells if a row has 32 elements below 1e-15. For these, iq4_nl's _ref of this version packs codes
 * that it never set, so there is nothing to compare (their scale is 0).
 */
const hasZeroBlock = (x: Float32Array): boolean =>
  Array.from({ length: x.length / 32 }, (_, b) => x.subarray(32 * b, 32 * b + 32)).some(
    (block) => !block.some((v) => Math.abs(v) >= 1e-15),
  );

function quantizeImatrix(type: TypeName, x: Float32Array, imatrix: Buffer | null = view(IMATRIX)): Buffer {
  const out = Buffer.alloc(rowSize(TYPE[type], x.length));
  quantizeChunk(TYPE[type].id, view(x), out, 0, 1, x.length, imatrix);
  return out;
}

/**
 * Hash of a row quantised to a grid type, or null if the process ended. Grid quantisers end the
 * process if no grid entry is near enough, so each hostile row runs in a process of its own.
 */
function gridQuantized(type: TypeName, row: string, how: 'plain' | 'imatrix'): string | null {
  if (!HOSTILE.includes(row)) return hash(show[how](type, row));
  const args = ['--import', 'tsx', fileURLToPath(import.meta.url), folder, '--show', how, type, row];
  const { status, signal, stdout } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, GGML_NO_BACKTRACE: '1' },
  });
  if (status === 0) return hash(Buffer.from(stdout.replaceAll('\n', ''), 'hex'));
  if (signal !== 'SIGABRT') throw new Error(`${type} of "${row}" (${how}): ${signal ?? status}`);
  return null;
}

const SEED = 1000;
const ELEMENTS = 1024;
const blocksOf = (type: TypeName): Uint8Array =>
  randomBlocks(type, TYPE[type].typeSize, ELEMENTS / TYPE[type].blckSize, SEED + TYPE[type].id);

function toFloat(type: TypeName, x: Uint8Array, n: number): Buffer {
  const out = Buffer.alloc(4 * n);
  base.func(`void dequantize_row_${type}(const void *x, void *y, int64_t k)`)(Buffer.from(x), out, n);
  return out;
}
const dequantize = (type: TypeName): Buffer => toFloat(type, blocksOf(type), ELEMENTS);

function dot(type: TypeName, x: Uint8Array, y: Uint8Array, n: number): number {
  const out = Buffer.alloc(4);
  const declared = (name: string): string =>
    `void ${name}(int n, void *s, size_t bs, const void *x, size_t bx, const void *y, size_t by, int nrc)`;
  const name = `ggml_vec_dot_${type}_${dotType(type)}`;
  // If no processor has its own version of a product, the scalar one has the plain name.
  const kernel = type === 'q2_0' ? cpu.func(declared(name)) : cpu.func(declared(`${name}_generic`));
  kernel(n, out, 0, Buffer.from(x), 0, Buffer.from(y), 0, 1);
  return out.readFloatLE(0);
}

/** A number as JSON, which has neither NaN nor infinities. */
const number = (x: number): number | string => (Number.isFinite(x) ? Number(x.toPrecision(9)) : String(x));

const rowsOf = (type: TypeName, names: readonly string[]): string[] =>
  names.filter((name) => type !== 'iq4_nl' || !hasZeroBlock(ROWS[name]));

/**
 * For each hostile row: hash of its dequantised bytes, and its products as weights, as activations
 * and with itself.
 */
function hostile(type: TypeName): unknown {
  const other = dotType(type)!;
  const plain = ROWS['gaussian 1'];
  return Object.fromEntries(
    rowsOf(type, HOSTILE).map((name) => {
      const [w, x] = [quantizeRef(type, ROWS[name]), quantizeRef(other, ROWS[name])];
      const [w1, x1] = [quantizeRef(type, plain), quantizeRef(other, plain)];
      return [
        name,
        [hash(oneNaN(toFloat(type, w, N))), number(dot(type, w, x1, N)), number(dot(type, w1, x, N)), number(dot(type, w, x, N))],
      ];
    }),
  );
}

/**
 * For each block with an awkward scale: hash of its dequantised bytes, and its product with an
 * ordinary row.
 */
function scaled(type: TypeName): unknown[] {
  const { id, blckSize, typeSize } = TYPE[type];
  const other = dotType(type);
  const y = other && quantizeRef(other, ROWS['gaussian 1'].slice(0, 256));
  return scaledBlocks(type, typeSize, SEED + id).map((x) => [
    hash(oneNaN(toFloat(type, x, blckSize))),
    ...(y ? [number(dot(type, x, y, blckSize))] : []),
  ]);
}

const show: Record<string, (type: TypeName, row: string) => Buffer> = {
  ref: (type, row) => quantizeRef(type, ROWS[row]),
  imatrix: (type, row) => quantizeImatrix(type, ROWS[row]),
  plain: (type, row) => quantizeImatrix(type, ROWS[row], null),
  dequantize,
};
if (option === '--show') {
  console.log(
    show[wanted[0]](wanted[1] as TypeName, wanted[2])
      .toString('hex')
      .replace(/(.{64})/g, '$1\n'),
  );
  process.exit(0);
}

const each = <T>(types: readonly TypeName[], of: (type: TypeName) => T): Record<string, T> =>
  Object.fromEntries(types.map((type) => [type, of(type)]));
const weights = TYPES.filter(dotType);
const searching = TYPES.filter((type) => TYPE[type].kernels!.quantizer !== 'row');
const readable = [...TYPES.filter((type) => type !== 'q8_1'), ...READ_ONLY];
const golden = {
  source: '@node-llama-cpp/linux-x64 3.22.1',
  n: N,
  ref: each(TYPES, (type) =>
    Object.fromEntries(rowsOf(type, Object.keys(ROWS)).map((name) => [name, hash(oneNaNScale(type, quantizeRef(type, ROWS[name])))])),
  ),
  imatrix: each(searching, (type) =>
    Object.fromEntries(Object.entries(ROWS).map(([name, x]) => [name, hash(oneNaNScale(type, quantizeImatrix(type, x)))])),
  ),
  grid: each(namesOf(typesWith((k) => k.gridQuantizer)), (type) =>
    Object.fromEntries(
      (TYPE[type].kernels!.gridQuantizer === 'plain' ? (['plain', 'imatrix'] as const) : (['imatrix'] as const)).map((how) => [
        how,
        Object.fromEntries(Object.keys(ROWS).map((name) => [name, gridQuantized(type, name, how)])),
      ]),
    ),
  ),
  below_powers: hash(quantizeRef('mxfp4', BELOW_POWERS)),
  dequantize: each(readable, (type) => hash(dequantize(type))),
  vec_dot: each(weights, (type) => dot(type, blocksOf(type), blocksOf(dotType(type)!), ELEMENTS)),
  hostile: each(weights, hostile),
  scaled: Object.fromEntries(Object.entries(each(readable, scaled)).filter(([, blocks]) => blocks.length > 0)),
};
// One line per list, so that diffs are readable.
writeFileSync(
  new URL('./formats.json', import.meta.url),
  JSON.stringify(golden, null, 1).replace(/\[[^\][]*\]/g, (list) => list.replace(/\s+/g, ' ')) + '\n',
);
