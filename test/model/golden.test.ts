/**
 * Whole models compared with native llama.cpp: greedy ids and logits, on every build and with 1 to
 * 3 threads.
 */
import { readFileSync } from 'node:fs';
import { loadModel, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { RUNS, TOLERANCE, at, greedyFault, greedyIds, hasShared, logitsOf, root, shared, type Greedy } from '../support.ts';

const json = <T>(path: string | URL): T => JSON.parse(readFileSync(path, 'utf8')) as T;
const floats = (path: string | URL): Float32Array => {
  const bytes = readFileSync(path);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
};

/** Largest difference of any row from `want`, as a fraction of `largest`, and its position. */
function worst(rows: readonly Float32Array[], want: Float32Array, largest: number): { part: number; where: string } {
  let found = { part: 0, where: '' };
  rows.forEach((row, r) =>
    row.forEach((got, i) => {
      const w = want[r * row.length + i];
      const part = Math.abs(got - w) / largest;
      if (!(part <= found.part)) found = { part, where: `row ${r}, index ${i}: got ${got}, want ${w}` };
    }),
  );
  return found;
}

async function withModel(path: string, [build, threads]: (typeof RUNS)[number], use: (model: Model) => Promise<void>): Promise<void> {
  const model = await loadModel(path, { build, threads, maxOutputs: 64, contextLength: 256, warmUp: false });
  try {
    expect([model.build, model.threads]).toEqual([build, threads]);
    await use(model);
  } finally {
    await model.dispose();
  }
}

describe('the committed llama models', () => {
  interface Case {
    model: string;
    ids: number[];
    offset: number;
    rows: number[];
    n_vocab: number;
    largest: number;
    noise: number;
    greedy: number[];
    margins: number[];
  }
  const folder = new URL('test/golden/arch/', root);
  const { cases } = json<{ cases: Case[] }>(new URL('golden.json', folder));
  const values = floats(new URL('golden.f32', folder));
  /**
   * TOLERANCE is larger than the effect of native's own F16 cache on the F32 model (golden.json:
   * noiseF16 0.0123 of 11.18).
   */
  const tolerances: Record<string, number> = { 'llama.gguf': TOLERANCE.f32, 'llama-q4_0.gguf': TOLERANCE.quantised };

  for (const [name, tolerance] of Object.entries(tolerances)) {
    const c = cases.find((x) => x.model === name)!;
    it.each(RUNS)(`${name} %s, %i threads`, (build, threads) =>
      withModel(at(`test/golden/arch/${name}`), [build, threads], async (model) => {
        const all = await logitsOf(model, c.ids);
        const { part, where } = worst(
          c.rows.map((r) => all[r]),
          values.subarray(c.offset, c.offset + c.rows.length * c.n_vocab),
          c.largest,
        );
        expect(part, where).toBeLessThanOrEqual(tolerance);
        // A difference is a fault only if the margin is at least twice the tolerance
        // (test/golden/arch/README.md).
        const greedy: Greedy = { prompt_ids: c.ids, ids: c.greedy, margins: c.margins, noise: tolerance * c.largest };
        expect(greedyFault(await greedyIds(model, greedy), greedy)).toBe('');
      }),
    );
  }
});

if (hasShared) {
  describe('stories260K in the formats of ../shared', () => {
    interface Golden {
      prompt_ids: number[];
      logits: { file: string; largest: number };
      greedy: Greedy;
    }
    const formats: Record<string, number> = {
      '': TOLERANCE.f32,
      '-F16': TOLERANCE.f16,
      '-Q8_0': TOLERANCE.quantised,
      '-Q4_0': TOLERANCE.quantised,
    };
    for (const [format, tolerance] of Object.entries(formats)) {
      const name = `stories260K${format}`;
      it.each(RUNS)(`${name} %s, %i threads`, (build, threads) =>
        withModel(shared(`models/stories260K/${name}.gguf`), [build, threads], async (model) => {
          const golden = json<Golden>(shared(`golden/${name}.json`));
          const { part, where } = worst(
            await logitsOf(model, golden.prompt_ids),
            floats(shared(`golden/${golden.logits.file}`)),
            golden.logits.largest,
          );
          expect(part, where).toBeLessThanOrEqual(tolerance);
          expect(greedyFault(await greedyIds(model, golden.greedy), golden.greedy)).toBe('');
        }),
      );
    }
  });
}
