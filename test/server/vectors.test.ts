/** Fields of /v1/embeddings: cutting, prompts, pooling, numbers of vectors. */
import { createHandler } from '../../src/server/handler.ts';
import { describe, expect, it } from 'vitest';
import type { VectorOptions } from '../../src/server/backend.ts';
import { scriptedBackend } from './backend.ts';

interface Answer {
  data: { embedding: number[] | string }[];
  usage: { prompt_tokens: number };
  error: { param: string; message: string; code: string };
}

const VECTOR = Float32Array.of(0.5, -0.25, 1, 0, 0.125, -1, 0.75, -0.5);
const prompts = new Map([
  ['sentence_transformers.prompts.query', 'query: '],
  ['sentence_transformers.prompts.passage', 'passage: '],
]);

/** Asks a server, and returns its answer with what the model got. */
async function ask(
  body: object,
  { metadata = prompts as ReadonlyMap<string, string>, contextLength = 20, pooling = undefined as 'cls' | undefined } = {},
) {
  const got: { inputs: unknown; options: VectorOptions } = { inputs: undefined, options: {} };
  const backend = scriptedBackend(() => '', { contextLength });
  const embed = (inputs: readonly (string | readonly number[])[], options: VectorOptions): Promise<Float32Array[]> => {
    Object.assign(got, { inputs, options });
    return Promise.resolve(inputs.map(() => VECTOR));
  };
  const handle = createHandler({ ...backend, embed, metadata }, { pooling });
  const response = await handle(
    new Request('http://server/v1/embeddings', { method: 'POST', body: JSON.stringify({ input: 'hello', ...body }) }),
  );
  return { status: response.status, body: (await response.json()) as Answer, ...got };
}
const refused = async (body: object, options?: object): Promise<[number, string]> => {
  const answer = await ask(body, options);
  return [answer.status, answer.body.error?.param];
};

describe('texts that are too long', () => {
  const long = 'a'.repeat(50);
  it('are left to the model to refuse, unless the request cuts them', async () => {
    expect((await ask({ input: long })).options.truncate).toBe(false);
    for (const truncate of [false, 'NONE', null]) expect((await ask({ truncate })).options.truncate).toBe(false);
    for (const truncate of [true, 'END']) {
      const { options, body } = await ask({ input: [long, 'a'], truncate });
      expect([options.truncate, body.usage.prompt_tokens]).toEqual([20, 22]);
    }
  });
  it("are cut by vLLM's truncate_prompt_tokens", async () => {
    expect((await ask({ truncate_prompt_tokens: -1 })).options.truncate).toBe(20);
    const { options, body } = await ask({ input: [long, [1, 2]], truncate_prompt_tokens: 7 });
    expect([options.truncate, body.usage.prompt_tokens]).toEqual([7, 9]);
  });
  it.each([
    { truncate_prompt_tokens: 0 },
    { truncate_prompt_tokens: 21 },
    { truncate_prompt_tokens: -2 },
    { truncate: 'START' },
    { truncate: 'x' },
  ])('refuses %j', async (body) => expect(await refused(body)).toEqual([400, Object.keys(body)[0]]));
  it('are cut at their ends alone', async () => {
    expect(await refused({ truncation_direction: 'left' })).toEqual([400, 'truncation_direction']);
    expect((await ask({ truncation_direction: 'right' })).status).toBe(200);
  });
});

describe('prompts of the file', () => {
  it.each(['query', 'search_query'])('input_type and prompt_name: %s', async (name) => {
    for (const field of ['input_type', 'prompt_name']) {
      const { inputs } = await ask({ input: ['a', [1]], [field]: name });
      expect([field, inputs]).toEqual([field, ['query: a', [1]]]);
    }
  });
  it('document is another name of passage', async () => expect((await ask({ input_type: 'document' })).inputs).toEqual(['passage: hello']));
  it('are refused if the file has none of that name, or none at all', async () => {
    const { body } = await ask({ input_type: 'clustering' });
    expect(body.error).toMatchObject({ param: 'input_type', message: expect.stringContaining('"query" or "passage"') as string });
    expect(await refused({ input_type: 'query', prompt_name: 'query' })).toEqual([400, 'prompt_name']);
    const none = await ask({ input_type: 'query' }, { metadata: new Map() });
    expect(none.body.error).toMatchObject({ param: 'input_type', code: 'unsupported_parameter' });
  });
});

it('pooling of the request, else of the server', async () => {
  expect((await ask({}, { pooling: 'cls' })).options.pooling).toBe('cls');
  expect((await ask({ pooling: 'last' }, { pooling: 'cls' })).options.pooling).toBe('last');
  for (const pooling of ['none', 'rank', 'sum', 5]) expect(await refused({ pooling })).toEqual([400, 'pooling']);
});

describe('numbers of vectors', () => {
  const numbers = async (body: object): Promise<number[] | string> => (await ask(body)).body.data[0].embedding;
  it.each(['output_dtype', 'embedding_type'])('%s', async (field) => {
    expect(await numbers({ [field]: 'float' })).toEqual([...VECTOR]);
    expect(await numbers({ [field]: 'int8' })).toEqual([64, -32, 127, 0, 16, -127, 95, -63]);
    expect(await numbers({ [field]: 'ubinary' })).toEqual([0b10101010]);
    expect(await numbers({ [field]: 'binary' })).toEqual([0b10101010 - 128]);
    expect(await refused({ [field]: 'float16' })).toEqual([400, field]);
  });
  it('base64 has their bytes', async () => {
    const bytes = async (body: object): Promise<number[]> =>
      Array.from(atob((await numbers({ encoding_format: 'base64', ...body })) as string), (c) => c.charCodeAt(0));
    expect(await bytes({ output_dtype: 'int8' })).toEqual([64, 224, 127, 0, 16, 129, 95, 193]);
    expect(await bytes({ output_dtype: 'ubinary' })).toEqual([0b10101010]);
    expect((await bytes({})).length).toBe(4 * VECTOR.length);
  });
  it('fewer dimensions are normalized from the vector as it is', async () => {
    const { options, body } = await ask({ dimensions: 2 });
    expect(options.normalize).toBe(false);
    const size = Math.hypot(0.5, 0.25);
    expect(body.data[0].embedding).toEqual([Math.fround(0.5 / size), Math.fround(-0.25 / size)]);
    expect(await refused({ dimensions: 9 })).toEqual([400, 'dimensions']);
  });
});
