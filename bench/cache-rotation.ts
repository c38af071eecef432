/**
 * What the rotation of a quantised cache costs a token of generation, deep in a sequence: two copies of a model, one with --no-cache-rotation, take turns.
 * Where two copies lie in memory makes a difference of up to 5 % between copies without rotation (EPYC, one thread): so they are opened several times, the
 * one first and then the other.
 *
 *   node --import tsx bench/cache-rotation.ts [--model FILE] [--depth 1024] [--types q8_0,q4_0] [--threads 1,2] [--openings 8] [--tokens 50]
 *
 * The heads of the model have 64 elements or a multiple; without --model one of 190 M weights is made.
 */
import { loadModel, type KvType, type Model } from 'quantlet';
import { benchModel, describeMachine, flags, machine, median, numbers, table, warnIfBusy } from './support.ts';

const here = machine();
const options = flags('the cost of rotated caches', {
  model: '',
  depth: '1024',
  types: 'q8_0,q4_0',
  threads: [...new Set([1, here.cores])].join(','),
  openings: '8',
  tokens: '50',
});
const depth = Number(options.depth);
const file = options.model || (await benchModel());
warnIfBusy(here);

async function open(type: KvType, threads: number, cacheRotation: boolean): Promise<Model> {
  const model = await loadModel(file, { threads, cacheRotation, cacheTypeK: type, cacheTypeV: type, contextLength: depth + 16 });
  const { engine, scheduler, slots } = model.internals;
  const ids = Array.from({ length: depth }, (_, i) => (i * 7919 + 3) % engine.hparams.nVocab);
  await scheduler.submit(slots.all[0], ids, depth - 1, () => {});
  return model;
}
/** Milliseconds of a token behind `depth` others. */
async function token({ internals: { scheduler, slots } }: Model): Promise<number> {
  slots.all[0].truncate(depth);
  const start = performance.now();
  await scheduler.submit(slots.all[0], [3], 0, () => {});
  return performance.now() - start;
}

const rows: string[][] = [];
for (const type of options.types.split(',') as KvType[])
  for (const threads of numbers(options.threads)) {
    const medians: number[][] = [[], []];
    /** Of each opening, of what it is more with rotation. */
    const more: number[] = [];
    for (let opening = 0; opening < Number(options.openings); opening++) {
      const first = opening & 1;
      const models: Model[] = [];
      for (const k of [first, 1 - first]) models[k] = await open(type, threads, k === 0);
      const times: number[][] = [[], []];
      for (let i = -10; i < Number(options.tokens); i++)
        for (const k of i & 1 ? [0, 1] : [1, 0]) {
          const ms = await token(models[k]);
          if (i >= 0) times[k].push(ms);
        }
      for (const model of models) await model.dispose();
      times.forEach((ms, k) => medians[k].push(median(ms)));
      // Neighbours in time have met the same machine.
      more.push((100 * median(times[0].map((ms, i) => ms - times[1][i]))) / median(times[1]));
    }
    const [rotated, plain] = medians.map(median);
    console.error(`${type}, ${threads}: ${more.map((percent) => percent.toFixed(2)).join(' ')} %`);
    rows.push([
      type,
      String(threads),
      rotated.toFixed(2),
      plain.toFixed(2),
      `${median(more).toFixed(2)} %`,
      `${Math.min(...more).toFixed(2)} to ${Math.max(...more).toFixed(2)} %`,
    ]);
  }
console.log(`${describeMachine(here)}\n\n${table(['cache', 'threads', 'rotated, ms', 'as it is, ms', 'more', 'openings'], rows)}`);
