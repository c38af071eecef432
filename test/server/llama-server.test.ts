/**
 * llama-server's own endpoints other than /completion, with a scripted model: /infill, /slots,
 * /lora-adapters, prefixes, files, defaults.
 */
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folderFiles, folderSlots, modelName, modelsIn } from '../../src/cli/serve-files.ts';
import { createHandler } from '../../src/server/handler.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { temporaryFolder, writeTo } from '../support.ts';
import { scriptedBackend } from './backend.ts';

type Json = ReturnType<typeof JSON.parse>;
const FIM = { prefix: 1001, suffix: 1002, middle: 1003, repository: undefined, file: undefined };

function serve(options: HandlerOptions = {}, more: object = {}, contextLength = 4096) {
  const seen: (readonly number[])[] = [];
  const backend = scriptedBackend(() => 'answer', { contextLength });
  const { generate } = backend;
  const handler = createHandler({ ...backend, generate: (ids, given) => (seen.push(ids), generate(ids, given)), ...more }, options);
  const ask = async (
    path: string,
    body?: object,
    method = body ? 'POST' : 'GET',
  ): Promise<{ status: number; body: Json; headers: Headers }> => {
    const response = await handler(
      new Request(`http://server${path}`, {
        method,
        ...(body ? { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } } : {}),
      }),
    );
    const text = await response.text();
    let json: Json = text;
    try {
      json = JSON.parse(text);
    } catch {
      // A file, not JSON.
    }
    return { status: response.status, body: json, headers: response.headers };
  };
  return { ask, seen, backend };
}
const bytes = (text: string): number[] => [...new TextEncoder().encode(text)];

describe('/infill', () => {
  it('puts prefix, prompt and suffix between their tokens, behind the beginning of the sequence', async () => {
    const { ask, seen } = serve({}, { fim: FIM });
    const { status, body } = await ask('/infill', { input_prefix: 'def f(', input_suffix: '): pass', prompt: 'x', n_predict: 3 });
    expect([status, body.content, body.stop_type]).toEqual([200, 'ans', 'limit']);
    // No text can name the scripted tokenizer's BOS token, because it is not in the vocabulary.
    expect(seen).toEqual([[1001, ...bytes('def f(x'), 1002, ...bytes('): pass'), 1003]]);
    const other = serve({ spmInfill: true }, { fim: FIM });
    await other.ask('/infill', { input_prefix: 'def f(', input_suffix: '): pass' });
    expect(other.seen).toEqual([[1002, ...bytes('): pass'), 1001, ...bytes('def f('), 1003]]);
  });

  it('puts other files before them, with tokens for names where there are some', async () => {
    const request = { input_prefix: 'a', input_suffix: 'b', input_extra: [{ filename: 'one.py', text: '1' }, { text: '2' }] };
    const plain = serve({}, { fim: FIM });
    await plain.ask('/infill', request);
    expect(plain.seen[0]).toEqual([
      ...bytes('\n\n--- snippet ---\n\n1\n\n--- snippet ---\n\n2'),
      1001,
      ...bytes('a'),
      1002,
      ...bytes('b'),
      1003,
    ]);
    const named = serve({}, { fim: { ...FIM, repository: 1004, file: 1005 } });
    await named.ask('/infill', request);
    expect(named.seen[0]).toEqual([
      1004,
      ...bytes('myproject\n'),
      1005,
      ...bytes('one.py\n1'),
      1005,
      ...bytes('tmp\n2'),
      1005,
      ...bytes('filename\n'),
      1001,
      ...bytes('a'),
      1002,
      ...bytes('b'),
      1003,
    ]);
  });

  it('is cut to the context: what is next to the gap stays', async () => {
    const { ask, seen } = serve({}, { fim: FIM }, 128);
    const request = { input_prefix: `${'p'.repeat(500)}END`, input_suffix: `BEGIN${'s'.repeat(500)}`, input_extra: [{ text: 'x' }] };
    expect((await ask('/infill', request)).status).toBe(200);
    const ids = seen[0];
    expect(ids.length).toBeLessThanOrEqual(96);
    const text = new TextDecoder().decode(Uint8Array.from(ids.filter((id) => id < 256)));
    expect(text).toMatch(/^p+ENDBEGINs+$/);
    const suffix = text.length - text.indexOf('BEGIN');
    expect([suffix > 15, text.length > 80]).toEqual([true, true]);
    // A short suffix leaves its room to the prefix, and both leave theirs to other files.
    await ask('/infill', { ...request, input_suffix: 's' });
    await ask('/infill', { input_prefix: 'p', input_suffix: 's', input_extra: [{ text: 'x'.repeat(500) }] });
    expect(seen.map(({ length }) => length)).toEqual([ids.length, ids.length, ids.length]);
  });

  it.each<[string, object, string]>([
    ['no prefix', { input_suffix: 'a' }, 'input_prefix'],
    ['no suffix', { input_prefix: 'a' }, 'input_suffix'],
    ['a prompt that is not a text', { input_prefix: 'a', input_suffix: 'b', prompt: [1] }, 'prompt'],
    ['files that are none', { input_prefix: 'a', input_suffix: 'b', input_extra: [{ filename: 'x' }] }, 'input_extra'],
  ])('refuses %s', async (_, body, param) => {
    const { status, body: got } = await serve({}, { fim: FIM }).ask('/infill', body);
    expect([status, got.error.param]).toEqual([400, param]);
  });

  it('says where a model cannot do it', async () => {
    expect((await serve().ask('/infill', { input_prefix: 'a', input_suffix: 'b' })).status).toBe(501);
  });
});

describe('/slots', () => {
  const stored = new Map<string, Uint8Array>();
  const slotStore = {
    write: (name: string, state: Uint8Array) => Promise.resolve(void stored.set(name, state)),
    read: (name: string) => Promise.resolve(stored.get(name)),
  };
  let busy = false;
  const slots = {
    list: () => [0, 1].map((id) => ({ id, tokens: 5 * id, processing: busy })),
    save: (id: number) => Promise.resolve({ tokens: 5 * id, state: Uint8Array.of(id) }),
    restore: (_: number, state: Uint8Array) => Promise.resolve(5 * state[0]),
    erase: (id: number) => Promise.resolve(5 * id),
  };

  it('lists them, without what is said in them', async () => {
    const { ask } = serve({}, { slots });
    expect((await ask('/slots')).body).toEqual([
      { id: 0, n_ctx: 4096, speculative: false, is_processing: false, n_prompt_tokens: 0 },
      { id: 1, n_ctx: 4096, speculative: false, is_processing: false, n_prompt_tokens: 5 },
    ]);
    busy = true;
    expect([(await ask('/slots')).status, (await ask('/slots?fail_on_no_slot=1')).status]).toEqual([200, 503]);
    busy = false;
    expect((await serve({ slots: false }, { slots }).ask('/slots')).status).toBe(501);
    expect((await serve().ask('/slots')).status).toBe(501);
  });

  it('saves, restores and erases one', async () => {
    const { ask } = serve({ slotStore }, { slots });
    expect((await ask('/slots/1?action=save', { filename: 'a.bin' })).body).toMatchObject({
      id_slot: 1,
      filename: 'a.bin',
      n_saved: 5,
      n_written: 1,
    });
    expect((await ask('/slots/0?action=restore', { filename: 'a.bin' })).body).toMatchObject({ id_slot: 0, n_restored: 5, n_read: 1 });
    expect((await ask('/slots/1?action=erase', {})).body).toEqual({ id_slot: 1, n_erased: 5 });
    expect((await ask('/slots/0?action=restore', { filename: 'b.bin' })).status).toBe(404);
    for (const path of ['/slots/2?action=save', '/slots/-1?action=save', '/slots/x?action=save', '/slots/0?action=copy', '/slots/0'])
      expect((await ask(path, { filename: 'a' })).status, path).toBe(400);
    for (const filename of ['../a', '/a', 'a/b', 'a\\b', '.a', '', 'a\0', 'a'.repeat(129), 3, null])
      expect((await ask('/slots/0?action=save', { filename })).body.error.param, String(filename)).toBe('filename');
    expect((await serve({}, { slots }).ask('/slots/0?action=erase', {})).status).toBe(501);
  });

  it('are kept in a folder: whole or not at all, and so many', async () => {
    const folder = join(temporaryFolder(), 'made');
    const store = await folderSlots(folder);
    await store.write('one', Uint8Array.of(1, 2));
    expect([...(await store.read('one'))!]).toEqual([1, 2]);
    expect(await store.read('two')).toBeUndefined();
    for (let i = 0; i < 63; i++) await store.write(`s${i}`, Uint8Array.of(i));
    await expect(store.write('more', Uint8Array.of(0))).rejects.toMatchObject({ status: 409, code: 'too_many_saved' });
    await store.write('one', Uint8Array.of(3));
    expect([...(await store.read('one'))!]).toEqual([3]);
  });
});

it('/lora-adapters lists what is applied; POST /props has nothing to set', async () => {
  const { ask } = serve({}, { adapters: [{ name: 'style.gguf', scale: 0.5 }] });
  expect((await ask('/lora-adapters')).body).toEqual([{ id: 0, path: 'style.gguf', scale: 0.5 }]);
  expect((await serve().ask('/lora-adapters')).body).toEqual([]);
  expect((await ask('/lora-adapters', [{ id: 0, scale: 0.5 }])).body).toEqual({ success: true });
  expect((await ask('/lora-adapters', [{ id: 0, scale: 1 }])).status).toBe(501);
  expect((await ask('/lora-adapters', [])).status).toBe(501);
  for (const body of [[{ id: 1, scale: 0.5 }], [{ id: 'constructor', scale: 1 }], [3], [{ id: 0 }], {}])
    expect((await ask('/lora-adapters', body)).status, JSON.stringify(body)).toBe(400);
  expect((await ask('/props', {})).status).toBe(501);
  expect((await serve({ props: true }).ask('/props', {})).body).toEqual({ success: true });
});

it('/v1/models/{id} knows the model by its name', async () => {
  const { ask } = serve();
  expect((await ask('/v1/models/scripted')).body).toMatchObject({ id: 'scripted', object: 'model', status: { value: 'loaded' } });
  expect((await ask('/models/other')).body.error.code).toBe('model_not_found');
  expect((await ask('/v1/models/%zz')).status).toBe(404);
  expect((await ask('/v1/models/scripted', {})).status).toBe(405);
});

it('a prefix stands before every path', async () => {
  const { ask } = serve({ apiPrefix: '/api', page: '<p>' });
  expect((await ask('/api/v1/models')).status).toBe(200);
  expect((await ask('/api/v1/models/scripted')).status).toBe(200);
  expect((await ask('/api')).body).toBe('<p>');
  for (const path of ['/v1/models', '/', '/apiv1/models', '/api/api/health']) expect((await ask(path)).status, path).toBe(404);
  for (const apiPrefix of ['api', '/api/', '//', '/a b'])
    expect(() =>
      createHandler(
        scriptedBackend(() => ''),
        { apiPrefix },
      ),
    ).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
});

it('/metrics can be left out', async () => {
  expect((await serve({ metrics: false }).ask('/metrics')).status).toBe(404);
});

it('what a request leaves out is taken from the defaults, for every protocol', async () => {
  const { ask, backend } = serve({ defaults: { temperature: 0.1, topK: 3, seed: 5, maxTokens: 4 } });
  const last = (): object => backend.seen.options.at(-1)!;
  const messages = [{ role: 'user', content: 'a' }];
  for (const [path, body] of [
    ['/v1/chat/completions', { messages }],
    ['/v1/completions', { prompt: 'a' }],
    ['/completion', { prompt: 'a' }],
    ['/v1/responses', { input: 'a' }],
    ['/v1/messages', { messages }],
  ] as const) {
    expect((await ask(path, body)).status).toBe(200);
    expect(last(), path).toMatchObject({ temperature: 0.1, topK: 3, seed: 5, maxTokens: 4 });
    await ask(path, { ...body, temperature: 0.7, seed: -1 });
    expect(last(), path).toMatchObject({ temperature: 0.7, topK: 3 });
    expect(last(), path).not.toHaveProperty('seed');
  }
  const bound = serve({ defaults: { grammar: 'root ::= "a"', stop: ['b'], ignoreEos: true, samplers: ['top_k'] } });
  const latest = (): object => bound.backend.seen.options.at(-1)!;
  await bound.ask('/v1/chat/completions', { messages });
  expect(latest()).toMatchObject({ grammar: 'root ::= "a"', stop: ['b'], ignoreEos: true, samplers: ['top_k'] });
  const format = { type: 'json_object' };
  const changed = { messages, response_format: format, stop: [], ignore_eos: false, samplers: 'kt', dry_sequence_breakers: ['.'] };
  await bound.ask('/v1/chat/completions', changed);
  expect(latest()).toMatchObject({
    responseFormat: format,
    stop: [],
    ignoreEos: false,
    samplers: ['top_k', 'temperature'],
    drySequenceBreakers: ['.'],
  });
  expect(latest()).not.toHaveProperty('grammar');
  for (const samplers of ['q', ['nothing'], 5, [5]])
    expect((await bound.ask('/v1/completions', { prompt: 'a', samplers })).status, JSON.stringify(samplers)).toBe(400);
  await ask('/v1/completions', { prompt: 'a', max_tokens: 2 });
  expect(last()).toMatchObject({ maxTokens: 2 });
  await ask('/completion', { prompt: 'a', n_predict: -1 });
  expect(last()).toMatchObject({ maxTokens: 4096 - 2 });
});

it('what a conversation leaves out is taken from chatDefaults, budgets of reasoning from every protocol', async () => {
  const template = `{% for m in messages %}{{ m.content }}{% endfor %}{{ enable_thinking }}<think>{# </think> #}`;
  const backend = scriptedBackend(() => 'answer', { template });
  const handler = createHandler(backend, { chatDefaults: { reasoningBudget: 7, reasoningBudgetMessage: '!', reasoning: false } });
  const ask = async (path: string, body: object) => {
    const response = await handler(
      new Request(`http://server${path}`, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    );
    expect(response.status, await response.clone().text()).toBe(200);
    return { json: (await response.json()) as Json, budget: backend.seen.options.at(-1)!.spanBudget };
  };
  const messages = [{ role: 'user', content: 'a' }];
  const closing = (text: string): object[] => [{ start: '<think>', end: '</think>', closing: bytes(text) }];
  for (const [path, body] of [
    ['/v1/chat/completions', { messages }],
    ['/v1/responses', { input: 'a' }],
    ['/v1/messages', { messages, max_tokens: 5 }],
  ] as const) {
    expect((await ask(path, body)).budget, path).toEqual({ tokens: 7, spans: closing('!</think>'), open: 0, anywhere: false });
    const own = await ask(path, { ...body, thinking_budget_tokens: 3, reasoning_budget_message: '' });
    expect(own.budget).toMatchObject({ tokens: 3, spans: closing('</think>') });
  }
  const thinking = { type: 'enabled', budget_tokens: 5 };
  expect((await ask('/v1/messages', { messages, max_tokens: 5, thinking })).budget).toMatchObject({ tokens: 5 });
  const content = async (more: object): Promise<unknown> =>
    (await ask('/v1/chat/completions', { messages, ...more })).json.choices[0].message.content;
  expect([await content({}), await content({ reasoning_format: 'auto' })]).toEqual(['answer', '']);
  // Answers under a grammar have no reasoning.
  expect((await ask('/v1/chat/completions', { messages, grammar: 'root ::= "a"' })).budget).toBeUndefined();
});

it('/v1/embeddings pools as it is told', async () => {
  let pooling: unknown;
  const embed = (_: unknown, options: { pooling?: unknown }): Promise<Float32Array[]> => {
    pooling = options.pooling;
    return Promise.resolve([Float32Array.of(1)]);
  };
  await serve({ pooling: 'cls' }, { embed }).ask('/v1/embeddings', { input: 'a' });
  expect(pooling).toBe('cls');
});

describe('folders', () => {
  const folder = temporaryFolder();
  const inside = join(folder, 'site');
  mkdirSync(join(inside, 'sub'), { recursive: true });
  writeTo(inside, 'index.html', '<h1>home');
  writeTo(inside, 'a b.js', 'x');
  writeTo(inside, '.secret', 'x');
  writeTo(join(inside, 'sub'), 'index.html', 'sub');
  writeTo(folder, 'outside.txt', 'outside');
  if (process.platform !== 'win32') symlinkSync(join(folder, 'outside.txt'), join(inside, 'link.txt')); // on Windows only administrators may make links

  it('other names that Windows has for a file are refused', async () => {
    symlinkSync('.secret', join(inside, 'SECRET~1'));
    for (const name of ['nul.txt', 'a b.js.', 'a b.js ']) writeTo(inside, name, 'x');
    const [there, here] = [await folderFiles(inside, 'win32'), await folderFiles(inside)];
    for (const name of ['SECRET~1', 'nul.txt', 'a b.js.', 'a b.js '])
      expect([await there(name), (await here(name))?.status]).toEqual([undefined, 200]);
    expect((await there('a b.js'))?.status).toBe(200);
  });

  it('files of one are served, and nothing else', async () => {
    const { ask } = serve({ files: await folderFiles(inside) });
    expect((await ask('/')).body).toBe('<h1>home');
    expect((await ask('/a%20b.js')).headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect((await ask('/sub/')).body).toBe('sub');
    expect((await ask('/v1/models')).status).toBe(200);
    const head = await ask('/index.html', undefined, 'HEAD');
    expect([head.status, head.body, head.headers.get('content-length')]).toEqual([200, '', '8']);
    for (const path of [
      '/.secret',
      '/link.txt',
      '/%2e%2e/outside.txt',
      '/..%2foutside.txt',
      '/sub/..%2f..%2foutside.txt',
      '/..%5coutside.txt',
      '/index.html%00',
      '/nothing',
      '/index.html/x',
      `/${'x'.repeat(5000)}`,
    ])
      expect((await ask(path)).status, path).toBe(404);
    expect((await ask('/index.html', {})).status).toBe(404);
  });

  it('models of one are found by their names', async () => {
    for (const name of [
      'a.gguf',
      'B.GGUF',
      'c-00001-of-00002.gguf',
      'c-00002-of-00002.gguf',
      'mmproj-a.gguf',
      'mtp-a.gguf',
      'a.imatrix.gguf',
      'notes.txt',
    ])
      writeTo(folder, name, '');
    expect((await modelsIn(folder)).map(modelName)).toEqual(['B', 'a', 'c']);
    await expect(modelsIn(inside)).rejects.toMatchObject({ code: 'ERR_USAGE' });
    await expect(modelsIn(join(folder, 'no'))).rejects.toMatchObject({ code: 'ERR_SOURCE' });
  });
});
