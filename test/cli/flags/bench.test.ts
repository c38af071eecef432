/** The flags of quantlet bench. */
import { expect, it, vi } from 'vitest';
import { bench } from '../../../src/cli/bench.ts';
import { failure } from '../../support.ts';
import { invoke } from '../commands.ts';
import { loadOptions, loads } from './load-options.ts';
import { modelFiles } from './model-files.ts';
import { BASE, golden, without, json, describeFlags } from './support.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../../src/entry/node.ts'), { spy: true });

describeFlags(bench, (effect) => {
  loadOptions(bench, effect);
  modelFiles(bench, effect);

  effect(['benchThreads'], 'a model for each number', async () => {
    expect(await loads(bench, ['-t', '2,3'])).toMatchObject([{ threads: 1 }, { threads: 2 }, { threads: 3 }]);
  });
  interface Row {
    n_prompt: number;
    n_gen: number;
    n_depth: number;
    samples_ns: number[];
    n_batch: number;
    type_k: string;
    type_v: string;
  }
  effect(['benchPrompt', 'benchGen', 'benchBoth', 'benchDepth', 'repetitions'], 'which tests, how often', async () => {
    const rows = await json<Row[]>(bench, '-p', '5', '-n', 3, '-pg', '6,2', '-d', '0,7', '-r', 2);
    const pairs = [
      [4, 0],
      [5, 0],
      [0, 2],
      [0, 3],
      [6, 2],
    ];
    expect(rows.map((r) => [r.n_prompt, r.n_gen, r.n_depth])).toEqual([0, 7].flatMap((d) => pairs.map(([p, n]) => [p, n, d])));
    expect(rows.every((r) => r.samples_ns.length === 2)).toBe(true);
    const ranges = await json<Row[]>(bench, '-p', '8-16*2', '-n', '1-3+2');
    expect(ranges.map((r) => r.n_prompt + r.n_gen)).toEqual([4, 8, 16, 2, 1, 3]);
  });
  effect(['delay', 'json'], 'a pause before each test; JSON', async () => {
    const start = performance.now();
    const args = without(BASE.bench, '-o');
    expect(JSON.parse((await invoke(bench, [...args, '--json', '--delay', 1])).stdout)).toHaveLength(2);
    expect(performance.now() - start).toBeGreaterThan(2000);
  });
  it('a model that makes vectors reads prompts and generates nothing', async () => {
    const args = ['-m', golden('bert.gguf'), '-p', 4, '-r', 1, '-t', 1, '--build', 'simd', '--no-warmup', '-o', 'json'] as const;
    expect((JSON.parse((await invoke(bench, args)).stdout) as Row[]).map((r) => r.n_gen)).toEqual([0]);
    expect((await failure(() => invoke(bench, [...args, '-n', 2]))).code).toBe('ERR_INVALID_ARGUMENT');
  });
  effect(['batch', 'cacheTypeK', 'cacheTypeV'], 'rows say so', async () => {
    expect(await json<Row[]>(bench, '-b', 3, '-ctk', 'q8_0', '-ctv', 'f32', '-n', 0)).toMatchObject(
      Array(2).fill({ n_batch: 3, type_k: 'q8_0', type_v: 'f32' }),
    );
  });
  effect(['output'], 'md, jsonl and csv', async () => {
    const print = async (format: string): Promise<string> => (await invoke(bench, [...BASE.bench, '-o', format])).stdout;
    expect(await print('md')).toMatch(/^\| model .*\n\| -+/);
    expect(await print('csv')).toMatch(/^build,cpu_info,.*\n"/);
    expect(
      (await print('jsonl'))
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as Row).n_prompt),
    ).toEqual([4, 0]);
  });
});
