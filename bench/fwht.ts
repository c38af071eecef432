/**
 * The in-place Walsh-Hadamard transform of rows larger than the cache.
 *
 * Usage:
 *
 *   node --import tsx bench/fwht.ts [--threads 1,2] [--rounds 60] [--mib 128] [--sizes 64,128]
 *     [--turbo auto]
 *
 * Its bytes read and written per second are compared with two limits. The first is the machine's
 * read bandwidth, measured as in roofline.ts (a pass in place moves each byte twice, and both are
 * counted). The second, "by adding", would be reached if loads, stores and shuffles took no time:
 * vectors added and subtracted per second in registers, divided by the additions that the kernel
 * needs per vector. Where both share the processor's ports, the real limit is lower. With turbo a
 * vector has eight elements instead of four.
 *
 * A core of a virtual machine may share a processor core with other work. That slows the transform,
 * which is bound by the processor's ports, but hardly the limits, which wait for memory or for
 * additions. So the table has the best tenth of the rounds as well as the median: the speed on
 * undisturbed cores. For the limits the best value seen is used, because nothing can make them look
 * too high.
 */
import { createEngine, fwht_inplace } from '../src/entry/core-node.ts';
import { startThreads, type Job } from './roofline/measure.ts';
import { describeMachine, flags, machine, median, numbers, show, table, warnIfBusy } from './support.ts';

const here = machine();
const options = flags('the transform against the bandwidth of memory', {
  threads: [...new Set([1, here.cores])].join(','),
  rounds: '60',
  mib: '128',
  // Heads, embeddings and feed-forwards: powers of two, and some multiples of the other orders.
  sizes: '64,128,256,512,1024,2048,4096,1536,2560,3584',
  turbo: 'off',
});
const counts = numbers(options.threads);
const bytes = Number(options.mib) * 2 ** 20;
/**
 * Milliseconds of a measurement of the limits. Rates of all threads are added up. In a shorter
 * measurement, two threads that do not quite overlap would each run alone for a while, and the sum
 * would exceed what the machine can do.
 */
const SLICE_MS = 120;
/** Rounds between two measurements of the limits. */
const EVERY = 6;
/** Vectors of one run of peak_add or peak_less (roofline/assembly/ceilings.ts in_registers). */
const ADD_VECTORS = 12;
/** Additions per vector for mixing m parts (assembly/ops/fwht_mix.ts), by m / 4. */
const MIXING: { readonly [m: number]: number } = { 3: 50 / 12, 5: 114 / 20, 7: 210 / 28 };
/** Additions per vector: one per doubling, or the mixing, and the multiplication by the scale. */
function additions(n: number): number {
  const power = n & -n;
  return 1 + (power === n ? Math.log2(n) : Math.log2(power / 4) + MIXING[n / power]);
}
/** Lower bound of the best tenth. */
const best = (list: readonly number[]): number => [...list].sort((x, y) => y - x)[Math.floor((list.length - 1) / 10)];
const percent = (part: number): string => `${(100 * part).toFixed(0)} %`;
warnIfBusy(here);

const jobs = (['read', 'read_streams', 'peak_add', 'peak_less'] as const).map((what): Job => ({ name: what, what, bytes, warmMs: 100 }));
const rows: string[][] = [];
for (const threads of counts) {
  const engine = await createEngine({ threads, memoryBytes: bytes + 2 ** 24, turbo: options.turbo === 'auto' && 'auto' });
  const ceilings = await startThreads(engine.build.startsWith('simd') ? 'simd' : 'relaxed', threads, bytes);
  const most = jobs.map(() => 0);
  const moved = new Map<number, number[]>();
  for (const n of numbers(options.sizes)) {
    const count = Math.floor(bytes / (4 * n));
    const a = engine.tensor('f32', [n, count]);
    const plan = engine.plan(fwht_inplace(a));
    const rates: number[] = [];
    for (let round = -3; round < Number(options.rounds); round++) {
      if (round >= 0 && round % EVERY === 0) {
        const i = (round / EVERY) % jobs.length;
        most[i] = Math.max(most[i], await ceilings.measure(jobs[i], threads, SLICE_MS));
      }
      const start = performance.now();
      await engine.compute(plan);
      if (round >= 0) rates.push((2 * 4 * n * count * 1000) / (performance.now() - start));
    }
    moved.set(n, rates);
    plan.dispose();
    engine.free(a);
  }
  await ceilings.end();
  const read = Math.max(most[0], most[1]) * bytes;
  const [adds, lesses] = [most[2] * ADD_VECTORS, most[3] * ADD_VECTORS];
  const build = engine.turbo ? `${engine.build}, turbo` : engine.build;
  console.error(
    `${threads} threads: read ${show(read / 1e9)} GB/s; ${show(adds / 1e9)} G vectors added, ${show(lesses / 1e9)} G subtracted a second`,
  );
  for (const [n, rates] of moved) {
    // Each vector of 16 bytes is read and written.
    const alone = (32 * (engine.turbo ? 2 : 1) * (engine.build.startsWith('simd') ? adds : adds + lesses)) / additions(n);
    const of = (rate: number): string[] => [show(rate / 1e9), percent(rate / read)];
    rows.push([
      String(n),
      build,
      String(threads),
      ...of(median(rates)),
      ...of(best(rates)),
      additions(n).toFixed(1),
      ...of(alone),
      percent(best(rates) / alone),
    ]);
  }
  await engine.dispose();
}
const header = ['n', 'build', 'threads', 'GB/s', 'of read', 'best tenth', 'of read', 'additions', 'by adding', 'of read', 'reached'];
console.log(`${describeMachine(here)}\n\n${table(header, rows)}`);
