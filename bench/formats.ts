/**
 * Every weight format on one thread, relative to q4_0.
 *
 * Usage:
 *
 *   node --import tsx bench/formats.ts [--build relaxed] [--rounds 5] [--types q4_K,q6_K] [--write]
 *
 * Columns: GMAC/s of its prompt path (64 columns), GB/s of weights of its generation path (one
 * column, weights from memory), the same in GMAC/s, and GMAC/s of dequantising rows first, which
 * must never be the fastest. The last formats are the unpacked forms of IQ1 to IQ3 (LEVELS in
 * src/type-traits.ts).
 *
 * Formats alternate in rounds. Work is timed in pieces of about a millisecond, and the fastest of a
 * round is taken, so that other work on the machine has no effect. A figure is the median of its
 * rounds. --write puts the table into bench/results. bench/kernels.ts has more shapes and builds.
 */
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { LEVELS, TYPE, rowSize, typesWith, type TypeTraits } from '../src/type-traits.ts';
import { CHUNK_ROWS, describeMachine, flags, machine, median, resultName, table, warnIfBusy, writeResult } from './support.ts';

const options = flags('every weight format relative to q4_0', { build: 'relaxed', rounds: '5', types: '', write: false });
if (process.versions.node.startsWith('20.')) setFlagsFromString('--experimental-wasm-relaxed-simd');

const BY_NAME = new Map<string, TypeTraits>([...Object.values(TYPE), ...Object.values(LEVELS)].map((t) => [t.name, t]));
const ALL = [...typesWith((k) => k.packed), ...Object.values(LEVELS)];
const isLevels = ({ name }: TypeTraits): boolean => !(name in TYPE);
const asked = options.types.split(',').flatMap((a) => BY_NAME.get(a) ?? []);
const TYPES: readonly TypeTraits[] = asked.length > 0 ? [...new Set<TypeTraits>([TYPE.q4_0, ...asked])] : ALL;
const NE0 = 2048;
const ROWS = 1024;
const COLUMNS = 64;
/** Bytes of weights, more than any L3 cache. */
const MEMORY = 192 * 2 ** 20;
/** Rows of a measured piece of work. */
const PIECE = 256;
/** Minimum duration of a measurement in seconds. */
const LEAST = 0.1;

/** A product, measured in pieces of PIECE rows. */
interface Way {
  readonly rows: number;
  /** Multiply-adds of a piece. */
  readonly macs: number;
  readonly bytes: number;
  readonly prepare?: () => void;
  readonly run: (row: number) => void;
}

/** Seconds of the fastest piece. */
function fastest({ rows, prepare, run }: Way): number {
  let best = Infinity;
  prepare?.();
  for (
    let row = 0, end = performance.now() + 1000 * LEAST, start = 0;
    (start = performance.now()) < end || best === Infinity;
    row = (row + PIECE) % rows
  ) {
    run(row);
    best = Math.min(best, performance.now() - start);
  }
  return best / 1000;
}

const perByte = ({ blckSize, typeSize }: TypeTraits): number => blckSize / typeSize;

function tableOf(build: string): string {
  const memory = new WebAssembly.Memory({ initial: (MEMORY >> 16) + 600, maximum: 65536 });
  const k = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(new URL(`../dist/wasm/${build}.wasm`, import.meta.url))), {
    env: { memory },
  }).exports as Record<string, (...a: number[]) => number>;
  const scratch = (k.heap_base() + 63) & ~63;
  const x = scratch + 2 ** 20;
  const act = x + 4 * NE0 * COLUMNS;
  const dst = act + 2 ** 22;
  const weights = dst + 2 ** 20;
  const f32 = new Float32Array(memory.buffer);
  for (let i = 0; i < NE0 * COLUMNS; i++) f32[x / 4 + i] = Math.sin(i * 12.9898) * 3;
  // 0x1111 as f16 is 0.0006: sums stay normal numbers (subnormal ones would be slower). As levels
  // all codes are 1, so that no loop takes its path for large codes
  // (assembly/matmul/gemm_8x4_grid.ts), which real weights rarely need.
  new Uint8Array(memory.buffer, weights).fill(0x11);

  /**
   * A product of rows x NE0 weights and columns: by the packed kernels if they know the type, else
   * by vec_dot, else with dequantised rows.
   */
  function product(type: TypeTraits, rows: number, columns: number, dequantised = false): Way {
    const { id } = type;
    const size = rowSize(type, NE0);
    const piece = { rows, bytes: PIECE * size, macs: PIECE * NE0 * columns };
    const vecDotType = k.vec_dot_type(id) >>> 0;
    const actType = k.packed_act_type(id);
    const takesF32 = actType === TYPE.f32.id;
    const packed = takesF32 || k.is_packable(id) !== 0;
    if (dequantised || (!packed && vecDotType === 0xffffffff)) {
      return {
        ...piece,
        run(row) {
          for (let r = row; r < row + PIECE; r++) {
            k.dequantize_row(id, weights + r * size, scratch, NE0);
            for (let c = 0; c < columns; c++) k.vec_dot(TYPE.f32.id, NE0, scratch, x + 4 * NE0 * c);
          }
        },
      };
    }
    if (!packed) {
      const stride = (NE0 / k.blck_size(vecDotType)) * k.type_size(vecDotType);
      return {
        ...piece,
        prepare() {
          for (let c = 0; c < columns; c++) k.quantize_row(vecDotType, x + 4 * NE0 * c, act + c * stride, NE0);
        },
        run(row) {
          for (let r = row; r < row + PIECE; r++)
            for (let c = 0; c < columns; c++) k.vec_dot(id, NE0, weights + r * size, act + c * stride);
        },
      };
    }
    const stride = takesF32 ? 4 * NE0 : k.act_row_size(actType, NE0);
    return {
      ...piece,
      prepare() {
        if (!takesF32) for (let c = 0; c < columns; c++) k.quantize_act(actType, x + 4 * NE0 * c, 0, NE0, act, stride, c, columns);
      },
      run(row) {
        for (let r = row; r < row + PIECE; r += CHUNK_ROWS)
          k.mul_mat_packed(id, weights, NE0, r, r + CHUNK_ROWS, takesF32 ? x : act, stride, columns, dst - r * 4, CHUNK_ROWS * 4, scratch);
      },
    };
  }

  const formats = TYPES.map((type) => ({
    type,
    prompt: product(type, ROWS, COLUMNS),
    generation: product(type, Math.floor(MEMORY / rowSize(type, NE0) / PIECE) * PIECE, 1),
    dequantising: isLevels(type) ? undefined : product(type, ROWS, COLUMNS, true),
    samples: [] as number[][],
  }));
  // wasm starts in the baseline compiler, so the first round only warms up.
  for (let round = -1; round < Number(options.rounds); round++) {
    for (const f of formats) {
      const sample = [
        f.prompt.macs / fastest(f.prompt) / 1e9,
        f.generation.bytes / fastest(f.generation) / 1e9,
        f.dequantising ? f.dequantising.macs / fastest(f.dequantising) / 1e9 : NaN,
      ];
      if (round >= 0) f.samples.push(sample);
    }
  }
  const medians = formats.map((f) => [0, 1, 2].map((i) => median(f.samples.map((s) => s[i]))));
  const q4 = medians[formats.findIndex(({ type }) => type === TYPE.q4_0)];
  return table(
    [
      'format',
      'prompt GMAC/s',
      'of q4_0',
      'generation GB/s',
      'of q4_0',
      'in GMAC/s',
      'of q4_0',
      'dequantising GMAC/s',
      'prompt / dequantising',
    ],
    formats.map(({ type }, i) => [
      type.name,
      medians[i][0].toFixed(1),
      (medians[i][0] / q4[0]).toFixed(2),
      medians[i][1].toFixed(1),
      (medians[i][1] / q4[1]).toFixed(2),
      (medians[i][1] * perByte(type)).toFixed(1),
      ((medians[i][1] * perByte(type)) / (q4[1] * perByte(TYPE.q4_0))).toFixed(2),
      isLevels(type) ? '' : medians[i][2].toFixed(1),
      isLevels(type) ? '' : (medians[i][0] / medians[i][2]).toFixed(2),
    ]),
  );
}

const here = machine();
warnIfBusy(here);
const builds = options.build.split(',');
const report = [
  '# Every weight format relative to q4_0',
  '',
  `${describeMachine(here)}; one thread, median of ${options.rounds} rounds`,
  ...builds.flatMap((build) => ['', `## ${build}`, '', tableOf(build)]),
].join('\n');
console.log(report);
if (options.write) console.error(`written: ${writeResult(`${resultName(here)}-formats.md`, report)}`);
