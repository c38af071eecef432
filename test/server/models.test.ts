/** createModels: loading on demand, memory limits, fairness; and a handler with several models. */
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { createHandler } from '../../src/server/handler.ts';
import { createModels, type ModelsOptions } from '../../src/server/models-on-demand.ts';
import type { LoadedModel, ModelEntry } from '../../src/server/models.ts';
import { scriptedBackend } from './backend.ts';

const fresh = (): AbortSignal => new AbortController().signal;
const soon = (ms = 5): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Models that take some milliseconds to load, with a log of loads and unloads. */
function some(
  ids: readonly string[],
  { bytes, memory, fails, ...options }: ModelsOptions & { bytes?: number; memory?: number; fails?: () => boolean } = {},
) {
  const log: string[] = [];
  const entry = (id: string): ModelEntry => ({
    id,
    ...(bytes === undefined ? {} : { bytes }),
    async load(): Promise<LoadedModel> {
      log.push(`+${id}`);
      await soon();
      if (fails?.()) throw new Error(`${id} is broken`);
      const backend = scriptedBackend(() => `I am ${id}`, { msPerToken: 1 });
      return {
        ...backend,
        name: id,
        ...(memory === undefined ? {} : { stats: { memoryBytes: memory } }),
        async dispose() {
          log.push(`-${id}`);
          await soon(2);
        },
      };
    },
  });
  return { log, models: createModels(ids.map(entry), options) };
}

describe('createModels', () => {
  it('loads a model once, when it is first asked for; the first is for requests that name none', async () => {
    const { models, log } = some(['a', 'b']);
    expect(models.list()).toEqual([
      { id: 'a', status: 'unloaded' },
      { id: 'b', status: 'unloaded' },
    ]);
    const both = Promise.all([models.use('a', fresh()), models.use(undefined, fresh())]);
    expect(models.list()[0].status).toBe('loading');
    const [one, two] = await both;
    expect([one.backend === two.backend, log]).toEqual([true, ['+a']]);
    expect(models.list()[0]).toMatchObject({ id: 'a', status: 'loaded' });
    await expect(models.use('c', fresh())).rejects.toMatchObject({ status: 404, param: 'model', code: 'model_not_found' });
  });

  it('gives up the one that was not used for longest, and none that is in use', async () => {
    const { models, log } = some(['a', 'b', 'c'], { maxLoaded: 2 });
    (await models.use('a', fresh())).release();
    const b = await models.use('b', fresh());
    (await models.use('a', fresh())).release();
    // b was used before a, but is still in use.
    (await models.use('c', fresh())).release();
    expect(log).toEqual(['+a', '+b', '-a', '+c']);
    b.release();
    (await models.use('c', fresh())).release();
    (await models.use('a', fresh())).release();
    expect(log).toEqual(['+a', '+b', '-a', '+c', '-b', '+a']);
  });

  it('waits until there is room; those that come later do not overtake', async () => {
    const { models, log } = some(['a', 'b'], { maxLoaded: 1 });
    const a = await models.use('a', fresh());
    const order: string[] = [];
    const b = models.use('b', fresh()).then((lease) => (order.push('b'), lease));
    await soon();
    const again = models.use('a', fresh()).then((lease) => (order.push('a'), lease));
    await soon();
    expect([log, order]).toEqual([['+a'], []]);
    a.release();
    (await b).release();
    (await again).release();
    expect([log, order]).toEqual([
      ['+a', '-a', '+b', '-b', '+a'],
      ['b', 'a'],
    ]);
  });

  it('gives up waiting when nobody waits any more', async () => {
    const { models, log } = some(['a', 'b'], { maxLoaded: 1 });
    const a = await models.use('a', fresh());
    const leaving = new AbortController();
    const waiting = models.use('b', leaving.signal);
    await soon();
    leaving.abort(new DOMException('gone', 'AbortError'));
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    (await models.use('a', fresh())).release();
    a.release();
    await soon();
    expect(log).toEqual(['+a']);
    expect(models.list()[1].status).toBe('unloaded');
    (await models.use('b', fresh())).release();
    expect(log).toEqual(['+a', '-a', '+b']);
  });

  it('keeps to the bytes, those that files say and those that models take', async () => {
    const said = some(['a', 'b', 'c'], { bytes: 40, maxBytes: 100 });
    for (const id of ['a', 'b', 'c']) (await said.models.use(id, fresh())).release();
    expect(said.log).toEqual(['+a', '+b', '-a', '+c']);
    const found = some(['a', 'b'], { bytes: 40, memory: 60, maxBytes: 100 });
    for (const id of ['a', 'b']) (await found.models.use(id, fresh())).release();
    // The memory of b is known only after loading: a is unloaded, and b is loaded again.
    expect(found.log).toEqual(['+a', '+b', '-b', '-a', '+b']);
    const large = some(['a'], { bytes: 200, maxBytes: 100 });
    await expect(large.models.use('a', fresh())).rejects.toMatchObject({ status: 503, code: 'model_too_large' });
    expect(large.log).toEqual([]);
  });

  it('says what loading says, and tries again', async () => {
    let broken = true;
    const { models } = some(['a'], { fails: () => broken });
    await expect(models.use('a', fresh())).rejects.toThrow('a is broken');
    expect(models.list()[0].status).toBe('failed');
    broken = false;
    expect((await models.use('a', fresh())).backend.name).toBe('a');
    expect(models.list()[0].status).toBe('loaded');
  });

  it('unloads what is free; ends with all', async () => {
    const { models, log } = some(['a', 'b']);
    const a = await models.use('a', fresh());
    await expect(models.unload('a')).rejects.toMatchObject({ status: 409, code: 'model_in_use' });
    a.release();
    a.release();
    await models.unload('a');
    (await models.use('b', fresh())).release();
    await models.dispose();
    expect(log).toEqual(['+a', '-a', '+b', '-b']);
    await expect(models.use('a', fresh())).rejects.toMatchObject({ code: 'ERR_DISPOSED' });
  });

  it('lets so many wait, and refuses lists that make no sense', async () => {
    const { models } = some(['a', 'b'], { maxWaiting: 2 });
    const waiting = [models.use('a', fresh()), models.use('a', fresh())];
    await expect(models.use('b', fresh())).rejects.toMatchObject({ status: 429 });
    await Promise.all(waiting);
    expect(() => some([])).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
    expect(() => some(['a', 'a'])).toThrow('two models are called "a"');
    expect(() => some(['a'], { maxLoaded: 0 })).toThrow('maxLoaded is 0');
  });

  it('any order of requests: never more than fit, every request answered by its own', async () => {
    const { models, log } = some(['a', 'b', 'c', 'd'], { maxLoaded: 2, maxWaiting: 1000 });
    let state = 7;
    const next = (n: number): number => (state = (state * 1103515245 + 12345) % 2 ** 31) % n;
    await Promise.all(
      Array.from({ length: 200 }, async () => {
        await soon(next(60));
        const id = 'abcd'[next(4)];
        const lease = await models.use(id, fresh());
        expect(lease.backend.name).toBe(id);
        await soon(next(4));
        expect(models.list().find((model) => model.id === id)?.backend).toBe(lease.backend);
        lease.release();
      }),
    );
    let loaded = 0;
    for (const what of log) expect((loaded += what.startsWith('+') ? 1 : -1)).toBeLessThanOrEqual(2);
  });
});

describe('a handler over several models', () => {
  const { models, log } = some(['first', 'owner/second'], { maxLoaded: 1 });
  const handler = createHandler(models);
  const client = new OpenAI({
    apiKey: 'x',
    baseURL: 'http://server/v1',
    maxRetries: 0,
    fetch: (url, init) => handler(new Request(url, init)),
  });
  const ask = async (model: string): Promise<string | null> =>
    (await client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Who?' }] })).choices[0].message.content;

  it('answers with the one that a request names, streamed too', async () => {
    expect(await ask('owner/second')).toBe('I am owner/second');
    expect(await ask('first')).toBe('I am first');
    let text = '';
    let name = '';
    for await (const { choices, model } of await client.chat.completions.create({
      model: 'owner/second',
      messages: [{ role: 'user', content: 'Who?' }],
      stream: true,
    })) {
      text += choices[0].delta.content ?? '';
      name = model;
    }
    expect([text, name]).toEqual(['I am owner/second', 'owner/second']);
    expect(log).toEqual(['+owner/second', '-owner/second', '+first', '-first', '+owner/second']);
    await expect(ask('third')).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
  });

  it('does not give up a model while it answers', async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(i % 3 === 0 ? 'first' : 'owner/second')));
    expect(answers).toEqual(answers.map((_, i) => (i % 3 === 0 ? 'I am first' : 'I am owner/second')));
  });

  it('lists them, one by one too, without loading any', async () => {
    const before = log.length;
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toEqual(['first', 'owner/second']);
    expect(await client.models.retrieve('owner/second')).toMatchObject({ id: 'owner/second', object: 'model' });
    await expect(client.models.retrieve('third')).rejects.toMatchObject({ status: 404 });
    const metrics = await (await handler(new Request('http://server/metrics'))).text();
    expect(metrics).toContain('llamacpp:requests_processing 0\n');
    expect(log.length).toBe(before);
  });

  it('loads and unloads on request; a GET names its model behind the question mark', async () => {
    const post = (path: string, body: object): Promise<Response> =>
      handler(
        new Request(`http://server${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
      );
    expect(await (await post('/models/load', { model: 'first' })).json()).toEqual({ success: true });
    expect(await (await post('/models/unload', { model: 'first' })).json()).toEqual({ success: true });
    expect(models.list().every(({ status }) => status === 'unloaded')).toBe(true);
    expect((await post('/models/unload', {})).status).toBe(400);
    const props = await (await handler(new Request('http://server/props?model=owner/second'))).json();
    expect(props).toMatchObject({ model_alias: 'owner/second' });
  });

  it('looking uses what is loaded: it gives none up, and loads none but one that it names where there is room', async () => {
    const { log, models: one } = some(['first', 'second'], { maxLoaded: 1 });
    const looking = createHandler(one);
    const look = async (path: string): Promise<[number, unknown]> => {
      const response = await looking(new Request(`http://server${path}`));
      return [response.status, await response.json()];
    };
    expect(await look('/slots')).toEqual([200, []]);
    expect(await look('/lora-adapters')).toEqual([200, []]);
    expect(await look('/props')).toMatchObject([200, { role: 'router', default_generation_settings: { n_ctx: 0 } }]);
    expect(log).toEqual([]);
    const lease = await one.use('second', new AbortController().signal);
    for (const released of [false, true]) {
      if (released) lease.release();
      expect(await look('/props')).toMatchObject([200, { model_alias: 'second' }]);
      expect(await look('/props?model=second')).toMatchObject([200, { model_alias: 'second' }]);
      expect(await look('/props?model=first')).toMatchObject([503, { error: { code: 'model_not_loaded' } }]);
      expect((await look('/props?model=third'))[0]).toBe(404);
      expect((await look('/lora-adapters'))[0]).toBe(200);
    }
    expect(log).toEqual(['+second']);
  });
});
