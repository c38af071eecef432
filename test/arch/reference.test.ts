import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readGguf } from '../reference/gguf.ts';
import { reference } from '../reference/llm.ts';
import type { Pooling } from '../reference/llm.ts';

interface Golden {
  readonly model: string;
  readonly n_ctx: number;
  readonly ids: readonly number[];
  readonly offset: number;
  readonly rows?: readonly number[];
  readonly n_vocab?: number;
  readonly largest?: number;
  readonly greedy?: readonly number[];
  readonly margins?: readonly number[];
  readonly pooling?: Pooling;
  readonly count?: number;
}
const folder = new URL('../golden/arch/', import.meta.url);
const golden = JSON.parse(readFileSync(new URL('golden.json', folder), 'utf8')) as { cases: Golden[] };
const raw = readFileSync(new URL('golden.f32', folder));
const values = new Float32Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.byteLength));
const typeOf = (tensors: Iterable<{ type: number }>) => [...tensors].reduce((a, t) => Math.max(a, t.type), 0);

/** Of the largest |logit|. The reference rounds where ggml rounds, so that only f32 against f64 is left; near a rounding border of f16 or q8_0 the two may still part. */
const tolerances: Record<number, number> = { 0: 2e-5, 1: 1e-3, 8: 1e-3 };
/** gelu's table of f16 values turns a last-bit difference into half a percent of a last place, whatever the weights' type. */
const geluTolerance = 1e-3;
const gelus = /gemma|starcoder|bert/;

describe('the scalar reference against native llama.cpp', () => {
  for (const c of golden.cases) {
    it(`${c.model}${c.pooling ? ` ${c.pooling}` : ''} n_ctx ${c.n_ctx}`, () => {
      const gguf = readGguf(readFileSync(new URL(c.model, folder))), model = reference(gguf);
      const tolerance = Math.max(tolerances[typeOf(gguf.tensors.values())], gelus.test(c.model) ? geluTolerance : 0);
      let got: number[], worst = { difference: 0, index: -1 };
      if (c.pooling) got = [...model.embed(c.ids, c.n_ctx, c.pooling)];
      else {
        const all = model.logits(c.ids, c.n_ctx);
        got = c.rows!.flatMap((r) => [...all[r]]);
        const best = all[c.ids.length - 1].reduce((a, v, i, l) => (v > l[a] ? i : a), 0);
        expect(best, `${c.model}: first greedy id, margin ${c.margins![0]}`).toBe(c.greedy![0]);
      }
      const want = values.subarray(c.offset, c.offset + got.length), largest = want.reduce((a, v) => Math.max(a, Math.abs(v)), 0);
      got.forEach((v, i) => { const d = Math.abs(v - want[i]) / largest; if (!(d <= worst.difference)) worst = { difference: d, index: i }; });
      if (process.env['SHOW_DIFFERENCES']) console.log(`${c.model} ${c.pooling ?? ''} ${worst.difference.toExponential(2)}`);
      expect(worst.difference, `${c.model}: index ${worst.index}, got ${got[worst.index]}, want ${want[worst.index]}`).toBeLessThanOrEqual(tolerance);
    });
  }
});
