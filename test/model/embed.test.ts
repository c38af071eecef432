/**
 * model.embed and model.rank: texts that share steps, options, iteration, refusals. test/arch compares vectors
 * with native's.
 */
import { loadModel, similarity, type Model } from 'quantlet';
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
    expect(await failure(model.embed(['cat', long], { truncate: false }))).toMatchObject({
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

describe('options of embed', () => {
  let model: Model;
  const overrideKv = { 'sentence_transformers.prompts.query': 'red sun ', 'sentence_transformers.prompts.passage': 'a mat ' };
  beforeAll(async () => void (model = await loadModel(golden('bert.gguf'), { threads: 2, warmUp: false, overrideKv })));
  afterAll(() => model.dispose());

  it('a text that is too long is cut, and keeps the token that ends it', async () => {
    const most = model.contextLength;
    const long = model.tokenize('cat hat '.repeat(most));
    const want = await model.embed([[...long.slice(0, most - 1), long.at(-1)!]], { truncate: false });
    expect(bitDifference(await model.embed(['cat hat '.repeat(most)]), want)).toBe('');
    expect(bitDifference(await model.embed([long], { truncate: true }), want), 'as ids').toBe('');
    const [cut] = await model.embed(['the cat sat on'], { truncate: 4 });
    expect(bitDifference([cut], await model.embed(['the cat']))).toBe('');
    expect(bitDifference(await model.embed(['the cat'], { truncate: 4 }), [cut]), 'short enough').toBe('');
    // Ids without that token are cut, nothing else.
    expect(bitDifference(await model.embed([long.slice(0, 9)], { truncate: 3 }), await model.embed([long.slice(0, 3)]))).toBe('');
  });

  it('dimensions are the first ones, normalized again', async () => {
    const [plain] = await model.embed([TEXTS[3]], { normalize: false });
    const size = Math.hypot(...plain.subarray(0, 5));
    const [five] = await model.embed([TEXTS[3]], { dimensions: 5 });
    expect([...five]).toEqual(Array.from(plain.subarray(0, 5), (x) => Math.fround(x / size)));
    expect([...(await model.embed([TEXTS[3]], { dimensions: 5, normalize: false }))[0]]).toEqual([...plain.subarray(0, 5)]);
    expect(await failure(model.embed(['cat'], { dimensions: plain.length + 1 }))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  it('precision gives vectors of fewer bits', async () => {
    const [unit] = await model.embed([TEXTS[3]]);
    const [int8] = await model.embed([TEXTS[3]], { precision: 'int8' });
    expect(int8).toBeInstanceOf(Int8Array);
    expect(similarity(int8, unit)).toBeGreaterThan(0.999);
    const [bits] = await model.embed([TEXTS[3]], { precision: 'ubinary', dimensions: 16 });
    expect(Array.from(bits, (byte) => byte.toString(2).padStart(8, '0')).join('')).toBe(
      Array.from(unit.subarray(0, 16), (x) => Number(x > 0)).join(''),
    );
  });

  it('pooling none is a vector for each token, as computed unless normalize is true', async () => {
    const ids = model.tokenize(TEXTS[3]);
    const [rows, short] = await model.embed([ids, 'cat'], { pooling: 'none' });
    expect([rows.length, short.length]).toEqual([ids.length, 3]);
    const mean = rows[0].map((_, k) => rows.reduce((sum, row) => sum + row[k], 0) / rows.length);
    const [want] = await model.embed([ids], { normalize: false, pooling: 'mean' });
    mean.forEach((x, k) => expect(x).toBeCloseTo(want[k], 5));
    const [units] = await model.embed([ids], { pooling: 'none', normalize: true, dimensions: 4 });
    for (const row of units) expect([row.length, Math.hypot(...row)]).toEqual([4, expect.closeTo(1, 6)]);
  });

  it('prompts are put before texts: given, or named by the file', async () => {
    const want = await model.embed(['red sun the cat']);
    for (const options of [{ prompt: 'red sun ' }, { promptName: 'query' }, { promptName: 'search_query' }])
      expect(bitDifference(await model.embed(['the cat'], options), want)).toBe('');
    expect(bitDifference(await model.embed(['the cat'], { promptName: 'document' }), await model.embed(['a mat the cat']))).toBe('');
    expect(await failure(model.embed(['cat'], { promptName: 'title' }))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/promptName is "title"; expected one of query, passage/) as string,
    });
    expect(await failure(model.embed(['cat'], { promptName: 'query', prompt: 'a' }))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });
});

describe('for await over embed', () => {
  let model: Model;
  beforeAll(async () => void (model = await loadModel(golden('bert.gguf'), { threads: 2, warmUp: false })));
  afterAll(() => model.dispose());
  const gathered = async (given: AsyncIterable<Float32Array>): Promise<Float32Array[]> => {
    const vectors: Float32Array[] = [];
    for await (const vector of given) vectors.push(vector);
    return vectors;
  };

  it('gives the vectors in order, of texts from any iterable, and counts them', async () => {
    const want = await model.embed(TEXTS);
    const seen: unknown[] = [];
    const onProgress = (progress: object): void => void seen.push({ ...progress });
    expect(bitDifference(await gathered(model.embed(TEXTS, { onProgress })), want)).toBe('');
    let tokens = 0;
    expect(seen).toEqual(TEXTS.map((text, i) => ({ done: i + 1, total: 30, tokens: (tokens += model.tokenize(text).length) })));
    async function* slowly(): AsyncGenerator<string> {
      for (const text of TEXTS) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        yield text;
      }
    }
    expect(bitDifference(await model.embed(slowly()), want)).toBe('');
    expect(bitDifference(await gathered(model.embed(new Set(TEXTS))), want)).toBe('');
    const both = model.embed(TEXTS);
    expect(bitDifference(await both, want)).toBe('');
    expect(bitDifference(await gathered(both), want), 'iterated over after it was awaited').toBe('');
  });

  it('reads and computes only a little ahead, and nothing once the loop is left', async () => {
    let read = 0;
    let closed = false;
    function* endless(): Generator<string> {
      try {
        for (;;) yield `the cat ${++read}`;
      } finally {
        closed = true;
      }
    }
    let n = 0;
    const embedding = model.embed(endless());
    for await (const vector of embedding) {
      expect(vector.length).toBeGreaterThan(0);
      await new Promise((resolve) => setTimeout(resolve, 2));
      expect(read).toBeLessThan(n + 100);
      if (++n === 50) break;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
    const then = read;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect([read, closed, model.internals.slots.active]).toEqual([then, true, 0]);
    expect(await failure(embedding)).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  it('an error comes after the vectors before it, an abort at once; a loop can go on after either', async () => {
    const texts = [...TEXTS.slice(0, 20), 'cat '.repeat(model.contextLength), 'cat'];
    const want = await model.embed(TEXTS);
    const got: Float32Array[] = [];
    const loop = async (options: object): Promise<void> => {
      for await (const vector of model.embed(texts.slice(got.length), options)) {
        got.push(vector);
        if (got.length === 7) controller.abort(reason);
      }
    };
    const [controller, reason] = [new AbortController(), new Error('enough')];
    expect((await failure(loop({ signal: controller.signal }))).error).toBe(reason);
    expect(got).toHaveLength(7);
    expect(await failure(loop({ truncate: false }))).toMatchObject({
      code: 'ERR_CONTEXT_FULL',
      message: expect.stringContaining('text 14 of 15') as string,
    });
    expect(bitDifference(got, want.slice(0, 20))).toBe('');
    const broken = async (): Promise<void> => {
      for await (const _ of model.embed(TEXTS, {
        onProgress: () => {
          throw reason;
        },
      }))
        got.push(_);
    };
    expect((await failure(broken())).error).toBe(reason);
    const fails = {
      *[Symbol.iterator]() {
        yield 'cat';
        throw reason;
      },
    };
    expect((await failure(model.embed(fails))).error).toBe(reason);
    expect(bitDifference(await model.embed(TEXTS), want)).toBe('');
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
