/**
 * Time of a step by kernel and weight type: every record of the plan is timed alone.
 *
 * Usage:
 *
 *   node --import tsx bench/profile.ts MODEL.gguf [tokens=1] [depth=0] [build=relaxed]
 */
import { loadModel, type Build } from 'quantlet';

const [file, tokens = '1', depth = '0', build = 'relaxed'] = process.argv.slice(2);
const nTokens = Number(tokens);
const nDepth = Number(depth);
const model = await loadModel(file, { build: build as Build, contextLength: nTokens + nDepth + 16 });
const {
  engine,
  scheduler,
  slots: {
    all: [slot],
  },
} = model.internals;
const { executor, passes } = engine;
const ids = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 7 + 3) % engine.hparams.nVocab);
if (nDepth > 0) await scheduler.submit(slot, ids(nDepth), nDepth - 1, () => {});
for (let i = 0; i < 3; i++) {
  slot.truncate(nDepth);
  await scheduler.submit(slot, ids(nTokens), nTokens - 1, () => {});
}

const sums = new Map<string, { ms: number; n: number }>();
let total = 0;
const REPEAT = nTokens === 1 ? 20 : 3;
for (let r = 0; r < REPEAT; r++) {
  for (const { placed, i, record } of passes.flatMap((p) => p.plan.records.map((record, i) => ({ ...p, i, record })))) {
    const w = record.src[0];
    const name = record.code.startsWith('MUL_MAT') ? `${record.code} ${w!.type.name} ${w!.ne[0]}x${w!.ne[1]}` : record.code;
    const start = performance.now();
    await executor.run({ passes: [{ plan: placed.at, from: i, to: i + 1 }], nTokens, nOutputs: 1 });
    const ms = performance.now() - start;
    total += ms;
    const s = sums.get(name) ?? { ms: 0, n: 0 };
    sums.set(name, { ms: s.ms + ms, n: s.n + 1 });
  }
}
console.log(
  `${model.build}, node ${process.versions.node}, ${nTokens} tokens at depth ${nDepth}: ${(total / REPEAT).toFixed(3)} ms a step, ${((nTokens * 1000 * REPEAT) / total).toFixed(1)} tokens/s`,
);
for (const [name, { ms, n }] of [...sums].sort((a, b) => b[1].ms - a[1].ms))
  console.log(
    `${((100 * ms) / total).toFixed(1).padStart(5)} %  ${(ms / REPEAT).toFixed(3).padStart(9)} ms  ${String(n / REPEAT).padStart(4)} x  ${name}`,
  );
await model.dispose();
