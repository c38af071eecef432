/**
 * quantlet perplexity in a shell: the value, llama-perplexity's base files, KL divergence, exit
 * codes.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel } from 'quantlet';
import { beforeAll, describe, expect, it } from 'vitest';
import { createKlBase, openKlBase } from '../../src/tools/kl-base.ts';
import { failure, llamaModel, logitsOf, runCli, shippedModel, temporaryFolder, writeTo, type Exit } from '../support.ts';

const folder = temporaryFolder();
const perplexity = (...args: (string | number)[]): Promise<Exit> => runCli(['perplexity', '-m', llamaModel, ...args]);

interface Uncertain {
  mean: number;
  err: number;
}
interface Kl {
  kld: Uncertain;
  dp: Uncertain;
  same_top: Uncertain;
  base_ppl: Uncertain;
  ln_ppl_ratio: Uncertain;
  kld_percentiles: Record<string, number>;
}
interface Result {
  ppl: number;
  nll: number;
  tokens: number;
  ppl_stderr: number;
  chunks: number;
  n_ctx: number;
  kl?: Kl;
}
const result = async (...args: (string | number)[]): Promise<Result> => {
  const { code, stdout, stderr } = await perplexity('--json', ...args);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Result;
};

const N_CTX = 24;
const FIRST = 12;
const COUNTED = 11;
const text = writeTo(
  folder,
  'text.txt',
  'the cat sat on the mat and the dog saw a bird that sang in the old tree by the water where the children played all day long\n'.repeat(6),
);
const base = join(folder, 'base.kld');
/** Error of exp_f32x4 relative to Math.exp, in a logarithm. */
const NLL_TOLERANCE = 1e-5;

/**
 * Reference values, computed the slow way: ids of all windows, -ln p of each counted token, and the
 * logits.
 */
let want: { ids: readonly number[]; nVocab: number; nChunk: number; nll: number[]; logProbs: Float64Array[] };

beforeAll(async () => {
  const model = await loadModel(llamaModel, { threads: 1, warmUp: false, maxOutputs: N_CTX });
  try {
    const ids = model.tokenize(readFileSync(text, 'utf8'));
    const nChunk = Math.floor(ids.length / N_CTX);
    const nll: number[] = [];
    const logProbs: Float64Array[] = [];
    for (let chunk = 0; chunk < nChunk; chunk++) {
      const window = [1, ...ids.slice(chunk * N_CTX + 1, (chunk + 1) * N_CTX)];
      const rows = await logitsOf(model, window);
      for (let i = FIRST; i < N_CTX - 1; i++) {
        const max = Math.max(...rows[i]);
        const norm = max + Math.log(rows[i].reduce((s, x) => s + Math.exp(x - max), 0));
        logProbs.push(Float64Array.from(rows[i], (x) => x - norm));
        nll.push(norm - rows[i][window[i + 1]]);
      }
    }
    want = { ids, nVocab: logProbs[0].length, nChunk, nll, logProbs };
  } finally {
    await model.dispose();
  }
});

const mean = (a: readonly number[]): number => a.reduce((x, y) => x + y, 0) / a.length;

describe('the value', () => {
  it('is the mean of -ln p over the second half of every window, whatever the batch', async () => {
    const got = await result('-f', text, '-c', N_CTX);
    expect(Object.keys(got)).toEqual(['ppl', 'nll', 'tokens', 'ppl_stderr', 'chunks', 'n_ctx']);
    expect([got.tokens, got.chunks, got.n_ctx]).toEqual([want.nChunk * COUNTED, want.nChunk, N_CTX]);
    expect(want.nChunk).toBeGreaterThan(3);
    expect(Math.abs(got.nll - mean(want.nll)), `got ${got.nll}, want ${mean(want.nll)}`).toBeLessThan(NLL_TOLERANCE);
    expect(got.ppl).toBe(Math.exp(got.nll));
    expect(got.ppl_stderr).toBeCloseTo(got.ppl * Math.sqrt((mean(want.nll.map((x) => x * x)) - got.nll ** 2) / (got.tokens - 1)), 2);
    // Sequential windows, in batches of 7 and on two threads, give the same bits.
    expect((await result('-f', text, '-c', N_CTX, '-b', 7, '-t', 2)).nll).toBe((await result('-f', text, '-c', N_CTX, '-t', 1)).nll);
  });

  it('runs along on stdout; --chunks ends it sooner; -p is a text too', async () => {
    const { code, stdout, stderr } = await perplexity('-p', readFileSync(text, 'utf8'), '-c', N_CTX, '--chunks', 2);
    expect([code, stderr]).toEqual([0, '']);
    const running = [1, 2].map((n) => Math.exp(mean(want.nll.slice(0, n * COUNTED))));
    const shown = /^\[1\]([\d.]+),\[2\]([\d.]+),\nFinal estimate: PPL = ([\d.]+) \+\/- [\d.]+ over 22 tokens\n$/.exec(stdout);
    expect(shown?.slice(1).map(Number), stdout).toEqual([...running, running[1]].map((x) => expect.closeTo(x, 2)));
  });
});

describe('--kl-divergence-base', () => {
  it("is llama-perplexity's file, byte by byte", async () => {
    const { tokens } = await result('-f', text, '-c', N_CTX, '--kl-divergence-base', base);
    expect(readdirSync(folder).filter((name) => name.startsWith('base'))).toEqual(['base.kld']);
    const { buffer } = Uint8Array.from(readFileSync(base));
    const { ids, nVocab, nChunk, logProbs } = want;
    expect(new TextDecoder().decode(buffer.slice(0, 8))).toBe('_logits_');
    expect([...new Int32Array(buffer.slice(8, 20 + 4 * nChunk * N_CTX))]).toEqual([N_CTX, nVocab, nChunk, ...ids.slice(0, nChunk * N_CTX)]);
    const words = 2 * Math.ceil(nVocab / 2) + 4;
    const rows = buffer.slice(20 + 4 * nChunk * N_CTX);
    expect(rows.byteLength).toBe(2 * words * tokens);
    for (const [k, log] of logProbs.entries()) {
      const [scale, floor] = new Float32Array(rows, 2 * words * k, 2);
      const steps = new Uint16Array(rows, 2 * words * k + 8, nVocab);
      const lowest = Math.max(Math.min(...log), Math.max(...log) - 16);
      expect(scale).toBeCloseTo((Math.max(...log) - lowest) / 65535, 8);
      expect(floor).toBeCloseTo(lowest, 4);
      // A logarithm is stored as a number of steps of `scale`: it is off by at most half a step,
      // and by the rounding of f32.
      log.forEach((l, i) =>
        expect(Math.abs(scale * steps[i] + floor - Math.max(l, lowest)), `row ${k}, id ${i}`).toBeLessThan(0.5 * scale + NLL_TOLERANCE),
      );
    }
  });

  it('--kl-divergence of the same model is zero', async () => {
    const { kl, nll } = await result('--kl-divergence-base', base, '--kl-divergence');
    expect(nll).toBe((await result('-f', text, '-c', N_CTX)).nll);
    // The base has 65535 steps over 16 nats: an error of 1.2e-4 in each logarithm, which averages
    // out.
    expect(Math.abs(kl!.kld.mean)).toBeLessThan(2e-5);
    expect(kl!.kld_percentiles.max).toBeLessThan(5e-4);
    // Two logits within one step of the best are equal in the file.
    expect(kl!.same_top.mean).toBeGreaterThan(0.98);
  });

  it('--kl-divergence of a quantised copy tells how much it lost', async () => {
    const small = join(folder, 'q4_0.gguf');
    expect((await runCli(['quantize', '--pure', llamaModel, small, 'Q4_0'])).code).toBe(0);
    const { code, stdout, stderr } = await runCli([
      'perplexity',
      '-m',
      small,
      '--kl-divergence-base',
      base,
      '--kl-divergence',
      '--chunks',
      3,
    ]);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.split('\n').slice(0, 4)).toEqual([
      expect.stringMatching(/^chunk +PPL/),
      ...[1, 2, 3].map((n) => expect.stringMatching(new RegExp(`^ {3}${n} ( +[\\d.-]+ ± +[\\d.]+( %)?){5}$`)) as string),
    ]);
    const number = (name: string): number => Number(new RegExp(`^${name} *: *(-?[\\d.]+)`, 'm').exec(stdout)?.[1]);
    expect(number('Mean    KLD'), stdout).toBeGreaterThan(1e-4);
    expect(number('Mean    KLD')).toBeLessThan(1);
    expect(number('Minimum KLD')).toBeLessThanOrEqual(number('Median  KLD'));
    expect(number('Median  KLD')).toBeLessThanOrEqual(number('Maximum KLD'));
    expect(number('Same top p')).toBeLessThanOrEqual(100);
  });
});

describe('what goes wrong', () => {
  const file = (name: string, change: (bytes: Buffer) => void): string => {
    const bytes = Buffer.from(readFileSync(base));
    change(bytes);
    const path = join(folder, name);
    writeFileSync(path, bytes);
    return path;
  };

  it.each<[string, () => (string | number)[], number, RegExp]>([
    [
      'a text that is too short',
      () => ['-p', 'the cat', '-c', 64],
      2,
      /the text has \d+ tokens; expected at least one window of 64: give a longer text or a smaller -c/,
    ],
    ['no text', () => [], 2, /give the text to measure with -f FILE/],
    ['no such text', () => ['-f', join(folder, 'none.txt')], 1, /cannot read the text .*none\.txt: there is no such file/],
    ['no windows at all', () => ['-f', text, '--chunks', 0], 2, /--chunks is 0; expected at least 1/],
    [
      'a model that makes vectors',
      () => ['-m', llamaModel.replace('llama.gguf', 'bert.gguf'), '-f', text, '-c', 16],
      2,
      /this bert model makes embeddings and does not predict text/,
    ],
    ['a window of 3', () => ['-f', text, '-c', 3], 2, /-c is 3; a window needs at least 4 tokens/],
    ['--kl-divergence alone', () => ['-f', text, '--kl-divergence'], 2, /needs --kl-divergence-base FILE/],
    [
      'a base of another vocabulary',
      () => ['-m', shippedModel, '--kl-divergence', '--kl-divergence-base', base],
      2,
      /the base has a vocabulary of \d+ tokens, the model one of \d+/,
    ],
    [
      'a base that is a model',
      () => ['--kl-divergence', '--kl-divergence-base', llamaModel],
      1,
      /begins with "GGUF.*"; expected "_logits_"/,
    ],
  ])('%s', async (_, args, code, message) => {
    const got = await perplexity(...args());
    expect(got.stderr).toMatch(message);
    expect([got.code, got.stdout, got.stderr.trim().split('\n').length]).toEqual([code, '', 1]);
  });

  it.each<[string, () => string, RegExp]>([
    ['none', () => join(folder, 'none.kld'), /cannot read .*none\.kld: .*; make it with --kl-divergence-base first/],
    ['an empty one', () => writeTo(folder, 'empty.kld', ''), /begins with ""; expected/],
    [
      'one cut short',
      () => writeTo(folder, 'cut.kld', readFileSync(base).subarray(0, -1)),
      /has \d+ bytes; expected \d+ for \d+ windows of 24 tokens .*: it is incomplete/,
    ],
    ['one cut in its header', () => writeTo(folder, 'head.kld', readFileSync(base).subarray(0, 18)), /ends at byte 18; expected 2 more/],
    ['absurd counts', () => file('absurd.kld', (b) => b.writeInt32LE(2 ** 30, 16)), /expected \d+ for 1073741824 windows/],
    ['less than none', () => file('negative.kld', (b) => b.writeInt32LE(-1, 16)), /says -1 windows .*: it is damaged/],
    ['unknown tokens', () => file('tokens.kld', (b) => b.writeInt32LE(1 << 20, 20)), /has the token 1048576; expected 0 to \d+/],
  ])('a base: %s', async (_, path, message) => {
    expect(await failure(openKlBase(path()))).toMatchObject({ code: 'ERR_IO', message: expect.stringMatching(message) as string });
  });

  it('a base that cannot be written leaves nothing', async () => {
    expect(await failure(createKlBase(join(folder, 'none', 'b.kld'), 4, 4, 1, [1, 2, 3, 4]))).toMatchObject({
      code: 'ERR_IO',
      message: expect.stringMatching(/cannot write .*ENOENT/) as string,
    });
    const writer = await createKlBase(join(folder, 'stopped.kld'), 4, 4, 1, [1, 2, 3, 4]);
    await writer.close();
    expect(readdirSync(folder).filter((name) => name.startsWith('stopped'))).toEqual([]);
  });
});
