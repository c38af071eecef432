/**
 * What the rotation of a quantised cache costs a token of generation, deep in a sequence: two copies of a model, one with --no-cache-rotation, take turns.
 *
 *   node --import tsx bench/cache-rotation.ts [--model FILE] [--depth 1024] [--types q8_0,q4_0] [--threads 1,2] [--tokens 300]
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
  tokens: '300',
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
    const models = [await open(type, threads, true), await open(type, threads, false)];
    const times: number[][] = [[], []];
    for (let i = -20; i < Number(options.tokens); i++)
      for (const k of i & 1 ? [0, 1] : [1, 0]) {
        const ms = await token(models[k]);
        if (i >= 0) times[k].push(ms);
      }
    for (const model of models) await model.dispose();
    const [rotated, plain] = times.map(median);
    // Neighbours in time have met the same machine.
    const apart = times[0].map((ms, i) => ms - times[1][i]).sort((a, b) => a - b);
    const percent = (ms: number): string => ((100 * ms) / plain).toFixed(2);
    // So many of the differences on either side of the middle hold the median of all there could be, 95 times of 100.
    const [from, to] = [-0.98, 0.98].map((z) => apart[Math.round((apart.length - 1) / 2 + z * Math.sqrt(apart.length))] ?? NaN);
    rows.push([
      type,
      String(threads),
      rotated.toFixed(2),
      plain.toFixed(2),
      `${percent(median(apart))} %`,
      `${percent(from)} to ${percent(to)} %`,
    ]);
  }
console.log(`${describeMachine(here)}\n\n${table(['cache', 'threads', 'rotated, ms', 'as it is, ms', 'more', '95 %'], rows)}`);
