/**
 * The Walsh-Hadamard transform of rows that leave the cache, in place: bytes read and written a second, against what a loop reads and writes that does nothing
 * but load, add and store in place ("update"), and against what the machine can read at most (as roofline.ts measures it: a pass in place moves each byte
 * twice, so both are counted for it). Both are measured anew beside each size: what memory gives to one machine of several changes.
 *
 *   node --import tsx bench/fwht.ts [--threads 1,2] [--rounds 5] [--mib 256] [--turbo auto]
 */
import { createEngine, fwht_inplace } from '../src/entry/core-node.ts';
import { measureAll, startThreads, type Job } from './roofline/measure.ts';
import { describeMachine, flags, machine, median, numbers, show, table, warnIfBusy } from './support.ts';

const here = machine();
const options = flags('the transform against the bandwidth of memory', {
  threads: [...new Set([1, here.cores])].join(','),
  rounds: '5',
  mib: '256',
  turbo: 'off',
});
const counts = numbers(options.threads);
const bytes = Number(options.mib) * 2 ** 20;
/** Heads, embeddings and feed-forwards: powers of two, and one for each of the other orders. */
const SIZES = [64, 128, 256, 1024, 4096, 1536, 2560, 3584];
warnIfBusy(here);

const jobs = (['read', 'read_streams', 'update'] as const).map((what): Job => ({ name: what, what, bytes, warmMs: 100 }));
const reading = await startThreads('simd', Math.max(...counts), bytes);

const rows: string[][] = [];
for (const threads of counts) {
  const engine = await createEngine({ threads, memoryBytes: bytes + 2 ** 24, turbo: options.turbo === 'auto' && 'auto' });
  for (const n of SIZES) {
    const count = Math.floor(bytes / (4 * n));
    const rates = await measureAll(reading, jobs, [threads], 3, 120, () => undefined);
    const rate = (name: string): number => rates.get(`${name} x${threads}`)! * bytes;
    const [read, update] = [Math.max(rate('read'), rate('read_streams')), 2 * rate('update')];
    const a = engine.tensor('f32', [n, count]);
    const plan = engine.plan(fwht_inplace(a));
    const seconds: number[] = [];
    for (let round = -1; round < Number(options.rounds); round++) {
      const start = performance.now();
      await engine.compute(plan);
      if (round >= 0) seconds.push((performance.now() - start) / 1000);
    }
    const moved = (2 * 4 * n * count) / median(seconds);
    const parts = [update, read].flatMap((roof) => [show(roof / 1e9), `${((100 * moved) / roof).toFixed(0)} %`]);
    rows.push([String(n), engine.turbo ? `${engine.build}, turbo` : engine.build, String(threads), show(moved / 1e9), ...parts]);
    plan.dispose();
    engine.free(a);
  }
  await engine.dispose();
}
await reading.end();
console.log(`${describeMachine(here)}\n\n${table(['n', 'build', 'threads', 'GB/s', 'update', 'of it', 'read', 'of it'], rows)}`);
