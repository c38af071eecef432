/** quantlet/tools from a program: results, progress, aborts, wrong input, and the command line's bytes. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { loadModel } from 'quantlet';
import {
  imatrix,
  joinImatrix,
  klDivergence,
  perplexity,
  quantize,
  rotate,
  sparsify,
  type ToolOptions,
  type ToolProgress,
} from 'quantlet/tools';
import { describe, expect, it } from 'vitest';
import type { Command } from '../../src/cli/command.ts';
import { imatrix as imatrixCommand } from '../../src/cli/imatrix.ts';
import { perplexity as perplexityCommand } from '../../src/cli/perplexity.ts';
import { quantize as quantizeCommand } from '../../src/cli/quantize.ts';
import { rotate as rotateCommand } from '../../src/cli/rotate.ts';
import { sparsify as sparsifyCommand } from '../../src/cli/sparsify.ts';
import { goldenModel } from '../arch/golden-models.ts';
import { invoke, type Args } from '../cli/commands.ts';
import { failure, llamaModel, temporaryFolder, writeTo } from '../support.ts';

const folder = temporaryFolder();
const TEXT = 'the cat sat at a hat, the mats she has that a cat chase. '.repeat(30);
const text = writeTo(folder, 'text.txt', TEXT);
const float = writeTo(folder, 'float.gguf', goldenModel('llama-relu'));
const MEASURE = { contextLength: 32, chunks: 4, threads: 1, warmUp: false } as const;
const MEASURE_FLAGS: Args = ['-m', llamaModel, '-f', text, '-c', 32, '--chunks', 4, '-t', 1, '--no-warmup'];

/** Paths of two outputs, in folders of their own. */
function outputs(name: string): { ours: string; theirs: string; left: () => string[] } {
  const at = (who: string): string => {
    mkdirSync(join(folder, `${name}-${who}`), { recursive: true });
    return join(folder, `${name}-${who}`, name);
  };
  return { ours: at('ours'), theirs: at('theirs'), left: () => readdirSync(join(folder, `${name}-ours`)) };
}

interface Tool {
  readonly name: string;
  /** Runs the tool from a program, and the command with the same output. */
  readonly run: (output: string, options: ToolOptions) => Promise<unknown>;
  readonly command: Command;
  readonly args: (output: string) => Args;
  readonly phase: string;
  /** An input that must stay as it is. */
  readonly input: string;
}

const base = join(folder, 'base.kld');

const TOOLS: readonly Tool[] = [
  {
    name: 'quantize',
    run: (output, options) => quantize(float, output, { type: 'q5_0', tensorType: ['attn_v=q8_0'], threads: 1, ...options }),
    command: quantizeCommand,
    args: (output) => ['--tensor-type', 'attn_v=q8_0', float, output, 'Q5_0', 1],
    phase: 'quantizing',
    input: float,
  },
  {
    name: 'rotate',
    run: (output, options) => rotate(float, pathToFileURL(output), { seed: 3, threads: 1, ...options }),
    command: rotateCommand,
    args: (output) => ['-s', 3, '-t', 1, float, output],
    phase: 'rotating',
    input: float,
  },
  {
    name: 'sparsify',
    run: (output, options) =>
      sparsify(float, output, { text: TEXT, contextLength: 32, chunks: 4, hot: 0.9, threads: 1, overrideKv: { 'x.y': 3 }, ...options }),
    command: sparsifyCommand,
    args: (output) => ['-m', float, '-f', text, '-o', output, '-c', 32, '--chunks', 4, '--hot', 0.9, '-t', 1, '--override-kv', 'x.y=int:3'],
    phase: 'sparsifying',
    input: float,
  },
  {
    name: 'imatrix',
    run: (output, options) => imatrix(llamaModel, TEXT, { output, datasets: [text], ...MEASURE, ...options, outputFrequency: 0 }),
    command: imatrixCommand,
    args: (output) => [...MEASURE_FLAGS.filter((flag) => flag !== '--no-warmup'), '-o', output],
    phase: 'measuring',
    input: llamaModel,
  },
  {
    name: 'perplexity',
    run: (output, options) => perplexity(pathToFileURL(llamaModel), TEXT, { klDivergenceBase: output, ...MEASURE, ...options }),
    command: perplexityCommand,
    args: (output) => [...MEASURE_FLAGS, '--kl-divergence-base', output],
    phase: 'measuring',
    input: llamaModel,
  },
];

describe.each(TOOLS)('$name', ({ name, run, command, args, phase, input }) => {
  it('writes the bytes of the command, and tells its progress', async () => {
    const { ours, theirs, left } = outputs(name);
    const seen: ToolProgress[] = [];
    await run(ours, { onProgress: (progress) => seen.push(progress) });
    await invoke(command, args(theirs));
    expect(left()).toEqual([name]);
    expect(readFileSync(ours).equals(readFileSync(theirs))).toBe(true);
    const told = seen.filter((progress) => progress.phase === phase);
    expect(told.length).toBeGreaterThan(1);
    expect(told.map(({ done }) => done)).toEqual(told.map(({ done }) => done).sort((a, b) => a - b));
    expect(told.at(-1)!.done).toBe(told.at(-1)!.total);
  });

  it('ends with the reason of an abort in the middle, and leaves the input and nothing else', async () => {
    const { ours, left } = outputs(`${name}-aborted`);
    const before = readFileSync(input);
    const stop = new AbortController();
    const reason = new Error('enough');
    const onProgress = (progress: ToolProgress): void => {
      if (progress.phase === phase) stop.abort(reason);
    };
    expect((await failure(run(ours, { signal: stop.signal, onProgress }))).error).toBe(reason);
    expect(left()).toEqual([]);
    expect(readFileSync(input).equals(before)).toBe(true);
    const never = outputs(`${name}-never`);
    expect((await failure(run(never.ours, { signal: AbortSignal.abort(reason) }))).error).toBe(reason);
    expect(never.left()).toEqual([]);
  });

  it('refuses an output that is the input, options that do not exist, and other kinds of values', async () => {
    const before = readFileSync(input);
    expect(await failure(run(input, {}))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/is also the input/),
    });
    expect(readFileSync(input).equals(before)).toBe(true);
    const { ours, left } = outputs(`${name}-wrong`);
    for (const [wrong, message] of [
      [{ onProgres: () => {} }, /there is no option "onProgres"; did you mean onProgress/],
      [{ threads: 0 }, /threads is 0; expected/],
      [{ signal: 5 }, /signal is 5; expected an AbortSignal/],
    ] as const)
      expect(await failure(run(ours, wrong as unknown as ToolOptions))).toMatchObject({
        code: 'ERR_INVALID_ARGUMENT',
        message: expect.stringMatching(message),
      });
    expect(left()).toEqual([]);
  });
});

it('what onProgress throws ends the tool, and nothing is left', async () => {
  const { ours, left } = outputs('thrown');
  const onProgress = (): never => {
    throw new RangeError('mine');
  };
  expect((await failure(quantize(float, ours, { type: 'Q8_0', onProgress }))).error).toBeInstanceOf(RangeError);
  expect(left()).toEqual([]);
});

it('quantize tells what it wrote, and a dry run what it would write', async () => {
  const { ours, left } = outputs('dry');
  const planned = await quantize(float, ours, { type: 'Q4_K_M', dryRun: true });
  expect(left()).toEqual([]);
  const done = await quantize(float, ours, { type: '15' });
  expect({ ...done, threads: 0 }).toEqual({ ...planned, threads: 0 });
  expect(done.type).toBe('Q4_K_M');
  expect(done.sourceBitsPerWeight).toBe(32);
  for (const { tensor, insteadOf, blockSize, rowLength } of done.fallbacks) {
    expect([typeof tensor, insteadOf.startsWith('q')]).toEqual(['string', true]);
    expect(rowLength % blockSize).not.toBe(0);
  }
  expect(done.fallbacks.length, 'rows of the small model are no multiple of 256').toBeGreaterThan(0);
});

it.each([
  ['no type', () => quantize(float, 'x', {} as never), /the option type is missing/],
  ['an unknown type', () => quantize(float, 'x', { type: 'Q9' }), /"Q9" is not a type/],
  [
    'a rule without a type',
    () => quantize(float, 'x', { type: 'Q8_0', tensorType: ['attn_v'] }),
    /tensorType is "attn_v"; expected NAME=TYPE/,
  ],
  [
    'weights both included and excluded',
    () => quantize(float, 'x', { type: 'Q8_0', includeWeights: ['a'], excludeWeights: ['b'] }),
    /exclude each other/,
  ],
  ['a URL of the network', () => quantize(new URL('https://x.test/a.gguf'), 'x', { type: 'Q8_0' }), /input is .*; expected the path/],
  ['learning without a text', () => rotate(float, 'x', { learnSteps: 3 }), /give the text as learn/],
  ['a checkpoint that is the output', () => rotate(float, 'x', { learn: TEXT, checkpoint: './x' }), /are both x; expected two files/],
  ['predictors without a text', () => sparsify(float, 'x', { predictor: 4 }), /give it as text/],
  ['neurons without a text', () => sparsify(float, 'x'), /the option text/],
  ['a number in place of a text', () => perplexity(llamaModel, 5 as never), /the text is 5; expected a string/],
  ['a text shorter than a window', () => perplexity(llamaModel, 'a', MEASURE), /contextLength/],
  ['a window of 3 tokens', () => imatrix(llamaModel, TEXT, { contextLength: 3 }), /contextLength is 3/],
  ['no files to join', () => joinImatrix('x' as never, 'y'), /inFile is "x"; expected a list of paths/],
])('%s is refused', async (_, run, message) => {
  expect(await failure(run() as Promise<unknown>)).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(message) });
  expect(existsSync('x')).toBe(false);
});

describe('measurements', () => {
  it('perplexity is that of the command, and its progress ends at it', async () => {
    let last: unknown;
    const result = await perplexity(llamaModel, TEXT, { ...MEASURE, onProgress: ({ estimate }) => (last = estimate) });
    const { stdout } = await invoke(perplexityCommand, [...MEASURE_FLAGS, '--json']);
    const { ppl, nll, tokens, pplStderr, chunks, contextLength } = result;
    expect(JSON.parse(stdout)).toEqual({ ppl, nll, tokens, ppl_stderr: pplStderr, chunks, n_ctx: contextLength });
    expect(last).toEqual({ ppl, nll, tokens, pplStderr });
  });

  it('klDivergence is that of the command; a function may load the model', async () => {
    await perplexity(llamaModel, TEXT, { ...MEASURE, klDivergenceBase: base });
    const means: number[] = [];
    const result = await klDivergence((options) => loadModel(llamaModel, { cacheTypeK: 'q8_0', threads: 1, ...options }), base, {
      chunks: 3,
      onProgress: ({ kl }) => void (kl && means.push(kl.kld.mean)),
    });
    const flags: Args = [
      '-m',
      llamaModel,
      '--chunks',
      3,
      '-t',
      1,
      '-ctk',
      'q8_0',
      '--kl-divergence-base',
      base,
      '--kl-divergence',
      '--json',
    ];
    const said = JSON.parse((await invoke(perplexityCommand, flags)).stdout) as { kl: { kld: unknown; kld_percentiles: unknown } };
    expect(result.kl.kld).toEqual(said.kl.kld);
    expect(result.kl.kldPercentiles).toEqual(said.kl.kld_percentiles);
    expect([result.chunks, result.contextLength]).toEqual([3, 32]);
    expect(means.at(-1)).toBe(result.kl.kld.mean);
    expect(await failure(klDivergence(llamaModel, text))).toMatchObject({ code: 'ERR_IO' });
  });

  it('joinImatrix adds measurements, as the option inFile does', async () => {
    const [one, both, joined] = ['one.gguf', 'both.gguf', 'joined.gguf'].map((name) => join(folder, name));
    await imatrix(llamaModel, TEXT, { ...MEASURE, output: one });
    await imatrix(llamaModel, TEXT, { ...MEASURE, output: both, inFile: [one] });
    expect(await joinImatrix([one, one], joined, { contextLength: 32 })).toMatchObject({ output: joined, chunks: 8, contextLength: 32 });
    expect(readFileSync(joined).equals(readFileSync(both))).toBe(true);
  });

  it('sparsify tells of each layer, and of its predictors', async () => {
    const { ours } = outputs('predicted');
    const result = await sparsify(float, ours, { text: TEXT, contextLength: 32, chunks: 6, predictor: 4, predictorSteps: 20, threads: 1 });
    expect(result.layers.length).toBeGreaterThan(1);
    for (const { fire, predictor } of result.layers) {
      expect(fire).toBeGreaterThan(0);
      expect(predictor!.recall).toBeGreaterThan(0);
    }
    expect(result.predictors!.recall).toBeGreaterThanOrEqual(0.99);
    expect(result.tokens).toBe(192);
  });
});
