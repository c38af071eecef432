/**
 * The roofline of this machine: the measured limits of WebAssembly code for loads and
 * multiplications per second, and the speed of the packed products below them.
 *
 * Usage:
 *
 *   node --import tsx bench/roofline.ts [--threads 1,2] [--rounds 3] [--ms 120] [--turbo]
 *     [--out FOLDER]
 *
 * Ceilings (bench/roofline/assembly/ceilings.ts): reading from L1, L2, L3 and DRAM, as one stream
 * or four, whichever is faster; and products in registers, of f32 and of 8 bits as the kernels form
 * them. Kernels: GEMV (one activation row) with weights in DRAM and in L2, and GEMM of 64 rows.
 * Writes bench/results/roofline-<cpu>-node<major>.svg, and its figures as a table in .md.
 */
import { setFlagsFromString } from 'node:v8';
import { TURBO_FLAGS } from '../src/turbo/compile.ts';
import { TYPE, rowSize, type TypeName } from '../src/type-traits.ts';
import { draw, type Panel } from './roofline/draw.ts';
import { measureAll, startThreads, type BuildKind, type Job } from './roofline/measure.ts';
import { CHUNK_ROWS, describeMachine, flags, machine, machineName, numbers, show, table, warnIfBusy, writeResult } from './support.ts';

const here = machine();
const options = flags("this machine's roofline", {
  threads: [...new Set([1, here.cores])].join(','),
  rounds: '3',
  ms: '120',
  turbo: false,
  out: '',
});
const counts = numbers(options.threads);
const rounds = Number(options.rounds);
const ms = Number(options.ms);
// Both flags must come before the first module is compiled (src/entry/node.ts).
if (process.versions.node.startsWith('20.')) setFlagsFromString('--experimental-wasm-relaxed-simd');
if (options.turbo) for (const flag of TURBO_FLAGS) setFlagsFromString(flag);
warnIfBusy(here);

const KIB = 2 ** 10;
const MIB = 2 ** 20;
/** Larger than any L3 per thread, but small enough for machines with many cores. */
const DRAM = Math.max(128, Math.min(384, Math.floor(2048 / Math.max(...counts)))) * MIB;
const READS = { L1: 16 * KIB, L2: 384 * KIB, L3: 6 * MIB, DRAM } as const;
export type Level = keyof typeof READS;

const TYPES: readonly TypeName[] = ['q4_0', 'q4_K', 'q6_K', 'q8_0', 'f16', 'f32'];
/**
 * Row length of typical models, and columns of the GEMM: as many as the engine computes at a time.
 */
const NE00 = 2048;
const COLUMNS = 64;

type Where = 'GEMV, DRAM' | 'GEMV, L2' | 'GEMM';

interface Shape {
  readonly where: Where;
  readonly rows: number;
  readonly columns: number;
}
const rowsFor = (type: TypeName, bytes: number): number =>
  Math.max(CHUNK_ROWS, Math.floor(bytes / rowSize(TYPE[type], NE00) / CHUNK_ROWS) * CHUNK_ROWS);
const shapes = (type: TypeName): Shape[] => [
  { where: 'GEMV, DRAM', rows: rowsFor(type, DRAM), columns: 1 },
  { where: 'GEMV, L2', rows: rowsFor(type, READS.L2), columns: 1 },
  { where: 'GEMM', rows: 512, columns: COLUMNS },
];
/**
 * Multiply-adds of a call, and its minimal traffic in bytes: weights and activations read, results
 * written.
 */
const macs = ({ rows, columns }: Shape): number => rows * NE00 * columns;
const traffic = (type: TypeName, { rows, columns }: Shape): number => rows * rowSize(TYPE[type], NE00) + 4 * columns * (NE00 + rows);

const panels: Panel[] = [];
const ceilingRows: string[][] = [];
const kernelRows: string[][] = [];
const facts: string[] = [];
const fact = (what: string, x: number, least: number): void =>
  void facts.push(`- ${what}: ${x.toFixed(2)} ${x >= least ? '✓' : '✗'} ${least}`);
let dotRelaxed: Map<number, number> = new Map();

for (const kind of ['relaxed', 'simd'] as const satisfies readonly BuildKind[]) {
  const jobs: Job[] = [
    ...Object.entries(READS).flatMap(([level, bytes]) =>
      (['read', 'read_streams'] as const).map((what): Job => ({ name: `${what} ${level}`, what, bytes, warmMs: 100 })),
    ),
    ...(['peak_f32', 'peak_dot', ...(kind === 'relaxed' ? ['peak_dot_add' as const] : [])] as const).map((what): Job => ({
      name: what,
      what,
      warmMs: 100,
    })),
    ...TYPES.flatMap((type) =>
      shapes(type).map(({ where, rows, columns }): Job => ({
        name: `${type} ${where}`,
        what: 'mul_mat',
        type: TYPE[type].id,
        rows,
        ne00: NE00,
        columns,
        chunk: CHUNK_ROWS,
        warmMs: 200,
      })),
    ),
  ];
  const threads = await startThreads(kind, Math.max(...counts), DRAM);
  const rates = await measureAll(threads, jobs, counts, rounds, ms, (part) =>
    process.stderr.write(`\r${kind}: ${(part * 100).toFixed(0)} %   `),
  );
  await threads.end();
  process.stderr.write('\n');
  const rate = (name: string, nth: number): number => rates.get(`${name} x${nth}`)! / 1e9;

  for (const nth of counts) {
    const bandwidth = Object.fromEntries(
      Object.entries(READS).map(([level, bytes]) => [
        level,
        Math.max(rate(`read ${level}`, nth), rate(`read_streams ${level}`, nth)) * bytes,
      ]),
    ) as { [K in Level]: number };
    const peak = (what: string, lanes: number): number => rate(what, nth) * 512 * lanes;
    const f32 = peak('peak_f32', 4);
    const dot = peak('peak_dot', kind === 'relaxed' ? 16 : 8);
    const dotAdd = kind === 'relaxed' ? peak('peak_dot_add', 16) : undefined;
    ceilingRows.push([
      kind,
      String(nth),
      ...Object.values(bandwidth).map(show),
      show(f32),
      show(dot),
      dotAdd === undefined ? '' : show(dotAdd),
    ]);
    const points = TYPES.flatMap((type) =>
      shapes(type).map((shape) => {
        const gmacs = rate(`${type} ${shape.where}`, nth) * macs(shape);
        const intensity = macs(shape) / traffic(type, shape);
        const compute = type === 'f16' || type === 'f32' ? f32 : dot;
        const memory = bandwidth[shape.where === 'GEMV, L2' ? 'L2' : 'DRAM'] * intensity;
        const roof = Math.min(compute, memory);
        kernelRows.push([
          `${type} ${shape.where}`,
          kind,
          String(nth),
          show(intensity),
          show(gmacs),
          show(gmacs / intensity),
          show(roof),
          memory < compute ? 'bandwidth' : 'products',
          `${((100 * gmacs) / roof).toFixed(0)} %`,
        ]);
        return { type, where: shape.where, intensity, gmacs };
      }),
    );
    panels.push({ build: kind, threads: nth, bandwidth, f32, dot, points });
    const of = (where: Where): (typeof points)[number] => points.find((p) => p.type === 'q4_0' && p.where === where)!;
    const words = `q4_0, ${kind}, ${nth} ${nth === 1 ? 'thread' : 'threads'}`;
    if (kind === 'relaxed') {
      fact(
        `GEMV from DRAM, of the measured read bandwidth, ${words}`,
        of('GEMV, DRAM').gmacs / of('GEMV, DRAM').intensity / bandwidth.DRAM,
        0.85,
      );
      fact(`GEMM, of the measured dot peak, ${words}`, of('GEMM').gmacs / dot, 0.7);
    } else {
      fact(`GEMM, of the relaxed build's, ${words}`, of('GEMM').gmacs / dotRelaxed.get(nth)!, 0.5);
    }
  }
  if (kind === 'relaxed')
    dotRelaxed = new Map(panels.map((p) => [p.threads, p.points.find((x) => x.type === 'q4_0' && x.where === 'GEMM')!.gmacs]));
}

const title = `Roofline: ${here.cpu}, Node ${here.node}${options.turbo ? ' with turbo' : ''}`;
const report = [
  `# ${title}`,
  '',
  describeMachine(here),
  '',
  `Every thread has its own weights. Medians of ${rounds} rounds, of ceilings the best. Bandwidth in GB/s, products in GMAC/s (1 MAC = one product and its addition). Intensity: products for each byte of weights, activations and results. The dot ceiling is that of 4-bit codes: codes of 8 bits (q8_0) take twice the operations, so at most half of it.`,
  '',
  '## Ceilings',
  '',
  table(['build', 'threads', ...Object.keys(READS).map((l) => `read ${l}`), 'f32', 'dot', 'i32 dot-add'], ceilingRows),
  '',
  `## Packed products of ${NE00}-wide rows; GEMM: ${COLUMNS} activation rows`,
  '',
  table(['kernel', 'build', 'threads', 'MAC/byte', 'GMAC/s', 'GB/s', 'roof', 'bound by', 'of roof'], kernelRows),
  '',
  ...facts,
].join('\n');
console.log(report);
const base = `roofline-${machineName(here)}-node${Number.parseInt(here.node)}${options.turbo ? '-turbo' : ''}`;
const folder = options.out || undefined;
writeResult(`${base}.md`, report, folder);
writeResult(`${base}.json`, JSON.stringify({ machine: here, turbo: options.turbo, panels }, null, 1), folder);
console.error(
  `written: ${writeResult(`${base}.svg`, draw(title, `${here.caches} · ${here.features.join(' ')} · ${here.date.slice(0, 10)}`, panels), folder)}`,
);
process.exit(0);
