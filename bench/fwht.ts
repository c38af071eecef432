/**
 * The Walsh-Hadamard transform of rows that leave the cache, in place: bytes read and written a second, against what the machine can read (roofline.ts).
 *
 *   node --import tsx bench/fwht.ts [--threads 1,2] [--rounds 5] [--mib 256]
 */
import { createEngine, fwht_inplace } from '../src/entry/core-node.ts';
import { measureAll, startThreads, type Job } from './roofline/measure.ts';
import { describeMachine, flags, machine, median, numbers, show, table, warnIfBusy } from './support.ts';

const here = machine();
const options = flags('the transform against the bandwidth of memory', {
  threads: [...new Set([1, here.cores])].join(','),
  rounds: '5',
  mib: '256',
});
const counts = numbers(options.threads);
const bytes = Number(options.mib) * 2 ** 20;
/** Heads, embeddings and feed-forwards: powers of two, and one for each of the other orders. */
const SIZES = [64, 128, 256, 1024, 4096, 1536, 2560, 3584];
warnIfBusy(here);

const jobs = (['read', 'read_streams'] as const).map((what): Job => ({ name: what, what, bytes, warmMs: 100 }));
const reading = await startThreads('simd', Math.max(...counts), bytes);
const rates = await measureAll(reading, jobs, counts, 3, 120, () => undefined);
await reading.end();

const rows: string[][] = [];
for (const threads of counts) {
  const most = Math.max(...jobs.map(({ name }) => rates.get(`${name} x${threads}`)!)) * bytes;
  const engine = await createEngine({ threads, memoryBytes: bytes + 2 ** 24 });
  for (const n of SIZES) {
    const count = Math.floor(bytes / (4 * n));
    const a = engine.tensor('f32', [n, count]);
    const plan = engine.plan(fwht_inplace(a));
    const seconds: number[] = [];
    for (let round = -1; round < Number(options.rounds); round++) {
      const start = performance.now();
      await engine.compute(plan);
      if (round >= 0) seconds.push((performance.now() - start) / 1000);
    }
    const rate = (2 * 4 * n * count) / median(seconds);
    rows.push([String(n), engine.build, String(threads), show(rate / 1e9), show(most / 1e9), `${((100 * rate) / most).toFixed(0)} %`]);
    plan.dispose();
    engine.free(a);
  }
  await engine.dispose();
}
console.log(`${describeMachine(here)}\n\n${table(['n', 'build', 'threads', 'GB/s', 'read DRAM', 'of it'], rows)}`);
