/** quantlet embed and its example. The output equals llama-embedding's, character for character. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { embeddingOutput, rankOutput } from '../../src/cli/embed-output.ts';
import { cosine, normalized } from '../../src/generate/vectors.ts';
import { failure, llamaModel, root, runCli, spawnWithInput, temporaryFolder, writeTo } from '../support.ts';
import { embed as command } from '../../src/cli/embed.ts';

const folder = temporaryFolder();
const golden = (name: string): string => fileURLToPath(new URL(`test/golden/arch/${name}`, root));
const run = (...args: string[]) => runCli(['embed', '--no-warmup', ...args]);

const piping = ['embed', '--no-warmup', '-m', golden('bert.gguf'), '--embd-output-format', 'json+'];

describe('embed', () => {
  const texts = 'the cat sat\na hat';
  const json = async (...args: string[]) =>
    JSON.parse((await run('-m', golden('bert.gguf'), ...args, '--embd-output-format', 'json+')).stdout) as {
      data: { index: number; embedding: number[] }[];
      cosineSimilarity?: number[][];
    };

  it('json+: a vector of length one for each line, and their cosines', async () => {
    const { data, cosineSimilarity } = await json('-p', texts);
    expect(data.map((d) => d.index)).toEqual([0, 1]);
    for (const { embedding } of data) expect(Math.hypot(...embedding)).toBeCloseTo(1, 5);
    const [a, b] = data.map((d) => Float32Array.from(d.embedding));
    expect(cosineSimilarity![0][0]).toBe(1);
    expect(cosineSimilarity![0][1]).toBeCloseTo(cosine(a, b), 2);
  });

  it('lines of a file, another separator and escapes give the same texts', async () => {
    const want = (await json('-p', String.raw`the cat sat\na hat`)).data;
    expect((await json('-f', writeTo(folder, 'texts.txt', `${texts}\n`))).data).toEqual(want);
    expect((await json('-f', writeTo(folder, 'windows.txt', `\ufeff${texts}\n`.replaceAll('\n', '\r\n')))).data).toEqual(want);
    expect((await json('-p', 'the cat sat<#sep#>a hat', '--embd-separator', '<#sep#>')).data).toEqual(want);
  });

  it('takes the texts from a pipe, as they are', async () => {
    const want = (await json('-p', texts)).data;
    const piped = spawnWithInput(writeTo(folder, 'piped.txt', `${texts}\n`), ...piping);
    expect([piped.status, piped.stderr]).toEqual([0, '']);
    expect((JSON.parse(piped.stdout) as { data: unknown }).data).toEqual(want);
  });

  it('jsonl: a line for each text of the files, with the vectors that json has; backslashes stay', async () => {
    const one = writeTo(folder, 'one.txt', 'the cat sat\na hat\n');
    const two = writeTo(folder, 'two.txt', 'a\\nhat');
    const lines = async (...args: string[]) => {
      const { code, stdout, stderr } = await run('-m', golden('bert.gguf'), '--embd-output-format', 'jsonl', ...args);
      expect([code, stderr]).toEqual([0, '']);
      return stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { file?: string; index: number; text: string; embedding: number[] });
    };
    const all = await lines(one, two);
    expect(all.map(({ file, index, text }) => [file, index, text])).toEqual([
      [one, 0, 'the cat sat'],
      [one, 1, 'a hat'],
      [two, 0, 'a\\nhat'],
    ]);
    const { data } = await json('-p', texts);
    expect(all.slice(0, 2).map(({ embedding }) => embedding)).toEqual(data.map(({ embedding }) => embedding));
    const many = Array.from({ length: 130 }, (_, i) => `text ${i}`).join('\n');
    const piped = await lines('-p', many, '--pooling', 'none', '--precision', 'int8');
    expect(piped.map(({ index, file }) => [index, file])).toEqual(Array.from({ length: 130 }, (_, i) => [i, undefined]));
    expect((piped[129].embedding as unknown as number[][]).every((row) => row.every(Number.isInteger))).toBe(true);
  });

  it('files next to -p, files that are not there, and jsonl of a reranker are refused', async () => {
    const one = writeTo(folder, 'one.txt', 'a');
    expect(await run('-m', golden('bert.gguf'), '-p', 'x', one)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('give one of these') as string,
    });
    expect(await run('-m', golden('bert.gguf'), 'none.txt')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('cannot read the texts of none.txt') as string,
    });
    expect(await run('-m', golden('xlm-roberta-rank.gguf'), '-p', 'a', '--embd-output-format', 'jsonl')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('jsonl has vectors') as string,
    });
  });

  it('an empty pipe gives no text', () => {
    const { status, stderr } = spawnWithInput(writeTo(folder, 'empty.txt', ''), ...piping);
    expect([status, stderr]).toEqual([2, expect.stringContaining('there are no texts; give them with -p, -f or a pipe')]);
  });

  it('--pooling none is a row for each token, whose mean is that of --pooling mean', async () => {
    const raw = async (...args: string[]) =>
      (await run('-m', golden('bert.gguf'), '-p', 'the cat sat', '--embd-output-format', 'raw', '--embd-normalize', '-1', ...args)).stdout
        .trim()
        .split('\n')
        .map((line) => line.split(' ').map(Number));
    const rows = await raw('--pooling', 'none');
    const [mean] = await raw('--pooling', 'mean');
    expect(rows.length).toBe(5); // [CLS] the cat sat [SEP]
    mean.forEach((x, i) => expect(rows.reduce((sum, row) => sum + row[i], 0) / rows.length).toBeCloseTo(x, 5));
  });

  it('a reranker gives one score a pair, or one for each label', async () => {
    const one = await run('-m', golden('xlm-roberta-rank.gguf'), '-p', String.raw`the cat\ta hat\nthe cat\tsun`);
    expect(one.stdout, one.stderr).toMatch(/^\nrerank score 0: +-?\d+\.\d{3}\nrerank score 1: +-?\d+\.\d{3}\n\n$/);
    const labels = await run('-m', golden('qwen3-rank.gguf'), '-p', String.raw`the cat\ta hat`);
    expect(labels.stdout).toMatch(/^\nrerank score 0: +\d\.\d{3} \[yes\]\nrerank score 0: +\d\.\d{3} \[no\]\n\n$/);
  });

  it.each<[string, string[], string]>([
    ['no text', ['-m', golden('bert.gguf')], 'ERR_USAGE'],
    ['a file that is not there, though a text was given before', ['-m', golden('bert.gguf'), '-p', 'a', '-f', 'b'], 'ERR_SOURCE'],
    ['an unknown pooling', ['-p', 'a', '--pooling', 'sum'], 'ERR_USAGE'],
    ['an unknown format', ['-p', 'a', '--embd-output-format', 'xml'], 'ERR_USAGE'],
    ['an unknown norm', ['-p', 'a', '--embd-normalize', '-2'], 'ERR_USAGE'],
    ['an empty separator', ['-p', 'a', '--embd-separator', ''], 'ERR_USAGE'],
    ['ranks of a model that is not a reranker', ['-m', llamaModel, '-p', 'a', '--pooling', 'rank'], 'ERR_INVALID_ARGUMENT'],
    ['a text that is too long', ['-m', golden('bert.gguf'), '-p', 'cat '.repeat(600)], 'ERR_CONTEXT_FULL'],
  ])('refuses %s', async (_, args, code) => {
    expect((await failure(() => command.run(args, new AbortController().signal))).code).toBe(code);
  });

  it('the example sorts texts by their cosine', () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [fileURLToPath(new URL('examples/embed.mjs', root)), golden('bert.gguf'), 'the cat', 'the cat sat', 'red sun', 'the cat'],
      { encoding: 'utf8' },
    );
    expect(status, stderr).toBe(0);
    const lines = stdout.trim().split('\n');
    expect(lines[0]).toBe('1.000 the cat');
    expect(lines.map((l) => Number(l.slice(0, 5)))).toEqual(lines.map((l) => Number(l.slice(0, 5))).sort((a, b) => b - a));
  });
});

describe('what is printed', () => {
  const rows = [Float32Array.of(0.6, -0.8), Float32Array.of(0.6, 0.8)];
  it.each([
    [
      '',
      '\nembedding 0:  0.600000 -0.800000 \nembedding 1:  0.600000  0.800000 \n\ncosine similarity matrix:\n\n   cat a long \n  1.00  -0.28 cat\n -0.28   1.00 a longer t\n\n',
    ],
    ['raw', '0.6000000 -0.8000000\n0.6000000 0.8000000\n\n'],
    ['array', '[[0.6000000,-0.8000000],[0.6000000,0.8000000]]\n\n'],
  ] as const)('format "%s"', (format, want) => {
    expect(embeddingOutput(rows, ['cat', 'a longer text'], format, 2)).toBe(want);
  });
  it('tokens show both ends, whole numbers where the largest is 32760', () => {
    const row = normalized(Float32Array.of(1, -2, 3, 4, 5, 6, 7), 0);
    expect([...row].map(Math.round)).toEqual([4680, -9360, 14040, 18720, 23400, 28080, 32760]);
    expect(embeddingOutput([row], undefined, '', 0)).toBe('\nembedding 0:   4680  -9360  14040  ...  23400  28080  32760 \n\n');
  });
  it('norms: taxicab, euclidean, p, zeros', () => {
    expect([...normalized(Float32Array.of(1, -3), 1)]).toEqual([0.25, -0.75]);
    expect([...normalized(Float32Array.of(3, 4), 2)].map((x) => Math.round(1e6 * x))).toEqual([600000, 800000]);
    expect(normalized(Float32Array.of(1, 1), 3)[0]).toBeCloseTo(0.5 ** (1 / 3), 6);
    expect([...normalized(Float32Array.of(0, 0), 2)]).toEqual([0, 0]);
    expect([cosine(Float32Array.of(0), Float32Array.of(0)), cosine(Float32Array.of(0), Float32Array.of(1))]).toEqual([1, 0]);
  });
  it('scores', () => {
    expect(rankOutput([Float32Array.of(-1.5)], [], '')).toBe('\nrerank score 0:   -1.500\n\n');
    expect(rankOutput([Float32Array.of(0.25, 0.75)], ['yes'], '')).toBe(
      '\nrerank score 0:    0.250 [yes]\nrerank score 0:    0.750 [1]\n\n',
    );
  });
});
