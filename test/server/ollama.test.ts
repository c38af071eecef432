/** Ollama's interface: exact JSON of its endpoints, over a scripted model. */
import { describe, expect, it } from 'vitest';
import type { GGUFValue } from '../../src/gguf/types.ts';
import { createHandler } from '../../src/server/handler.ts';
import type { ModelLibrary } from '../../src/server/library.ts';
import { createModels } from '../../src/server/models-on-demand.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { ownTemplates } from '../chat/templates.ts';
import { breaking, scriptedBackend, type Script, type ScriptedOptions } from './backend.ts';

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- bodies are compared with what they must be
type Json = any;

const messages = [{ role: 'user', content: 'Hi' }];
const DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** A handler over a scripted model, and functions that ask it. */
function serve(script: Script, options: HandlerOptions & ScriptedOptions = {}) {
  const { contextLength, parallel, template, msPerToken, ...others } = options;
  const backend = scriptedBackend(
    script,
    Object.fromEntries(Object.entries({ contextLength, parallel, template, msPerToken }).filter(([, v]) => v !== undefined)),
  );
  return { backend, ...asking(createHandler(backend, others)) };
}

function asking(handler: ReturnType<typeof createHandler>) {
  const send = (path: string, body?: object | string, init: RequestInit = {}): Promise<Response> =>
    handler(
      new Request(`http://server${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        ...init,
      }),
    );
  const json = async (
    path: string,
    body?: object | string,
    init?: RequestInit,
  ): Promise<{ status: number; body: Json; headers: Headers }> => {
    const response = await send(path, body, init);
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text), headers: response.headers };
  };
  const lines = async (path: string, body: object): Promise<Json[]> => {
    const response = await send(path, body);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
    const text = await response.text();
    expect(text.endsWith('\n')).toBe(true);
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
  };
  return { send, json, lines };
}

/** The measures of a last line; removes them from it. */
function takeMeasures(line: Json): object {
  const { total_duration, load_duration, prompt_eval_duration, eval_duration } = line;
  for (const duration of [total_duration, load_duration, prompt_eval_duration, eval_duration])
    expect(Number.isInteger(duration) && duration >= 0, JSON.stringify(line)).toBe(true);
  expect(line.created_at).toMatch(DATE);
  for (const name of ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration', 'created_at']) delete line[name];
  return line;
}

describe('/api/chat', () => {
  it('streams lines unless stream is false, and says the name that the client gave', async () => {
    const { lines, json, backend } = serve(() => 'Hé!');
    const all = await lines('/api/chat', { model: 'me:latest', messages });
    const said = (content: string): object => ({ model: 'me:latest', message: { role: 'assistant', content }, done: false });
    expect(all.slice(0, -1).map(({ created_at, ...line }) => (expect(created_at).toMatch(DATE), line))).toEqual(['H', 'é', '!'].map(said));
    const prompt = backend.tokenize((await json('/apply-template', { messages })).body.prompt).length;
    const end = { done: true, done_reason: 'stop', prompt_eval_count: prompt, eval_count: 4 };
    expect(takeMeasures(all.at(-1))).toEqual({ model: 'me:latest', message: { role: 'assistant', content: '' }, ...end });
    const { body } = await json('/api/chat', { model: 'me', messages, stream: false });
    expect(takeMeasures(body)).toEqual({ model: 'me', message: { role: 'assistant', content: 'Hé!' }, ...end });
  });

  it('calls have objects as arguments, with the numbers as the model wrote them', async () => {
    const call = '<tool_call>\n{"name": "add", "arguments": {"a": 12345678901234567890, "b": 1.0}}\n</tool_call>';
    const { lines, send } = serve(() => call);
    const tools = [{ type: 'function', function: { name: 'add', parameters: { type: 'object', properties: {} } } }];
    const text = await (await send('/api/chat', { model: 'm', messages, tools, stream: false })).text();
    expect(text).toContain('"tool_calls":[{"id":"');
    expect(text).toContain('"function":{"index":0,"name":"add","arguments":{"a":12345678901234567890,"b":1.0}}}]');
    const streamed = await (await send('/api/chat', { model: 'm', messages, tools })).text();
    expect(streamed).toContain('"function":{"index":0,"name":"add","arguments":{"a":12345678901234567890,"b":1.0}}}]');
    expect((await lines('/api/chat', { model: 'm', messages, tools })).at(-1)).toMatchObject({ done: true, done_reason: 'stop' });
  });

  it('results name their tool, and go to its call', async () => {
    let seen = '';
    const { json } = serve((prompt) => ((seen = prompt), 'ok'), {
      template:
        '{% for m in messages %}[{{ m.role }} {{ m.tool_call_id }} {{ m.content }}{% for c in m.tool_calls or [] %}({{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}){% endfor %}]{% endfor %}',
    });
    const called = [{ function: { name: 'a', arguments: {} } }, { function: { name: 'b', arguments: { n: 1 } } }];
    const results = [
      { role: 'tool', tool_name: 'b', content: 'B' },
      { role: 'tool', tool_name: 'a', content: 'A' },
    ];
    const talk = [...messages, { role: 'assistant', content: '', tool_calls: called }, ...results];
    expect((await json('/api/chat', { model: 'm', messages: talk, stream: false })).status).toBe(200);
    expect(seen).toContain('(call_1_0 a {})(call_1_1 b {"n": 1})');
    expect(seen).toMatch(/\[tool call_1_1 B\]\[tool call_1_0 A\]/);
  });

  it('reasoning is a part of its own, and think switches it', async () => {
    const thinking =
      '{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %} {{ reasoning_effort }}';
    let seen = '';
    const { json, lines } = serve((prompt) => ((seen = prompt), '<think>hm</think>yes'), { template: thinking });
    expect((await json('/api/chat', { model: 'm', messages, stream: false, think: true })).body.message).toEqual({
      role: 'assistant',
      content: 'yes',
      thinking: 'hm',
    });
    const all = await lines('/api/chat', { model: 'm', messages, think: 'high' });
    expect(seen).toContain('high');
    expect(all.map(({ message }) => message.thinking ?? '').join('')).toBe('hm');
    await json('/api/chat', { model: 'm', messages, stream: false, think: false });
    expect(seen).toContain('<think></think>');
    expect((await json('/api/chat', { model: 'm', messages, think: 'very' })).body).toEqual({
      error: '\'think\' is "very"; expected true, false, or one of minimal, low, medium, high, max.',
    });
    const plain = serve(() => 'x', { template: '{% for m in messages %}{{ m.content }}{% endfor %}' });
    const refused = await plain.json('/api/chat', { model: 'm', messages, think: true });
    expect([refused.status, refused.body]).toEqual([400, { error: '"m" does not support thinking. Leave out \'think\'.' }]);
  });

  it('options set samplers and the length; format sets a grammar', async () => {
    const { backend, json } = serve(() => '{"a": 1}');
    const options = {
      temperature: 0.5,
      top_k: 3,
      min_p: 0.1,
      dry_multiplier: 0.7,
      seed: 7,
      stop: ['x'],
      num_predict: 3,
      num_thread: 8,
      num_gpu: 0,
    };
    const limited = await json('/api/chat', { model: 'm', messages, options, stream: false });
    expect([limited.body.done_reason, limited.body.eval_count, limited.headers.get('x-quantlet-left-out')]).toEqual(['length', 3, null]);
    expect(backend.seen.options.at(-1)).toMatchObject({
      temperature: 0.5,
      topK: 3,
      minP: 0.1,
      dryMultiplier: 0.7,
      seed: 7,
      stop: ['x'],
      maxTokens: 3,
    });
    for (const num_predict of [-1, -2, 0]) {
      await json('/api/chat', { model: 'm', messages, options: { num_predict }, stream: false });
      expect(backend.seen.options.at(-1)!.maxTokens, String(num_predict)).toBeGreaterThan(1000);
    }
    await json('/api/chat', { model: 'm', messages, format: 'json', stream: false });
    expect(backend.seen.options.at(-1)!.responseFormat).toEqual({ type: 'json_object' });
    const schema = { type: 'object', properties: { a: { type: 'integer' } } };
    await json('/api/chat', { model: 'm', messages, format: schema, stream: false });
    expect(backend.seen.options.at(-1)!.responseFormat).toEqual({ type: 'json_schema', schema });
  });

  it('names options that it cannot hold', async () => {
    const { json } = serve(() => 'ok', { contextLength: 512 });
    const left = async (body: object): Promise<string | null> =>
      (await json('/api/chat', { model: 'm', messages, stream: false, ...body })).headers.get('x-quantlet-left-out');
    expect(await left({ options: { num_ctx: 8192, tempratur: 1 }, shift: true })).toBe('options.tempratur, options.num_ctx, shift');
    expect(await left({ options: { num_ctx: 256 }, shift: false })).toBe(null);
  });

  it('leaves out the oldest messages of a conversation that does not fit, unless truncate is false', async () => {
    const { json } = serve(() => 'ok', { contextLength: 400 });
    const long = Array.from({ length: 20 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: 'x'.repeat(40) }));
    const talk = { model: 'm', messages: [...long, ...messages], stream: false };
    const { body } = await json('/api/chat', talk);
    expect(body.quantlet.left_out).toBeGreaterThan(5);
    expect((await json('/api/chat', { ...talk, truncate: false })).status).toBe(400);
  });

  it('log probabilities', async () => {
    const { json, lines } = serve(() => 'ab');
    const asked = { model: 'm', messages, logprobs: true, top_logprobs: 1 };
    const of = (text: string, id: number): object => ({
      token: text,
      logprob: -0.25,
      bytes: [id],
      top_logprobs: [{ token: text, logprob: -0.25, bytes: [id] }],
    });
    expect((await json('/api/chat', { ...asked, stream: false })).body.logprobs).toEqual([of('a', 97), of('b', 98)]);
    expect((await lines('/api/chat', asked)).flatMap(({ logprobs = [] }) => logprobs)).toEqual([of('a', 97), of('b', 98)]);
  });

  it('a failure after the header is the last line', async () => {
    const { lines } = asking(createHandler(breaking(scriptedBackend(() => ''))));
    expect((await lines('/api/chat', { model: 'm', messages })).at(-1)).toEqual({ error: 'The server failed.' });
  });

  it('pings are empty parts', async () => {
    const { lines } = serve(() => 'ab', { msPerToken: 60, ssePingMs: 20 });
    const all = await lines('/api/chat', { model: 'm', messages });
    expect(all.length).toBeGreaterThan(4);
    for (const line of all.slice(0, -1)) expect(line).toMatchObject({ model: 'm', message: { role: 'assistant' }, done: false });
    expect(all.map(({ message }) => message.content).join('')).toBe('ab');
  });
});

describe('/api/generate', () => {
  it('writes the prompt with the system message in the template of the model, and returns the context', async () => {
    let seen = '';
    const { json, lines, backend } = serve((prompt) => ((seen = prompt), 'ok'), { template: ownTemplates.hermes });
    const { body } = await json('/api/generate', { model: 'm', prompt: 'Hi', system: 'Be kind', stream: false });
    expect(seen).toContain('Be kind');
    const { context, ...rest } = takeMeasures(body) as { context: number[] };
    expect(rest).toEqual({
      model: 'm',
      response: 'ok',
      done: true,
      done_reason: 'stop',
      prompt_eval_count: context.length - 2,
      eval_count: 2,
    });
    expect(backend.detokenize(context)).toBe(`${seen}ok`);
    const second = await lines('/api/generate', { model: 'm', prompt: 'More', context });
    expect(seen.startsWith(`${backend.detokenize(context)}<|im_start|>`)).toBe(true);
    expect(seen).toContain('More');
    expect(second.slice(0, -1).map(({ response, done }) => [response, done])).toEqual([
      ['o', false],
      ['k', false],
    ]);
  });

  it('raw prompts are used as they are', async () => {
    let seen = '';
    const { json } = serve((prompt) => ((seen = prompt), 'ok'));
    const { body } = await json('/api/generate', { model: 'm', prompt: '[INST] a [/INST]', raw: true, stream: false });
    expect([seen, body.response, body.context]).toEqual(['[INST] a [/INST]', 'ok', undefined]);
    const refused = await json('/api/generate', { model: 'm', prompt: 'a', raw: true, system: 'b' });
    expect([refused.status, refused.body.error]).toEqual([
      400,
      'raw mode does not support template, system, suffix, or context. Put them into the prompt.',
    ]);
  });

  it("templates of Ollama's kind", async () => {
    let seen = '';
    const { json } = serve((prompt) => ((seen = prompt), 'ok'));
    const template =
      '{{- if .System }}<s>{{ .System }}</s>\n{{ else }}none {{ end -}}\n  {{/* a note */}}<u>{{ .Prompt }}</u>{{ if .Suffix }}S{{ end }}<a>{{ .Response }}</a>';
    const ask = async (body: object): Promise<string> => {
      expect((await json('/api/generate', { model: 'm', prompt: 'P', template, stream: false, ...body })).status).toBe(200);
      return seen;
    };
    expect(await ask({ system: 'B' })).toBe('<s>B</s>\n<u>P</u><a>');
    expect(await ask({})).toBe('none <u>P</u><a>');
    expect(await ask({ suffix: 'x' })).toBe('none <u>P</u>S<a>');
    const wrong = async (given: string): Promise<string> => {
      const { status, body } = await json('/api/generate', { model: 'm', prompt: 'P', template: given });
      expect(status).toBe(400);
      return body.error as string;
    };
    expect(await wrong('{{ range .Messages }}{{ end }}')).toMatch(/^'template' has the action {{ range .Messages }}; expected/);
    expect(await wrong('{{ .Messages }}')).toMatch(
      /^'template' has the field .Messages; expected one of .System, .Prompt, .Suffix, .Response/,
    );
    for (const broken of ['{{ .Prompt', '{{ if .Prompt }}', '{{ end }}', '{{ else }}', '{{ $x := 1 }}', '{{'.repeat(100_000)])
      await wrong(broken);
  });

  it('control tokens in the values of a template stay text', async () => {
    const seen: { breaks: unknown; text: string }[] = [];
    const base = scriptedBackend(() => 'ok');
    const backend = {
      ...base,
      *breaksIn(text: string) {
        yield;
        return [...text.matchAll(/<\|/g)].map(({ index }) => index + 1);
      },
      tokenize: (text: string, options?: Parameters<typeof base.tokenize>[1]) => (
        seen.push({ text, breaks: options?.breaks }),
        base.tokenize(text, options)
      ),
    };
    const { json } = asking(createHandler(backend));
    await json('/api/generate', { model: 'm', prompt: 'a<|x|>', template: '<|u|>{{ .Prompt }}<|end|>', stream: false });
    expect(seen.at(-1)).toMatchObject({ text: '<|u|>a<|x|><|end|>', breaks: [7] });
  });

  it('a suffix: the middle is filled in by models that can', async () => {
    const fim = { prefix: 1, suffix: 2, middle: 3, repository: undefined, file: undefined };
    let ids: readonly number[] = [];
    const base = scriptedBackend(() => 'ok');
    const { json } = asking(
      createHandler({ ...base, fim, generate: (prompt, options) => ((ids = prompt), base.generate(prompt, options)) }),
    );
    const { body } = await json('/api/generate', { model: 'm', prompt: 'ab', suffix: 'yz', stream: false });
    expect(body.response).toBe('ok');
    expect(ids.filter((id) => id < 256)).toEqual([1, 97, 98, 2, 121, 122, 3]);
    const refused = await serve(() => '').json('/api/generate', { model: 'm', prompt: 'ab', suffix: 'yz' });
    expect([refused.status, typeof refused.body.error]).toEqual([501, 'string']);
  });

  it('without a prompt, loads', async () => {
    const { json } = serve(() => 'no');
    for (const [path, part] of [
      ['/api/generate', { response: '' }],
      ['/api/chat', { message: { role: 'assistant', content: '' } }],
    ] as const)
      expect((await json(path, { model: 'm' })).body).toMatchObject({ model: 'm', ...part, done: true, done_reason: 'load' });
  });
});

describe('vectors', () => {
  it('/api/embed, /api/embeddings', async () => {
    const { json } = serve(() => '');
    const { body } = await json('/api/embed', { model: 'm', input: ['ab', 'c'], truncate: false, dimensions: 2 });
    expect(body.model).toBe('m');
    expect(body.embeddings.map((row: number[]) => row.length)).toEqual([2, 2]);
    expect(body.prompt_eval_count).toBe(5);
    expect(Object.keys(body)).toEqual(['model', 'embeddings', 'total_duration', 'load_duration', 'prompt_eval_count']);
    expect((await json('/api/embed', { model: 'm', input: 'ab' })).body.embeddings).toHaveLength(1);
    for (const input of ['', []]) expect((await json('/api/embed', { model: 'm', input })).body.embeddings).toEqual([]);
    const old = (await json('/api/embeddings', { model: 'm', prompt: 'ab' })).body;
    expect(old.embedding.slice(1, 3)).toEqual([3, 4]);
    expect((await json('/api/embeddings', { model: 'm', prompt: '' })).body).toEqual({ embedding: [] });
  });
  it('cuts long texts unless truncate is false', async () => {
    const truncate: unknown[] = [];
    const base = scriptedBackend(() => '', { contextLength: 8 });
    const { json } = asking(
      createHandler({ ...base, embed: (texts, options) => (truncate.push(options.truncate), base.embed!(texts, options)) }),
    );
    for (const asked of [undefined, true, false]) await json('/api/embed', { model: 'm', input: 'abcdefghijk', truncate: asked });
    await json('/api/embeddings', { model: 'm', prompt: 'abcdefghijk' });
    expect(truncate).toEqual([8, 8, false, 8]);
  });
});

const modified = new Date(1e12);
const metadata = new Map<string, GGUFValue>([
  ['general.architecture', 'llama'],
  ['llama.context_length', 2048],
  ['big', 2n ** 60n],
  ['tokenizer.ggml.tokens', ['a', 'b']],
  ['tokenizer.chat_template', ownTemplates.hermes],
]);

describe('models', () => {
  const describes: ModelLibrary = {
    describe: (id) =>
      Promise.resolve(id === 'b' ? undefined : { bytes: 100, modified, parameters: 22_566_000, quantization: 'Q4_K_M', metadata }),
  };
  const entry = (id: string) => ({
    id,
    load: () => Promise.resolve({ ...scriptedBackend(() => id), stats: { memoryBytes: 500 }, name: id, dispose: () => Promise.resolve() }),
  });
  const details = {
    parent_model: '',
    format: 'gguf',
    family: 'llama',
    families: ['llama'],
    parameter_size: '22.57M',
    quantization_level: 'Q4_K_M',
  };
  const several = (library: ModelLibrary = describes) => {
    const models = createModels(['a', 'b'].map(entry), { mayGrow: true });
    return { models, ...asking(createHandler(models, { library })) };
  };

  it('lists: /api/tags, /api/ps, /api/version', async () => {
    const { json } = several();
    const { models } = (await json('/api/tags')).body;
    expect(models[0]).toEqual({ name: 'a', model: 'a', size: 100, digest: models[0].digest, details, modified_at: modified.toISOString() });
    expect(models[0].digest).toMatch(/^[0-9a-f]{64}$/);
    expect(models[1]).toMatchObject({
      name: 'b',
      details: { ...details, family: '', families: [], parameter_size: '', quantization_level: '' },
    });
    expect((await json('/api/ps')).body).toEqual({ models: [] });
    await json('/api/chat', { model: 'a', messages, stream: false });
    const [running] = (await json('/api/ps')).body.models;
    expect(running).toMatchObject({ name: 'a', size: 500, size_vram: 0, expires_at: '9999-12-31T23:59:59Z', context_length: 4096 });
    expect((await json('/api/version')).body.version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it('/api/show describes a model without loading it', async () => {
    const { json, models } = several();
    const { body } = await json('/api/show', { model: 'a:latest' });
    expect(body).toEqual({
      modelfile: 'FROM a\n',
      parameters: '',
      template: ownTemplates.hermes,
      details,
      model_info: {
        'general.architecture': 'llama',
        'llama.context_length': 2048,
        big: 2 ** 60,
        'tokenizer.ggml.tokens': null,
        'general.parameter_count': 22_566_000,
      },
      capabilities: ['completion', 'tools', 'thinking'],
      modified_at: modified.toISOString(),
    });
    expect((await json('/api/show', { name: 'a', verbose: true })).body.model_info['tokenizer.ggml.tokens']).toEqual(['a', 'b']);
    expect(models.list().every(({ status }) => status === 'unloaded')).toBe(true);
    const missing = await json('/api/show', { model: 'zz' });
    expect([missing.status, missing.body]).toEqual([
      404,
      { error: 'model not found: The model "zz" does not exist here; expected "a", "b".' },
    ]);
  });

  it('keep_alive says how long a model stays loaded', async () => {
    const { json, models } = several();
    const ask = (keep_alive: unknown) => json('/api/chat', { model: 'a', messages, stream: false, keep_alive });
    await ask('1h30m');
    const [{ expires_at }] = (await json('/api/ps')).body.models;
    expect(Math.abs(Date.parse(expires_at) - Date.now() - 5_400_000)).toBeLessThan(60_000);
    await ask(-1);
    expect((await json('/api/ps')).body.models[0].expires_at).toBe('9999-12-31T23:59:59Z');
    await ask(0);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(models.list()[0].status).toBe('unloaded');
    await ask('5m');
    expect((await json('/api/generate', { model: 'a', keep_alive: 0 })).body).toMatchObject({
      model: 'a',
      response: '',
      done: true,
      done_reason: 'unload',
    });
    expect(models.list()[0].status).toBe('unloaded');
    for (const bad of ['soon', {}, '1x', '-', '1h'.repeat(60)]) expect((await ask(bad)).status, String(bad)).toBe(400);
  });

  it('clients may change nothing unless the library allows it', async () => {
    const { send, json } = several();
    const refused = { error: 'Clients may not change the models of this server; start it with --models-pull.' };
    expect(await json('/api/pull', { model: 'hf.co/a/b' })).toMatchObject({ status: 501, body: refused });
    expect(await json('/api/copy', { source: 'a', destination: 'c' })).toMatchObject({ status: 501, body: refused });
    expect(await json('/api/delete', { model: 'a' }, { method: 'DELETE' })).toMatchObject({ status: 501, body: refused });
    for (const path of ['/api/create', '/api/push', '/api/blobs/sha256:00']) {
      const { status, body } = await json(path, { model: 'a' });
      expect([path, status, typeof body.error]).toEqual([path, 501, 'string']);
    }
    expect((await send('/api/blobs/sha256:00', undefined, { method: 'HEAD' })).status).toBe(501);
  });

  it('downloads, copies and deletes by a library that allows it', async () => {
    const log: unknown[] = [];
    const library: ModelLibrary = {
      ...describes,
      async pull(name, signal, onProgress) {
        log.push(['pull', name, signal.aborted]);
        if (name === 'hf.co/no/no') throw new Error('secret');
        onProgress({ file: 'f.gguf', sha256: 'ab'.repeat(32), loaded: 1, total: 10 });
        await new Promise((resolve) => setTimeout(resolve, 150));
        onProgress({ file: 'f.gguf', sha256: 'ab'.repeat(32), loaded: 10, total: 10 });
        return entry('hf.co/x/y:Q8_0');
      },
      copy: (id, name) => (log.push(['copy', id, name]), Promise.resolve(entry(name))),
      async remove(id, release) {
        await release();
        log.push(['remove', id]);
      },
    };
    const { json, lines, models } = several(library);
    const file = { status: `pulling ${'ab'.repeat(6)}`, digest: `sha256:${'ab'.repeat(32)}`, total: 10 };
    expect(await lines('/api/pull', { model: 'hf.co/x/y' })).toEqual([
      { status: 'pulling manifest' },
      { ...file, completed: 1 },
      { ...file, completed: 10 },
      { status: 'verifying sha256 digest' },
      { status: 'writing manifest' },
      { status: 'success' },
    ]);
    expect((await json('/api/pull', { name: 'hf.co/x/y', stream: false })).body).toEqual({ status: 'success' });
    expect((await lines('/api/pull', { model: 'hf.co/no/no' })).at(-1)).toEqual({ error: 'The server failed.' });
    for (const model of ['hf.co/x/y:Q8_0', 'HF.co/X/y', 'hf:x/y:q8_0', 'huggingface.co/x/y', 'x/y:Q8_0', 'hf.co/x/y:latest'])
      expect([model, (await json('/api/chat', { model, messages, stream: false })).body.message?.content]).toEqual([
        model,
        'hf.co/x/y:Q8_0',
      ]);
    expect((await json('/v1/chat/completions', { model: 'hf.co/x/y', messages })).status).toBe(200);
    expect((await json('/api/copy', { source: 'hf.co/x/y', destination: 'mine:latest' })).status).toBe(200);
    expect((await json('/api/copy', { source: 'a', destination: 'mine' })).status).toBe(409);
    expect((await json('/api/copy', { source: 'zz', destination: 'other' })).status).toBe(404);
    for (const destination of ['', 'a b', 7, undefined]) expect((await json('/api/copy', { source: 'a', destination })).status).toBe(400);
    expect((await json('/api/chat', { model: 'mine', messages, stream: false })).body.message.content).toBe('mine');
    expect((await json('/api/delete', { model: 'mine' }, { method: 'DELETE' })).status).toBe(200);
    expect((await json('/api/delete', { model: 'mine' }, { method: 'DELETE' })).status).toBe(404);
    expect(models.list().map(({ id }) => id)).toEqual(['a', 'b', 'hf.co/x/y:Q8_0']);
    expect(log.slice(-2)).toEqual([
      ['copy', 'hf.co/x/y:Q8_0', 'mine'],
      ['remove', 'mine'],
    ]);
  });

  it('an empty list is allowed where it may grow', async () => {
    const { json } = asking(createHandler(createModels([], { mayGrow: true }), { library: describes }));
    expect((await json('/api/tags')).body).toEqual({ models: [] });
    expect((await json('/v1/models')).body).toMatchObject({ data: [], first_id: null });
    expect((await json('/v1/chat/completions', { messages })).status).toBe(404);
    expect((await json('/api/chat', { model: 'a', messages })).status).toBe(404);
  });
});

describe('the server around it', () => {
  it("GET / is the page for browsers, and Ollama's words for others", async () => {
    const page = '<h1>page</h1>';
    const at = async (handler: ReturnType<typeof serve>, accept?: string, method = 'GET'): Promise<unknown[]> => {
      const response = await handler.send('/', undefined, { method, ...(accept === undefined ? {} : { headers: { accept } }) });
      return [response.status, response.headers.get('vary')?.includes('accept'), await response.text()];
    };
    const withPage = serve(() => '', { page, apiKey: 'k', cors: ['localhost'] });
    for (const accept of ['text/html,application/xhtml+xml,*/*;q=0.8', undefined])
      expect(await at(withPage, accept)).toEqual([200, true, page]);
    for (const accept of ['*/*', 'application/json', 'text/plain'])
      expect(await at(withPage, accept)).toEqual([200, true, 'Ollama is running']);
    const bare = serve(() => '');
    for (const accept of ['text/html', '*/*', undefined]) expect(await at(bare, accept)).toEqual([200, true, 'Ollama is running']);
    expect((await at(bare, '*/*', 'HEAD'))[0]).toBe(200);
  });

  it('keys and hosts are checked', async () => {
    const { json } = serve(() => 'ok', { apiKey: 'k', allowedHosts: ['localhost'] });
    const headers = { host: 'localhost' };
    for (const [path, body] of [['/api/tags'], ['/api/chat', { model: 'm', messages }], ['/api/pull', { model: 'x' }]] as const) {
      const refused = await json(path, body, { headers });
      expect([path, refused.status, typeof refused.body.error]).toEqual([path, 401, 'string']);
    }
    expect((await json('/api/tags', undefined, { headers: { ...headers, authorization: 'Bearer k' } })).status).toBe(200);
    expect((await json('/api/tags', undefined, { headers: { host: 'evil.example', authorization: 'Bearer k' } })).status).toBe(403);
    const page = await json('/api/delete', '{"model":"m"}', {
      method: 'DELETE',
      headers: { ...headers, origin: 'http://evil.example', authorization: 'Bearer k', 'content-type': 'text/plain' },
    });
    expect([page.status, typeof page.body.error]).toEqual([415, 'string']);
  });

  it.each<[path: string, body: object | string, what?: RegExp]>([
    ['/api/chat', '[]'],
    ['/api/chat', 'x'],
    ['/api/chat', {}, /^model is required/],
    ['/api/chat', { model: 7, messages }, /^model is required/],
    ['/api/chat', { model: 'm', messages: 'x' }],
    ['/api/chat', { model: 'm', messages: [null] }],
    ['/api/chat', { model: 'm', messages: [{ role: 'user', content: 7 }] }, /messages\[0\].content/],
    ['/api/chat', { model: 'm', messages: [{ role: 'user', content: 'a', images: ['aGk='] }] }, /without a projector/],
    ['/api/chat', { model: 'm', messages: [{ role: 'assistant', content: '', tool_calls: 'x' }] }],
    ['/api/chat', { model: 'm', messages: [{ role: 'tool', tool_name: {}, content: 'x' }] }],
    ['/api/chat', { model: 'm', messages: [{ role: 'assistant', content: 'a', thinking: {} }] }],
    ['/api/chat', { model: 'm', messages, tools: [7] }],
    ['/api/chat', { model: 'm', messages, stream: 'yes' }],
    ['/api/chat', { model: 'm', messages, options: [] }],
    ['/api/chat', { model: 'm', messages, options: { temperature: 'hot' } }],
    ['/api/chat', { model: 'm', messages, options: { tfs_z: 0.5 } }, /options.tfs_z/],
    ['/api/chat', { model: 'm', messages, options: { num_predict: 1.5 } }],
    ['/api/chat', { model: 'm', messages, options: { num_ctx: 'a' } }],
    ['/api/chat', { model: 'm', messages, options: { penalize_newline: false } }],
    ['/api/chat', { model: 'm', messages, options: { grammar: 'root ::= "a"' }, format: 'json' }],
    ['/api/chat', { model: 'm', messages, format: 'xml' }, /^'format' is "xml"; expected "json" or a JSON schema/],
    ['/api/chat', { model: 'm', messages, think: 7 }],
    ['/api/chat', { model: 'm', messages, keep_alive: 'x', stream: false }],
    ['/api/chat', { model: 'm', messages, top_logprobs: 21 }],
    ['/api/generate', { model: 'm', prompt: 7 }],
    ['/api/generate', { model: 'm', prompt: 'a', images: ['aGk='] }, /without a projector/],
    ['/api/generate', { model: 'm', prompt: 'a', context: ['x'] }],
    ['/api/generate', { model: 'm', prompt: 'a', context: [-1] }],
    ['/api/generate', { model: 'm', prompt: 'a', context: Array.from({ length: 5000 }, () => 1) }],
    ['/api/embed', { model: 'm', input: [7] }],
    ['/api/embed', { model: 'm', input: 'a', dimensions: 99 }],
    ['/api/embed', { model: 'm', input: ['a', ''] }],
    ['/api/embeddings', { model: 'm', prompt: [] }],
    ['/api/show', { model: 'm', verbose: 7 }],
  ])('a body that is wrong is a 400 with an error: %s, %#', async (path, body, what = /./) => {
    const { json } = serve(() => 'ok');
    const { status, body: answer } = await json(path, body);
    expect([status, Object.keys(answer as object)]).toEqual([400, ['error']]);
    expect(answer.error).toMatch(what);
  });
});
