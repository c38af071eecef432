/**
 * Every golden case of native ggml, through graph, plan and kernels, on all builds and numbers of
 * threads.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEngine, type Engine } from 'quantlet/core';
import { decode, evaluate, stored, type OpCase } from '../reference/golden-ops.ts';
import { RUNS } from '../support.ts';
import { build, numbers, source } from './graph.ts';

const folder = new URL('../golden/ops/', import.meta.url);
const golden = (JSON.parse(readFileSync(new URL('golden.json', folder), 'utf8')) as { cases: OpCase[] }).cases;
const bytes = readFileSync(new URL('golden.bin', folder));

/** f32 sums in another order. */
const F32_NMSE = 1e-12;
/**
 * Native rounds activations to f16 or bf16, which we keep in f32, and takes gelu from a table of
 * f16.
 */
const HALF_NMSE = 2e-6;
/**
 * 8-bit activations: a rounding that falls the other way moves a product by 1/127 of a weight.
 * ggml's own test allows 5e-4 for quantised products.
 */
const QUANTISED_NMSE = 5e-4;
/** Native adds f16 values in f16 in flash attention (golden/ops/README.md). */
const FLASH_F16_NMSE = 2e-5;

const types = (c: OpCase): string[] => c.src.map((s) => s?.type ?? '');
function limit(c: OpCase): number {
  if (c.op === 'mul_mat' || c.op === 'mul_mat_id')
    return types(c)[0] === 'f32' ? F32_NMSE : types(c)[0] === 'bf16' ? 1e-5 : types(c)[0] === 'f16' ? HALF_NMSE : QUANTISED_NMSE;
  if (c.op === 'flash_attn_ext') return types(c)[1] === 'f32' ? F32_NMSE : types(c)[1] === 'q8_0' ? QUANTISED_NMSE : FLASH_F16_NMSE;
  if (c.op.startsWith('conv_')) return HALF_NMSE; // native rounds an f32 kernel to f16
  if (c.op.startsWith('gelu') || c.op.startsWith('geglu')) return HALF_NMSE;
  return c.op === 'rope_ext' ? 1e-11 : c.dst.type === 'f32' ? F32_NMSE : HALF_NMSE;
}

describe.each(RUNS)('%s, %i threads', (name, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build: name, threads })));
  afterAll(() => engine.dispose());

  for (const c of golden) {
    it(`${c.op}: ${c.name}`, async () => {
      const src = [];
      for (const s of c.src) src.push(s ? await source(engine, s) : undefined);
      const result = build(c, src);
      const plan = engine.plan(result);
      await engine.compute(plan);
      const got = numbers(engine, result);
      plan.dispose();
      for (const t of src) if (t) engine.free(t.viewOf ?? t);

      const want = decode(c.dst.type, bytes.subarray(c.offset, c.offset + c.bytes));
      expect([result.type.name, ...result.ne]).toEqual([c.dst.type, ...[...c.dst.ne, 1, 1, 1].slice(0, 4)]);
      const error = (to: Float64Array): number => {
        let diff = 0;
        let power = 0;
        to.forEach((w, i) => {
          if (!Number.isFinite(w) || !Number.isFinite(got[i])) return void expect(got[i], `index ${i}`).toBe(w);
          diff += (w - got[i]) ** 2;
          power += w * w;
        });
        return diff && diff / power;
      };
      const native = error(want);
      const exact = error(stored(c.dst.type, evaluate(c)));
      if (process.env['SHOW_DIFFERENCES'])
        console.log(`NMSE ${native.toExponential(1)} (to f64 ${exact.toExponential(1)}) ${c.op}: ${c.name}`);
      expect(
        native,
        JSON.stringify({
          seed: c.src.map((s) => s?.seed),
          ne: c.src.map((s) => s?.ne),
          got: [...got.slice(0, 4)],
          want: [...want.slice(0, 4)],
        }),
      ).toBeLessThanOrEqual(limit(c));
    });
  }
});
