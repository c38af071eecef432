/**
 * FlashDecoding++ for a model: the largest scores of KV splits over a text, the unified maximum
 * that follows from them, and the cost of a token with it compared with a maximum per split.
 *
 * Usage:
 *
 *   node --import tsx bench/unified-max.ts MODEL.gguf [depth=1024] [build=relaxed]
 */
import { loadModel, type Build, type Model } from 'quantlet';
import { median } from './support.ts';

const [file, depth = '1024', build = 'relaxed'] = process.argv.slice(2);
const nDepth = Number(depth);
const LN2 = Math.LN2;
/**
 * From attention_split.ts: a KV split leaves the unified path if its largest score is further from
 * the maximum, in powers of two.
 */
const RANGE = 40;

const open = (unifiedMax?: number): Promise<Model> => loadModel(file, { build: build as Build, contextLength: nDepth + 16, unifiedMax });
const fill = async ({ internals: { engine, scheduler, slots } }: Model): Promise<number> => {
  const ids = Array.from({ length: nDepth }, (_, i) => (i * 7919 + 3) % engine.hparams.nVocab);
  await scheduler.submit(slots.all[0], ids, nDepth - 1, () => {});
  return ids[1];
};
const token = async ({ internals: { scheduler, slots } }: Model, id: number): Promise<number> => {
  const [slot] = slots.all;
  const start = performance.now();
  slot.truncate(nDepth);
  await scheduler.submit(slot, [id], 0, () => {});
  return performance.now() - start;
};

const own = await open();
const id = await fill(own);
for (let i = 0; i < 10; i++) await token(own, id);

// Repeats a step record by record. Each ATTENTION record is followed by the states of its splits,
// the maximum (log2) first.
const { executor, passes } = own.internals.engine;
const [{ plan, placed }] = passes;
const maxima: number[] = [];
for (const [i, record] of plan.records.entries()) {
  await executor.run({ passes: [{ plan: placed.at, from: i, to: i + 1 }], nTokens: 1, nOutputs: 1 });
  if (record.code !== 'ATTENTION') continue;
  const [states] = record.writtenSrc!;
  const parts = Math.ceil((nDepth + 1) / 256);
  const room = Number(record.params[6]);
  const bytes = await executor.read(states.data, states.ne[0] * states.ne[1] * 4);
  const f32 = new Float32Array(bytes.slice().buffer);
  const nHead = record.src[0]!.ne[1];
  for (let h = 0; h < nHead; h++) for (let p = 0; p < parts; p++) maxima.push(f32[(h * room + p) * states.ne[0]] * LN2);
}
maxima.sort((a, b) => a - b);
const phi = Math.round(((maxima[0] + maxima[maxima.length - 1]) / 2) * 10) / 10;
const at = (share: number): string => maxima[Math.floor(share * (maxima.length - 1))].toFixed(2);
const outside = maxima.filter((m) => Math.abs(m - phi) > RANGE * LN2).length;
console.log(
  `${own.build}, node ${process.versions.node}; ${maxima.length} parts at depth ${nDepth}: largest scores from ${at(0)} over ${at(0.5)} to ${at(1)}`,
);
console.log(`unified maximum ${phi}: ${outside} parts would be computed twice`);

const unified = await open(phi);
await fill(unified);
for (let i = 0; i < 10; i++) await token(unified, id);
const times: [number, number][] = [];
for (let i = 0; i < 60; i++) times.push([await token(own, id), await token(unified, id)]);
console.log(
  `a token: own maxima ${median(times.map((t) => t[0])).toFixed(3)} ms, unified ${median(times.map((t) => t[1])).toFixed(3)} ms; ratio ${median(times.map(([a, b]) => a / b)).toFixed(3)}`,
);
await own.dispose();
await unified.dispose();
