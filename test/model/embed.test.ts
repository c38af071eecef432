/**
 * model.embed and model.rank: texts that share steps, options, refusals. test/arch compares vectors
 * with native's.
 */
import { loadModel, type Model } from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { goldenModel } from '../arch/golden-models.ts';
import { bitDifference, failure, llamaModel } from '../support.ts';

const golden = (name: string): string => llamaModel.replace('llama.gguf', name);
const WORDS = ['the', 'cat', 'hat', 'sat', 'on', 'a', 'mat', 'red', 'sun', '.'];
/** 30 texts of 1 to 40 words. */
const TEXTS = Array.from({ length: 30 }, (_, i) =>
  Array.from({ length: 1 + ((i * 17) % 40) }, (_, k) => WORDS[(i * k + i + k) % WORDS.length]).join(' '),
);

describe.each(['bert', 'nomic-bert', 'jina-bert-v2'])('%s', (name) => {
  let model: Model;
  beforeAll(async () => void (model = await loadModel(golden(`${name}.gguf`), { threads: 2, warmUp: false })));
  afterAll(() => model.dispose());

  it('texts that share steps get the bits they get alone', async () => {
    const together = await model.embed(TEXTS);
    const alone: Float32Array[] = [];
    for (const text of TEXTS) alone.push((await model.embed([text]))[0]);
    expect(bitDifference(together, alone)).toBe('');
    const [first, second] = await Promise.all([model.embed(TEXTS.slice(0, 15)), model.embed(TEXTS.slice(15))]);
    expect(bitDifference([...first, ...second], alone), 'two calls at once').toBe('');
  });

  it('vectors have length one unless normalize is false; ids are accepted; no texts, no vectors', async () => {
    const [unit] = await model.embed([TEXTS[3]]);
    const [plain] = await model.embed([TEXTS[3]], { normalize: false });
    expect(Math.hypot(...unit)).toBeCloseTo(1, 6);
    expect(Math.hypot(...plain)).not.toBeCloseTo(1, 2);
    expect(bitDifference(await model.embed([model.tokenize(TEXTS[3])]), [unit])).toBe('');
    expect(await model.embed([])).toEqual([]);
  });

  it('poolings differ, and last is that of the last token', async () => {
    const vectors = await Promise.all(
      (['mean', 'cls', 'last'] as const).map(async (pooling) => (await model.embed([TEXTS[5]], { pooling }))[0]),
    );
    for (const [i, j] of [
      [0, 1],
      [0, 2],
      [1, 2],
    ])
      expect(bitDifference([vectors[i]], [vectors[j]])).not.toBe('');
  });

  it('the error names a text that is too long; an abort has its reason; the model stays usable', async () => {
    const long = 'cat '.repeat(100);
    const want = await model.embed(TEXTS.slice(0, 2));
    expect(await failure(model.embed(['cat', long]))).toMatchObject({
      code: 'ERR_CONTEXT_FULL',
      message: expect.stringContaining('text 2 of 2'),
    });
    expect(await failure(model.rank('cat', ['hat']))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    for (const [texts, says] of [
      ['cat', /texts is string/],
      [undefined, /texts is undefined/],
      [[5], /text 1 of 1 is number/],
      [['cat', [1, 272]], /text 2 of 2 has the id 272 at 1/],
      [[[1.5]], /id 1\.5/],
    ] as const) {
      expect(await failure(model.embed(texts as never))).toMatchObject({
        code: 'ERR_INVALID_ARGUMENT',
        message: expect.stringMatching(says) as string,
      });
    }
    expect(await failure(model.embed(['cat'], { pooling: 'sum' as never }))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringContaining('"sum"') as string,
    });
    expect(await failure(() => Promise.resolve(model.tokenize(5 as never)))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(await failure(() => Promise.resolve(model.generate('cat')))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    const reason = new Error('enough');
    expect((await failure(model.embed(TEXTS, { signal: AbortSignal.abort(reason) }))).error).toBe(reason);
    expect(bitDifference(await model.embed(TEXTS.slice(0, 2)), want)).toBe('');
  });
});

it.each(['xlm-roberta-rank', 'qwen3-rank'])('%s: a score for each document, whatever the other documents are', async (name) => {
  const model = await loadModel(golden(`${name}.gguf`), { threads: 2, warmUp: false });
  try {
    const documents = TEXTS.slice(0, 12);
    const scores = await model.rank('the cat', documents);
    expect(scores).toHaveLength(12);
    for (const [i, document] of documents.entries()) expect(await model.rank('the cat', [document]), document).toEqual([scores[i]]);
    expect(new Set(scores).size).toBeGreaterThan(6);
    for (const [query, of] of [
      ['cat', 'hat'],
      ['cat', [5]],
      [5, ['hat']],
    ])
      expect((await failure(model.rank(query as never, of as never))).code).toBe('ERR_INVALID_ARGUMENT');
    expect(await failure(model.embed(['cat']))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining('rank(') });
  } finally {
    await model.dispose();
  }
});

it('a generating model gives vectors if loaded for them', async () => {
  expect(await failure(loadModel(golden('bert.gguf'), { embeddings: false })), 'an encoder').toMatchObject({
    code: 'ERR_INVALID_ARGUMENT',
    message: expect.stringContaining('bert models make vectors'),
  });
  const model = await loadModel(llamaModel, { embeddings: true, threads: 2, warmUp: false });
  expect((await model.embed(['the cat', 'a hat'])).map((v) => v.length)).toEqual([32, 32]);
  await model.dispose();
  const other = await loadModel(llamaModel, { warmUp: false });
  expect(await failure(other.embed(['cat']))).toMatchObject({
    code: 'ERR_INVALID_ARGUMENT',
    message: expect.stringContaining('embeddings: true'),
  });
  await other.dispose();
});

it('many texts add no more listeners to a signal than one', async () => {
  const warnings: string[] = [];
  const warned = (warning: Error): void => void warnings.push(warning.name);
  process.on('warning', warned);
  const model = await loadModel(goldenModel('bert.gguf'), { threads: 1, warmUp: false, parallel: 16 });
  try {
    const texts = Array.from({ length: 300 }, (_, i) => `the cat ${i}`);
    const { signal } = new AbortController();
    const [many, again] = await Promise.all([model.embed(texts, { signal }), model.embed(texts, { signal })]);
    expect(again).toEqual(many);
    for (const i of [0, 1, 150, 299]) expect(many[i]).toEqual((await model.embed([texts[i]]))[0]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
  } finally {
    process.off('warning', warned);
    await model.dispose();
  }
});
