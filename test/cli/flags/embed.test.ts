/** The flags of quantlet embed. */
import { expect, vi } from 'vitest';
import { embed } from '../../../src/cli/embed.ts';
import { failure, writeTo } from '../../support.ts';
import { invoke, type Args, type Said } from '../commands.ts';
import { loadOptions, loads } from './load-options.ts';
import { modelFiles } from './model-files.ts';
import { BASE, folder, golden, without, json, describeFlags, work } from './support.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../../src/entry/node.ts'), { spy: true });

describeFlags(embed, (effect) => {
  loadOptions(embed, effect);
  modelFiles(embed, effect);

  effect(['lora', 'loraScaled'], 'adapters of its model', async () => {
    const bert: Args = ['-m', golden('bert.gguf')];
    const source = golden('bert-lora.gguf');
    expect(await loads(embed, [...bert, '--lora', source, '--lora-scaled', `${source}:2`])).toMatchObject([
      { lora: [{ source }, { source, scale: 2 }] },
    ]);
  });
  effect(['json'], 'one object', async () => {
    const args = without(BASE.embed, '--embd-output-format');
    expect((await invoke(embed, [...args, '--json'])).stdout).toBe((await invoke(embed, BASE.embed)).stdout);
  });
  const vectors = async (...args: Args): Promise<number[][]> =>
    (await json<{ data: { embedding: number[] }[] }>(embed, ...args)).data.map((d) => d.embedding);
  const rank = (separator: string, ...args: Args): Promise<Said> =>
    invoke(embed, ['-m', golden('xlm-roberta-rank.gguf'), '--build', 'simd', '-p', `the cat${separator}a hat`, ...args]);

  effect(['text', 'file', 'embdSeparator', 'escape'], 'the texts', async () => {
    const want = await vectors('-p', 'the cat\na hat', '--pooling', 'mean');
    expect(want).toHaveLength(2);
    const args = [...without(BASE.embed, '-p'), '--pooling', 'mean', '-f', writeTo(folder, 'texts.txt', 'the cat\na hat\n')];
    const fromFile = JSON.parse((await invoke(embed, args)).stdout) as { data: { embedding: number[] }[] };
    expect(fromFile.data.map((d) => d.embedding)).toEqual(want);
    expect(await vectors('-p', 'the cat\\na hat', '-e', '--pooling', 'mean')).toEqual(want);
    expect(await vectors('-p', 'the cat\\na hat', '--no-escape', '--pooling', 'mean')).toHaveLength(1);
    expect(await vectors('-p', 'the cat<>a hat', '--embd-separator', '<>', '--pooling', 'mean')).toEqual(want);
  });
  effect(['pooling', 'embdNormalize', 'embdOutputFormat'], 'which vectors, how long, how written', async () => {
    const rows = await vectors('--embd-normalize', '-1', '--pooling', 'none');
    const [mean] = await vectors('--embd-normalize', '-1', '--pooling', 'mean');
    expect(rows.length).toBeGreaterThan(1);
    mean.forEach((x, i) => expect(rows.reduce((sum, row) => sum + row[i], 0) / rows.length).toBeCloseTo(x, 4));
    const [taxi] = await vectors('--embd-normalize', 1, '--pooling', 'mean');
    expect(taxi.reduce((sum, x) => sum + Math.abs(x), 0)).toBeCloseTo(1, 4);
    expect((await invoke(embed, [...BASE.embed, '--embd-output-format', 'array', '--pooling', 'mean'])).stdout).toMatch(/^\[\[/);
  });
  effect(['truncate', 'dimensions', 'precision', 'promptName'], 'cut texts, fewer numbers, fewer bits, prompts', async () => {
    const pooled = ['--pooling', 'mean'];
    const long = ['-c', 16, '-p', 'the cat '.repeat(20), ...pooled];
    expect((await failure(() => work(embed, [...BASE.embed, ...long]))).code).toBe('ERR_CONTEXT_FULL');
    expect(await vectors(...long, '--truncate')).toHaveLength(1);
    const [whole] = await vectors(...pooled, '--embd-normalize', '-1');
    expect(await vectors(...pooled, '--embd-normalize', '-1', '--dimensions', 5)).toEqual([whole.slice(0, 5)]);
    const [bits] = await vectors(...pooled, '--precision', 'ubinary', '--dimensions', 8);
    expect(bits).toEqual([parseInt(Array.from(whole.slice(0, 8), (x) => Number(x > 0)).join(''), 2)]);
    const prompt = ['--override-kv', 'sentence_transformers.prompts.query=str:a hat ', '--prompt-name', 'query'];
    expect(await vectors(...pooled, ...prompt)).toEqual(await vectors(...pooled, '-p', 'a hat the cat'));
  });
  effect(['clsSeparator'], 'parts a query from its document', async () => {
    const { stdout } = await rank('\t');
    expect((await rank('::', '--cls-separator', '::')).stdout).toBe(stdout);
    expect((await rank('::')).stdout).not.toBe(stdout);
  });
});
