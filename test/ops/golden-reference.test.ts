import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { decode, evaluate, stored } from '../reference/golden-ops.ts';
import type { OpCase } from '../reference/golden-ops.ts';

const folder = new URL('../golden/ops/', import.meta.url);
const golden = JSON.parse(readFileSync(new URL('golden.json', folder), 'utf8')) as { cases: OpCase[] };
const bytes = readFileSync(new URL('golden.bin', folder));

/**
 * Normalised mean squared error of f32: sums in another order, and rope's angles, which ggml
 * multiplies up in f32.
 */
const f32Nmse = 1e-11;
/**
 * With V in f16, ggml's flash attention adds in f16. The error grows with n_kv (1e-5 at 521 keys).
 */
const f16AccumulatorNmse = 2e-5;
const limitOf = (c: OpCase) => (c.op === 'flash_attn_ext' && c.src[2]!.type === 'f16' ? f16AccumulatorNmse : f32Nmse);

describe('scalar operators against native ggml', () => {
  for (const c of golden.cases) {
    it(`${c.op}: ${c.name}`, () => {
      const want = decode(c.dst.type, bytes.subarray(c.offset, c.offset + c.bytes));
      const got = stored(c.dst.type, evaluate(c));
      expect(got.length).toBe(want.length);
      let error = 0;
      let power = 0;
      want.forEach((w, i) => {
        if (!Number.isFinite(w) || !Number.isFinite(got[i])) return expect(got[i], `index ${i}`).toBe(w);
        error += (w - got[i]) ** 2;
        power += w * w;
      });
      const nmse = error ? error / power : 0;
      const limit = limitOf(c);
      if (process.env['SHOW_DIFFERENCES']) console.log(`NMSE ${nmse.toExponential(1)} ${c.op}: ${c.name}`);
      expect(
        nmse,
        JSON.stringify({ src: c.src, params: c.params, got: [...got.slice(0, 4)], want: [...want.slice(0, 4)] }),
      ).toBeLessThanOrEqual(limit);
    });
  }
});
