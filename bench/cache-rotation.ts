/**
 * Cost of rotating a quantised cache for a token of generation, deep in a sequence. A token with
 * rotation and one without alternate thousands of times. The result is the ratio of each pair,
 * which are neighbours in time and so met the same machine.
 *
 * Two copies of a model differ by more than rotation can cost, because they lie at different places
 * in memory. So by default a pair is one model: between its steps, the words of its plan that ask
 * for rotation are cleared and restored. The option --no-cache-rotation changes nothing else in a
 * plan. (The text becomes meaningless, but takes as long.) With --copies both models are opened, in
 * alternating order.
 *
 * The interval has 95 % of the medians of 2000 bootstrap samples. Each is drawn with replacement
 * from the openings and from the pairs of each.
 *
 * Usage:
 *
 *   node --import tsx bench/cache-rotation.ts [--model FILE] [--depth 1024] [--types q8_0,q4_0]
 *     [--threads 1,2] [--openings 4] [--pairs 400] [--copies]
 *
 * The model's heads must have 64 elements or a multiple. Without --model one of 190 M weights is
 * made.
 */
import { loadModel, type KvType, type Model } from 'quantlet';
import { OP, OP_SIZE, PLAN, STRUCTURES } from '../src/graph/structures.ts';
import { benchModel, describeMachine, flags, machine, median, numbers, table, warnIfBusy } from './support.ts';

const here = machine();
const options = flags('the cost of rotated caches', {
  model: '',
  depth: '1024',
  types: 'q8_0,q4_0',
  threads: [...new Set([1, here.cores])].join(','),
  openings: '4',
  pairs: '400',
  copies: false,
});
const depth = Number(options.depth);
const pairs = Number(options.pairs);
const file = options.model || (await benchModel());
warnIfBusy(here);

/** Milliseconds of a token after `depth` others. */
type Token = () => Promise<number>;

async function open(type: KvType, threads: number, cacheRotation: boolean): Promise<Model> {
  const model = await loadModel(file, { threads, cacheRotation, cacheTypeK: type, cacheTypeV: type, contextLength: depth + 16 });
  const { engine, scheduler, slots } = model.internals;
  const ids = Array.from({ length: depth }, (_, i) => (i * 7919 + 3) % engine.hparams.nVocab);
  await scheduler.submit(slots.all[0], ids, depth - 1, () => {});
  return model;
}
async function token({ internals: { scheduler, slots } }: Model): Promise<number> {
  slots.all[0].truncate(depth);
  const start = performance.now();
  await scheduler.submit(slots.all[0], [3], 0, () => {});
  return performance.now() - start;
}

/** Number of a parameter of attention. */
const attentionParam = (name: keyof typeof STRUCTURES.AttentionParams): number => Object.keys(STRUCTURES.AttentionParams).indexOf(name);

/** Parameters that ask for rotation, by record code (src/graph/lower.ts). */
const ROTATIONS: { readonly [code: string]: readonly number[] } = {
  KV_STORE: [3],
  ATTENTION: [attentionParam('rot_k'), attentionParam('rot_v')],
  ATTENTION_MERGE: [attentionParam('rot_v')],
};
/** Returns a function that switches the rotation in a model's plan. */
function rotationSwitch({ internals: { engine } }: Model): (on: boolean) => void {
  const view = (at: number, words: number): Int32Array => {
    const bytes = engine.executor.view(at, 4 * words);
    if (!bytes) throw new Error('the host does not see the memory');
    return new Int32Array(bytes.buffer, bytes.byteOffset, words);
  };
  const found = engine.passes.flatMap(({ plan, placed }) => {
    const ops = placed.at - (placed.at % 2 ** 32) + (view(placed.at, PLAN.ops + 1)[PLAN.ops] >>> 0);
    return plan.records.flatMap(({ code }, i) =>
      (ROTATIONS[code] ?? []).map((p) => {
        const words = view(ops + i * OP_SIZE, OP_SIZE / 4);
        return { words, at: OP.p + p, value: words[OP.p + p] };
      }),
    );
  });
  if (!found.some(({ value }) => value > 0)) throw new Error('the plan rotates nothing');
  return (on) => {
    for (const { words, at, value } of found) words[at] = on ? value : 0;
  };
}

/**
 * One opening: functions that compute a token with and without rotation, and one that disposes of
 * the models.
 */
async function opened(
  type: KvType,
  threads: number,
  opening: number,
): Promise<{ both: readonly [Token, Token]; end: () => Promise<void> }> {
  if (!options.copies) {
    const model = await open(type, threads, true);
    const turn = rotationSwitch(model);
    const by = (on: boolean): Token => {
      return () => {
        turn(on);
        return token(model);
      };
    };
    return { both: [by(true), by(false)], end: () => model.dispose() };
  }
  const models: Model[] = [];
  for (const k of opening & 1 ? [1, 0] : [0, 1]) models[k] = await open(type, threads, k === 0);
  const end = async (): Promise<void> => {
    for (const model of models) await model.dispose();
  };
  return { both: [() => token(models[0]), () => token(models[1])], end };
}

const percent = (ratio: number): string => `${(100 * (ratio - 1)).toFixed(2)} %`;
const drawn = <T>(list: readonly T[]): T[] => list.map(() => list[Math.floor(Math.random() * list.length)]);

const rows: string[][] = [];
for (const type of options.types.split(',') as KvType[])
  for (const threads of numbers(options.threads)) {
    const times: [number[], number[]] = [[], []];
    const ratios: number[][] = [];
    for (let opening = 0; opening < Number(options.openings); opening++) {
      const { both, end } = await opened(type, threads, opening);
      const of: number[] = [];
      for (let i = -10; i < pairs; i++) {
        const ms = [0, 0];
        for (const k of i & 1 ? [0, 1] : [1, 0]) ms[k] = await both[k]();
        if (i < 0) continue;
        ms.forEach((time, k) => times[k].push(time));
        of.push(ms[0] / ms[1]);
      }
      await end();
      ratios.push(of);
    }
    console.error(`${type}, ${threads}: ${ratios.map((of) => percent(median(of))).join(', ')}`);
    const samples = Array.from({ length: 2000 }, () => median(drawn(ratios).flatMap(drawn))).sort((a, b) => a - b);
    rows.push([
      type,
      String(threads),
      ...times.map((ms) => median(ms).toFixed(2)),
      percent(median(ratios.flat())),
      `${percent(samples[50])} to ${percent(samples[1949])}`,
      ratios.map((of) => percent(median(of))).join(', '),
    ]);
  }
console.log(
  `${describeMachine(here)}\n\n${table(['cache', 'threads', 'rotated, ms', 'as it is, ms', 'more', '95 % of medians', 'openings'], rows)}`,
);
