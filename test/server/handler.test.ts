import { createHash } from 'node:crypto';
import { Script as Code } from 'node:vm';
import fc from 'fast-check';
import { parseHTML } from 'linkedom';
import { describe, expect, it } from 'vitest';
import type { GenerationPart } from '../../src/generate/generate.ts';
import { createHandler } from '../../src/server/handler.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { chatPage } from '../../src/server/page.ts';
import { sameSecret } from '../../src/server/http/request.ts';
import { ownTemplates } from '../chat/templates.ts';
import { apart, scriptedBackend, type Script, type ScriptedOptions } from './backend.ts';

const asJson = { 'content-type': 'application/json' };

/** Any JSON value, without types, for tests to look into. */
type Json = ReturnType<typeof JSON.parse>;

function serve(script: Script, options: HandlerOptions & ScriptedOptions = {}) {
  const { scripted, others } = apart(options);
  const backend = scriptedBackend(script, scripted);
  const handler = createHandler(backend, others);
  const send = (path: string, body?: unknown, init: RequestInit = {}): Promise<Response> =>
    handler(
      new Request(`http://server${path}`, {
        ...(body === undefined ? {} : { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) }),
        ...init,
        headers: { ...(body === undefined ? {} : asJson), ...(init.headers as Record<string, string>) },
      }),
    );
  const json = async (path: string, body?: unknown, init?: RequestInit): Promise<{ status: number; body: Json }> => {
    const response = await send(path, body, init);
    return { status: response.status, body: (await response.json()) as Json };
  };
  return { backend, handler, send, json };
}

async function events(response: Response): Promise<Json[]> {
  const lines = (await response.text()).split('\n\n').filter((line) => line !== '');
  expect(lines.every((line) => line.startsWith('data: '))).toBe(true);
  return lines.filter((line) => line !== 'data: [DONE]').map((line) => JSON.parse(line.slice(6)) as Json);
}

/** Calls from their pieces in a stream: the first piece has the name, the others have arguments. */
function joinedCalls(pieces: readonly Json[]): Json[] {
  const calls: Json[] = [];
  for (const piece of pieces)
    if (piece.index === calls.length) calls.push(structuredClone(piece));
    else calls[piece.index].function.arguments += piece.function.arguments;
  return calls;
}

const messages = [
  { role: 'system', content: 'Be kind.' },
  { role: 'user', content: 'Hi' },
];
const tools = [
  {
    type: 'function',
    function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
  },
];
const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
const until = async (holds: () => boolean): Promise<void> => {
  for (let i = 0; i < 400 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(holds()).toBe(true);
};

describe('/v1/chat/completions', () => {
  it('answers with content, usage and the rendered prompt behind it', async () => {
    let seen = '';
    const { json } = serve((prompt) => ((seen = prompt), 'Grüße 👋'));
    const { status, body } = await json('/v1/chat/completions', { messages, temperature: 0, seed: 7, max_tokens: 50 });
    expect(seen).toBe('<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      object: 'chat.completion',
      model: 'scripted',
      choices: [{ index: 0, finish_reason: 'stop', logprobs: null, message: { role: 'assistant', content: 'Grüße 👋' } }],
    });
    expect(body.id).toMatch(/^chatcmpl-\w{24}$/);
    expect(body.usage).toEqual({
      prompt_tokens: seen.length + 1,
      completion_tokens: 12,
      total_tokens: seen.length + 13,
      prompt_tokens_details: { cached_tokens: 1 },
    });
  });

  it('streams the same text in chunks, with usage when asked', async () => {
    const { send } = serve(() => 'Grüße 👋');
    const response = await send('/v1/chat/completions', { messages, stream: true, stream_options: { include_usage: true } });
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const text = await response.clone().text();
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    const chunks = await events(response);
    expect(chunks[0]).toMatchObject({
      object: 'chat.completion.chunk',
      usage: null,
      choices: [{ delta: { role: 'assistant', content: '' }, finish_reason: null }],
    });
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe('Grüße 👋');
    expect(chunks.at(-2)).toMatchObject({ choices: [{ delta: {}, finish_reason: 'stop' }] });
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 12 } });
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
  });

  it('goes on with an answer that has begun, in its content or its reasoning', async () => {
    let seen = '';
    let says = ' end.';
    const { json } = serve((prompt) => ((seen = prompt), says));
    const prompt = '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n';
    const goOn = async (last: object): Promise<Json> => {
      const { status, body } = await json('/v1/chat/completions', {
        messages: [{ role: 'user', content: 'Hi' }, last],
        continue_final_message: true,
      });
      return status === 200 ? body.choices[0].message : body.error;
    };
    expect(await goOn({ role: 'assistant', content: 'To the' })).toMatchObject({ content: ' end.' });
    expect(seen).toBe(`${prompt}To the`);
    expect(await goOn({ role: 'assistant', content: 'So', reasoning_content: 'Hm.' })).toMatchObject({ content: ' end.' });
    // As the template writes reasoning.
    expect(seen).toBe(`${prompt}<think>\nHm.\n</think>\nSo`);
    says = ' or not.</think>Yes.';
    expect(await goOn({ role: 'assistant', content: '', reasoning_content: 'To be' })).toMatchObject({
      content: 'Yes.',
      reasoning_content: ' or not.',
    });
    expect(seen).toBe(`${prompt}<think>\nTo be`);
    expect((await goOn({ role: 'user', content: 'And?' })).message).toMatch(/it has the role user; expected one of the assistant/);
    expect((await goOn({ role: 'assistant', content: null, tool_calls: [{ function: { name: 'f', arguments: '{}' } }] })).message).toMatch(
      /calls tools/,
    );
  });

  it('gives tool calls and reasoning apart, streamed and whole', async () => {
    const { json, send } = serve(() => `<think>\nWeather.\n</think>\n\nOne moment. ${call}`);
    const request = { messages, tools };
    const { body } = await json('/v1/chat/completions', request);
    const message = body.choices[0].message;
    expect(message).toMatchObject({
      content: 'One moment. ',
      reasoning_content: 'Weather.',
      tool_calls: [{ type: 'function', function: { name: 'get_weather', arguments: '{"city": "Oslo"}' } }],
    });
    expect(message.tool_calls[0].id).toMatch(/^\w{9}$/);
    expect(body.choices[0].finish_reason).toBe('tool_calls');
    const chunks = await events(await send('/v1/chat/completions', { ...request, stream: true }));
    expect(chunks.at(-1).timings).toMatchObject({ prompt_ms: 1, predicted_ms: 2 });
    const deltas = chunks.map((chunk) => chunk.choices[0]);
    expect(deltas.map(({ delta }) => delta.content ?? '').join('')).toBe('One moment. ');
    expect(deltas.map(({ delta }) => delta.reasoning_content ?? '').join('')).toBe('Weather.');
    const pieces = deltas.flatMap(({ delta }) => delta.tool_calls ?? []);
    expect(pieces.length).toBeGreaterThan(3);
    expect(pieces.slice(1).every((piece: object) => !('id' in piece))).toBe(true);
    expect(joinedCalls(pieces)).toMatchObject([
      { index: 0, type: 'function', function: { name: 'get_weather', arguments: '{"city": "Oslo"}' } },
    ]);
    expect(deltas.at(-1)?.finish_reason).toBe('tool_calls');

    const thinking = serve(() => 'Hm.\n</think>\n\nYes', { template: ownTemplates.thinking });
    expect((await thinking.json('/v1/chat/completions', { messages: [messages[1]] })).body.choices[0].message).toMatchObject({
      content: 'Yes',
      reasoning_content: 'Hm.',
    });
  });

  it.each([
    {
      family: 'harmony',
      answer:
        '<|channel|>analysis<|message|>Both.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}<|call|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Rome"}<|call|>',
    },
    {
      family: 'qwen3Coder',
      answer:
        'Both.\n</think>\n\nI look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>',
    },
  ])('$family: reasoning, content and two calls, streamed and whole, and back into the prompt', async ({ family, answer }) => {
    const prompts: string[] = [];
    const { json, send } = serve((prompt) => (prompts.push(prompt), answer), { template: ownTemplates[family] });
    const cities = ['Oslo', 'Rome'].map((city) => ({
      type: 'function',
      function: { name: 'get_weather', arguments: `{"city": "${city}"}` },
    }));
    const { message, finish_reason } = (await json('/v1/chat/completions', { messages, tools })).body.choices[0];
    expect(message).toMatchObject({ reasoning_content: 'Both.', tool_calls: cities });
    expect([message.content.trim(), finish_reason]).toEqual(['I look.', 'tool_calls']);

    const deltas = (await events(await send('/v1/chat/completions', { messages, tools, stream: true }))).map((chunk) => chunk.choices[0]);
    const said = (key: 'content' | 'reasoning_content') => deltas.map(({ delta }) => delta[key] ?? '').join('');
    expect([said('content'), said('reasoning_content')]).toEqual([message.content, 'Both.']);
    expect(joinedCalls(deltas.flatMap(({ delta }) => delta.tool_calls ?? []))).toMatchObject(
      cities.map((one, index) => ({ index, ...one })),
    );
    expect(deltas.at(-1)?.finish_reason).toBe('tool_calls');

    const results = (message.tool_calls as { id: string }[]).map(({ id }, i) => ({
      role: 'tool',
      tool_call_id: id,
      name: 'get_weather',
      content: `result ${i}`,
    }));
    await json('/v1/chat/completions', { messages: [...messages, message, ...results], tools });
    const asked = prompts.at(-1)!;
    for (const word of ['Oslo', 'Rome', 'result 0', 'result 1']) expect(asked).toContain(word);
    expect(asked.startsWith(prompts[0].replace(/(<think>\n|<\|start\|>assistant)$/, ''))).toBe(true);
  });

  it('writes a conversation with tool results into the prompt', async () => {
    let seen = '';
    const { json } = serve((prompt) => ((seen = prompt), 'Snow.'));
    const history = [
      messages[1],
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'x', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }],
      },
      { role: 'tool', tool_call_id: 'x', content: [{ type: 'text', text: 'snow' }] },
    ];
    expect((await json('/v1/chat/completions', { messages: history, tools })).status).toBe(200);
    expect(seen).toContain('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>');
    expect(seen).toContain('<tool_response>\nsnow\n</tool_response>');
  });

  it('honours tool_choice, response_format and parallel_tool_calls', async () => {
    const { json, backend } = serve((_, { calls }) => (calls && !calls.section ? call : `${call}${call}`));
    const ask = async (more: object) => (await json('/v1/chat/completions', { messages, tools, ...more })).body.choices[0];
    expect((await ask({ tool_choice: 'none' })).message.content).toBe(`${call}${call}`);
    expect((await ask({})).message.tool_calls).toHaveLength(2);
    expect((await ask({ parallel_tool_calls: false })).message.tool_calls).toHaveLength(1);
    const forced = await ask({ tool_choice: { type: 'function', function: { name: 'get_weather' } } });
    expect(forced).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: null, tool_calls: [{ function: { name: 'get_weather', arguments: '{"city": "Oslo"}' } }] },
    });
    expect(backend.seen.options.at(-1)?.calls).toMatchObject({
      tools: [{ name: 'get_weather' }],
      notations: [{ start: '<tool_call>' }],
      several: false,
      section: false,
    });
    await ask({ tool_choice: 'required', parallel_tool_calls: true });
    expect(backend.seen.options.at(-1)?.calls).toMatchObject({ several: true });
    const schema = { type: 'object', properties: { a: { $ref: '#/$defs/n' } }, $defs: { n: { type: 'integer' } } };
    await json('/v1/chat/completions', { messages, response_format: { type: 'json_schema', json_schema: { name: 's', schema } } });
    expect(backend.seen.options.at(-1)?.responseFormat).toEqual({ type: 'json_schema', schema });
    await ask({ response_format: { type: 'json_schema', json_schema: { name: 's', schema } } });
    expect(backend.seen.options.at(-1)?.calls).toMatchObject({
      tools: [{ name: 'get_weather' }],
      section: false,
      answer: { type: 'json_schema', schema },
    });
    await json('/v1/chat/completions', { messages, response_format: { type: 'json_object' } });
    expect(backend.seen.options.at(-1)?.responseFormat).toEqual({ type: 'json_object' });
  });

  it('gives n answers, log probabilities, stops and limits', async () => {
    const { json, send, backend } = serve((_, { seed }) => `answer ${seed}`);
    const { body } = await json('/v1/chat/completions', { messages, n: 3, seed: 5, logprobs: true, top_logprobs: 2, stop: 'r' });
    expect(body.choices.map((choice: Json) => [choice.index, choice.message.content, choice.finish_reason])).toEqual([
      [0, 'answe', 'stop'],
      [1, 'answe', 'stop'],
      [2, 'answe', 'stop'],
    ]);
    expect(backend.seen.options.map(({ seed }) => seed)).toEqual([5, 6, 7]);
    const content = body.choices[0].logprobs.content;
    expect(content).toHaveLength(6);
    expect(content[0]).toEqual({
      token: 'a',
      logprob: -0.25,
      bytes: [97],
      top_logprobs: [
        { token: 'a', logprob: -0.25, bytes: [97] },
        { token: 'b', logprob: -0.5, bytes: [98] },
      ],
    });
    const short = (await json('/v1/chat/completions', { messages, max_completion_tokens: 3 })).body.choices[0];
    expect(short).toMatchObject({ finish_reason: 'length', message: { content: 'ans' } });
    const chunks = await events(await send('/v1/chat/completions', { messages, n: 2, stream: true, logprobs: true }));
    expect(
      [0, 1].map((index) => chunks.filter((chunk) => chunk.choices[0].index === index && chunk.choices[0].finish_reason !== null).length),
    ).toEqual([1, 1]);
    expect(chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? [])).toHaveLength(2 * 'answer undefined'.length);
  });

  it('keeps stop texts at -1 seeds and null fields out of the way', async () => {
    const { json, backend } = serve(() => 'x');
    expect(
      (
        await json('/v1/chat/completions', {
          messages,
          seed: -1,
          stop: null,
          temperature: null,
          tools: null,
          n: null,
          logit_bias: { 5: -100, 6: 2 },
        })
      ).status,
    ).toBe(200);
    expect(backend.seen.options[0].seed).toBeUndefined();
    expect(backend.seen.options[0].logitBias).toEqual({ 5: -Infinity, 6: 2 });
  });
});

describe('/v1/completions', () => {
  it('completes, echoes, takes several prompts and ids', async () => {
    const { json, send } = serve((prompt) => `${prompt.length}!`);
    expect((await json('/v1/completions', { prompt: 'abc' })).body).toMatchObject({
      object: 'text_completion',
      choices: [{ index: 0, text: '3!', finish_reason: 'stop' }],
      usage: { prompt_tokens: 4, completion_tokens: 2 },
    });
    const many = (await json('/v1/completions', { prompt: ['a', 'bcd'], n: 2, echo: true })).body;
    expect(many.choices.map((choice: Json) => [choice.index, choice.text])).toEqual([
      [0, 'a1!'],
      [1, 'a1!'],
      [2, 'bcd3!'],
      [3, 'bcd3!'],
    ]);
    // Each prompt and its cached tokens are counted once, for any n.
    expect(many.usage).toMatchObject({
      prompt_tokens: 2 + 4,
      completion_tokens: 8,
      total_tokens: 14,
      prompt_tokens_details: { cached_tokens: 2 },
    });
    expect((await json('/v1/completions', { prompt: [104, 105] })).body.choices[0].text).toBe('2!');
    const chunks = await events(await send('/v1/completions', { prompt: 'abc', stream: true, echo: true }));
    expect(chunks.map((chunk) => chunk.choices[0].text).join('')).toBe('abc3!');
    expect(chunks.at(-1)?.choices[0].finish_reason).toBe('stop');
    expect((await json('/v1/completions', { prompt: 'abc', max_tokens: 0 })).body.choices[0]).toMatchObject({
      text: '',
      finish_reason: 'length',
    });
  });

  it('lists log probabilities side by side', async () => {
    const { json } = serve(() => 'ab');
    expect((await json('/v1/completions', { prompt: 'x', logprobs: 1 })).body.choices[0].logprobs).toEqual({
      tokens: ['a', 'b'],
      token_logprobs: [-0.25, -0.25],
      top_logprobs: [{ a: -0.25 }, { b: -0.25 }],
      text_offset: [0, 1],
    });
  });
});

describe('/v1/embeddings and /v1/rerank', () => {
  const { json } = serve(() => '');
  it('gives vectors as numbers and as base64', async () => {
    const { body } = await json('/v1/embeddings', { input: ['ab', 'abc'] });
    expect(body).toMatchObject({
      object: 'list',
      usage: { prompt_tokens: 7, total_tokens: 7 },
      data: [{ index: 0, object: 'embedding' }, { index: 1 }],
    });
    expect(body.data[1].embedding).toEqual([...Float32Array.of(3, 3, 4, 0.1)]);
    const packed = (await json('/v1/embeddings', { input: 'ab', encoding_format: 'base64' })).body.data[0].embedding;
    expect(new Float32Array(Uint8Array.from(atob(packed), (char) => char.charCodeAt(0)).buffer)).toEqual(Float32Array.of(2, 3, 4, 0.1));
    const cut = (await json('/v1/embeddings', { input: [[9, 9]], dimensions: 2 })).body.data[0].embedding;
    expect(Math.hypot(...(cut as unknown as number[]))).toBeCloseTo(1, 6);
    expect((await json('/v1/embeddings', { input: 'ab', dimensions: 99 })).status).toBe(400);
    expect((await json('/v1/embeddings', { input: '' })).status).toBe(400);
  });

  it('ranks documents, best first', async () => {
    const { body } = await json('/v1/rerank', { query: 'a', documents: ['b', { text: 'aaa' }, 'ab'], top_n: 2, return_documents: true });
    expect(body.results).toEqual([
      { index: 1, relevance_score: 3, document: { text: 'aaa' } },
      { index: 2, relevance_score: 2, document: { text: 'ab' } },
    ]);
  });

  it("ranks 'texts' in the form of text-embeddings-inference: a list, scores from 0 to 1", async () => {
    const ask = { query: 'a', texts: ['b', 'aaa', 'ab'] };
    const { body } = await json('/rerank', ask);
    expect(body).toEqual([
      { index: 1, score: 1 / (1 + Math.exp(-3)) },
      { index: 2, score: 1 / (1 + Math.exp(-2)) },
      { index: 0, score: 1 / (1 + Math.exp(1)) },
    ]);
    const { body: raw } = await json('/rerank', { ...ask, raw_scores: true, return_text: true, truncate: true });
    expect(raw).toEqual([
      { index: 1, score: 3, text: 'aaa' },
      { index: 2, score: 2, text: 'ab' },
      { index: 0, score: -1, text: 'b' },
    ]);
    const { status, body: wrong } = await json('/rerank', { ...ask, texts: [] });
    expect([status, wrong.error.param]).toEqual([400, 'texts']);
  });

  it('says so where the model cannot', async () => {
    const backend = scriptedBackend(() => '');
    const handler = createHandler({ ...backend, embed: undefined, rank: undefined });
    for (const [path, body] of [
      ['/v1/embeddings', { input: 'a' }],
      ['/v1/rerank', { query: 'a', documents: ['b'] }],
    ] as const) {
      const response = await handler(new Request(`http://server${path}`, { method: 'POST', headers: asJson, body: JSON.stringify(body) }));
      expect(response.status).toBe(501);
    }
  });
});

describe("llama-server's endpoints", () => {
  it('/completion', async () => {
    const { json, send } = serve(() => 'one two three');
    const { body } = await json('/completion', { prompt: 'p', n_predict: 20, n_probs: 1, stop: [' three'], return_tokens: true });
    expect(body).toMatchObject({
      content: 'one two',
      stop: true,
      stop_type: 'word',
      stopping_word: ' three',
      tokens_predicted: 13,
      tokens_evaluated: 2,
      timings: { predicted_n: 13 },
    });
    expect(body.completion_probabilities[0]).toMatchObject({ id: 111, token: 'o', top_logprobs: [{ token: 'o' }] });
    expect(body.tokens).toHaveLength(13);
    expect((await json('/completion', { prompt: 'p', n_predict: 3 })).body).toMatchObject({ content: 'one', stop_type: 'limit' });
    const chunks = await events(await send('/completion', { prompt: 'p', stream: true }));
    expect(chunks.map((chunk) => chunk.content).join('')).toBe('one two three');
    expect(chunks.map((chunk) => chunk.stop).filter(Boolean)).toHaveLength(1);
    expect(chunks.at(-1)).toMatchObject({ stop: true, stop_type: 'eos' });
  });

  it('/tokenize, /detokenize, /apply-template, /props, /health, /v1/models', async () => {
    const { json } = serve(() => '');
    expect((await json('/tokenize', { content: 'hé' })).body).toEqual({ tokens: [104, 195, 169] });
    expect((await json('/tokenize', { content: 'hé', add_special: true, with_pieces: true })).body.tokens).toEqual([
      { id: 256, piece: '<s>' },
      { id: 104, piece: 'h' },
      { id: 195, piece: [195] },
      { id: 169, piece: [169] },
    ]);
    expect((await json('/detokenize', { tokens: [104, 195, 169] })).body).toEqual({ content: 'hé' });
    expect((await json('/apply-template', { messages })).body.prompt).toContain('<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n');
    expect((await json('/props')).body).toMatchObject({
      chat_template_warnings: [],
      total_slots: 4,
      default_generation_settings: { n_ctx: 4096 },
      bos_token: '<s>',
    });
    expect((await json('/health')).body).toEqual({ status: 'ok' });
    expect((await json('/v1/models')).body.data[0]).toMatchObject({ id: 'scripted', object: 'model' });
  });

  it('a page at / where one is given: with a policy that allows its own script and style alone', async () => {
    expect(await (await serve(() => '').send('/')).text()).toBe('Ollama is running');
    const page = await (await serve(() => '', { page: chatPage, apiKey: 'k' }).send('/')).text();
    const { document } = parseHTML(page);
    const policy = document.querySelector('meta[http-equiv=content-security-policy]')?.getAttribute('content') ?? '';
    expect(policy).toMatch(/^default-src 'none'; .*connect-src 'self'/);
    // The policy allows the script and the style by their hashes, and nothing is loaded from
    // elsewhere.
    for (const kind of ['script', 'style']) {
      const [text, ...more] = [...page.matchAll(new RegExp(`<${kind}[^>]*>([\\s\\S]*?)</${kind}>`, 'g'))].map(([, inside]) => inside);
      expect(more, kind).toEqual([]);
      expect(text.length, kind).toBeGreaterThan(1000);
      expect(policy).toContain(`${kind}-src 'sha256-${createHash('sha256').update(text).digest('base64')}'`);
    }
    const addresses = [...document.querySelectorAll('[src], [href]')].map((e) => e.getAttribute('src') ?? e.getAttribute('href'));
    expect(addresses.filter((address) => !address?.startsWith('data:'))).toEqual(['./manifest.webmanifest']);
    // The files of the installable app are served without a key.
    const { send } = serve(() => '', { page: chatPage, apiKey: 'k' });
    const file = async (name: string): Promise<readonly [type: string | null, body: string]> => {
      const answer = await send(`/${name}`);
      expect(answer.status, name).toBe(200);
      return [answer.headers.get('content-type'), await answer.text()];
    };
    const [type, manifest] = await file('manifest.webmanifest');
    const { name, icons } = JSON.parse(manifest) as { name: string; icons: { src: string; type: string }[] };
    expect([type, name]).toEqual(['application/manifest+json', 'quantlet']);
    for (const icon of icons) expect((await file(icon.src.replace('./', '')))[0]).toBe(icon.type);
    const [script, worker] = await file('service-worker.js');
    expect(script).toMatch(/^text\/javascript/);
    expect(() => new Code(worker)).not.toThrow();
    // The service worker recognises the page.
    const mark = /includes\('([^']+)'\)/.exec(worker)![1];
    expect(page).toContain(mark);
    // A custom page brings its own files.
    expect((await serve(() => '', { page: '<p>mine' }).send('/manifest.webmanifest')).status).toBe(404);
  });

  it('/metrics counts', async () => {
    const { json, send } = serve(() => 'abc');
    await json('/v1/completions', { prompt: 'x' });
    await (await send('/v1/completions', { prompt: 'x', stream: true })).text();
    await json('/nothing', {});
    const text = await (await send('/metrics')).text();
    expect(text).toContain('# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total 6\n');
    expect(text).toContain('quantlet:http_requests_total{path="/v1/completions",status="200"} 2');
    expect(text).toContain('quantlet:http_requests_total{path="other",status="404"} 1');
    expect(text).toContain('llamacpp:requests_processing 0');
  });
});

describe('bad requests', () => {
  const cases: readonly (readonly [name: string, path: string, body: unknown, status: number, code: string, param?: string])[] = [
    ['broken JSON', '/v1/completions', '{"prompt": ', 400, 'invalid_json'],
    ['no object', '/v1/completions', '[1]', 400, 'invalid_json'],
    ['no prompt', '/v1/completions', {}, 400, 'invalid_value', 'prompt'],
    ['negative max_tokens', '/v1/completions', { prompt: 'a', max_tokens: -5 }, 400, 'invalid_value', 'max_tokens'],
    ['negative n_predict', '/completion', { prompt: 'a', n_predict: -5 }, 400, 'invalid_value', 'n_predict'],
    ['fraction of a token', '/v1/completions', { prompt: 'a', max_tokens: 1.5 }, 400, 'invalid_value', 'max_tokens'],
    ['temperature as text', '/v1/chat/completions', { messages, temperature: 'hot' }, 400, 'invalid_value', 'temperature'],
    ['too long', '/v1/completions', { prompt: 'word '.repeat(5000) }, 400, 'context_length_exceeded'],
    [
      'too long a chat',
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: 'word '.repeat(5000) }] },
      400,
      'context_length_exceeded',
    ],
    ['no messages', '/v1/chat/completions', { messages: [] }, 400, 'invalid_value', 'messages'],
    ['an unknown role', '/v1/chat/completions', { messages: [{ role: 'king', content: 'a' }] }, 400, 'invalid_value', 'messages[0].role'],
    [
      'content that is a number',
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: 3 }] },
      400,
      'invalid_value',
      'messages[0].content',
    ],
    [
      'an image',
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
      400,
      'invalid_value',
    ],
    ['a bad grammar', '/completion', { prompt: 'a', grammar: 'bad' }, 400, 'invalid_grammar'],
    ['a bad grammar in a stream', '/completion', { prompt: 'a', grammar: 'bad', stream: true }, 400, 'invalid_grammar'],
    [
      'a schema that is missing',
      '/v1/chat/completions',
      { messages, response_format: { type: 'json_schema' } },
      400,
      'invalid_value',
      'response_format',
    ],
    ['an unknown format', '/v1/chat/completions', { messages, response_format: { type: 'xml' } }, 400, 'invalid_value', 'response_format'],
    ['tools that are none', '/v1/chat/completions', { messages, tools: [{ type: 'function' }] }, 400, 'invalid_value', 'tools'],
    [
      'a tool that is not offered',
      '/v1/chat/completions',
      { messages, tools, tool_choice: { type: 'function', function: { name: 'other' } } },
      400,
      'invalid_value',
      'tool_choice',
    ],
    ['a suffix', '/v1/completions', { prompt: 'a', suffix: 'b' }, 400, 'unsupported_parameter', 'suffix'],
    ['an empty stop', '/v1/completions', { prompt: 'a', stop: [''] }, 400, 'invalid_value', 'stop'],
    ['top_logprobs alone', '/v1/chat/completions', { messages, top_logprobs: 2 }, 400, 'invalid_value', 'top_logprobs'],
    ['a stop of a thousand and one', '/v1/completions', { prompt: 'a', stop: ['x'.repeat(1001)] }, 400, 'invalid_value', 'stop'],
    [
      'a bias whose id is an object',
      '/v1/completions',
      { prompt: 'a', logit_bias: [[{ toString: 1 }, 5]] },
      400,
      'invalid_value',
      'logit_bias',
    ],
    ['ids as text', '/detokenize', { tokens: ['a'] }, 400, 'invalid_value', 'tokens'],
    ['an unknown path', '/v1/nothing', {}, 404, 'not_found'],
    ['a path in disguise', '/%2e%2e/etc/passwd', {}, 404, 'not_found'],
    ['the wrong method', '/health', {}, 405, 'method_not_allowed'],
    ['another model', '/v1/completions', { prompt: 'a', model: 'gpt-9' }, 404, 'model_not_found', 'model'],
    ['a body over the limit', '/v1/completions', { prompt: 'a'.repeat(70_000) }, 413, 'body_too_large'],
  ];
  it.each(cases.map(([name, ...rest]) => [name, rest] as const))('%s', async (_, [path, body, status, code, param]) => {
    const { json } = serve(() => 'x', { checkModel: true, maxBodyBytes: 65_536 });
    const got = await json(path, body);
    expect(got.status).toBe(status);
    expect(got.body.error).toMatchObject({
      message: expect.any(String) as string,
      type: expect.any(String) as string,
      code,
      param: param ?? null,
    });
    expect((await json('/health')).status).toBe(200);
  });

  it('a template that throws: its own words', async () => {
    const { json } = serve(() => '', {
      template: "{% if messages | length > 2 %}{{ raise_exception('Only one turn') }}{% endif %}{{ messages[-1].content }}",
    });
    const got = await json('/v1/chat/completions', { messages: [...messages, { role: 'assistant', content: 'Hello' }, messages[1]] });
    expect([got.status, got.body.error.code]).toEqual([400, 'invalid_chat']);
    expect(got.body.error.message).toContain('Only one turn');
  });

  it('any JSON at all: an answer or a 400, never a failure', async () => {
    const { send } = serve(() => 'ok');
    const paths = [
      '/v1/chat/completions',
      '/v1/completions',
      '/completion',
      '/v1/embeddings',
      '/v1/rerank',
      '/tokenize',
      '/detokenize',
      '/apply-template',
    ];
    const fields = [
      'messages',
      'prompt',
      'content',
      'tokens',
      'input',
      'query',
      'documents',
      'stream',
      'max_tokens',
      'n_predict',
      'stop',
      'seed',
      'logprobs',
      'n_probs',
      'tools',
      'tool_choice',
      'response_format',
      'logit_bias',
      'json_schema',
      'chat_template_kwargs',
    ];
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom<unknown>('a', ['a'], [1, 2], messages, tools, 'required', { type: 'json_object' }, [
        { role: 'assistant', tool_calls: [{ function: { name: 'x', arguments: '{' } }] },
      ]),
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...paths), fc.dictionary(fc.constantFrom(...fields), value, { maxKeys: 6 }), async (path, body) => {
        const response = await send(path, { messages, prompt: 'p', ...body });
        expect([200, 400], `${path} ${JSON.stringify(body)}`).toContain(response.status);
        expect(await response.text()).not.toContain('internal_error');
      }),
      { seed: 15, numRuns: 1000 },
    );
  });

  it('a failure of the server says nothing of its inside', async () => {
    const failures: unknown[] = [];
    const { json } = serve(
      () => {
        throw new Error('secret detail');
      },
      { onError: (error) => failures.push(error) },
    );
    const got = await json('/v1/completions', { prompt: 'a' });
    expect(got.status).toBe(500);
    expect(JSON.stringify(got.body)).not.toContain('secret');
    expect(String(failures[0])).toContain('secret detail');
  });

  it('a body over the limit without a length, and one that never ends', async () => {
    const { handler } = serve(() => '', { maxBodyBytes: 1000, bodyTimeoutMs: 500 });
    const endless = (ms: number) => {
      let gone = false;
      const pull = async (c: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
        await new Promise((resolve) => setTimeout(resolve, ms));
        if (!gone) c.enqueue(new Uint8Array(100));
      };
      return new ReadableStream({ pull, cancel: () => void (gone = true) });
    };
    const send = (body: ReadableStream) =>
      handler(new Request('http://server/v1/completions', { method: 'POST', headers: asJson, body, duplex: 'half' } as RequestInit));
    expect((await send(endless(0))).status).toBe(413);
    expect((await send(endless(300))).status).toBe(408);
  });

  it('JSON that is deep, or of very many parts: refused before it is parsed', async () => {
    const { json } = serve(() => 'x');
    for (const body of [
      '['.repeat(2_000_000),
      `{"a":${'{"a":'.repeat(300)}1${'}'.repeat(301)}`,
      `{"prompt": [${'{},'.repeat(60_000)}{}]}`,
      `{"prompt": [${'"x",'.repeat(60_000)}"x"]}`,
      `{"prompt": [${'1,'.repeat(600_000)}1]}`,
    ]) {
      const got = await json('/v1/completions', body);
      expect([got.status, got.body.error.code]).toEqual([413, 'body_too_complex']);
    }
    // Brackets in strings are text, and a body may be cut anywhere.
    const nested = JSON.stringify({ prompt: '[{"'.repeat(1000) + '\\', max_tokens: 1 });
    expect((await json('/v1/completions', nested)).status).toBe(200);
    const bytes = new TextEncoder().encode('{"prompt": "[\\"[é👋", "max_tokens": 1}');
    const one = new ReadableStream({ start: (c) => (bytes.forEach((byte) => c.enqueue(Uint8Array.of(byte))), c.close()) });
    expect((await json('/v1/completions', '', { body: one, duplex: 'half' } as RequestInit)).status).toBe(200);
  });

  it('many messages, much text, many bytes of all requests together', async () => {
    const { json } = serve(() => 'x', { maxMessages: 10, maxTextChars: 2000 });
    const code = async (body: object): Promise<unknown> => (await json('/v1/chat/completions', body)).body.error?.code;
    expect(await code({ messages: Array.from({ length: 11 }, () => messages[1]) })).toBe('too_many_messages');
    expect(await code({ messages: [{ role: 'user', content: 'x'.repeat(2000) }] })).toBe('text_too_large');
    expect(await code({ messages, tools: [{ type: 'function', function: { name: 'f', description: 'x'.repeat(2000) } }] })).toBe(
      'text_too_large',
    );
    expect(await code({ messages })).toBeUndefined();
    // A request takes 1850 bytes, and 64 for each of its 44 elements. The limit fits the bytes of
    // all four requests, but the elements of only two.
    const { send } = serve(() => 'x', { maxBufferedBytes: 13_100, msPerToken: 50 });
    const large = { prompt: 'x', max_tokens: 1, user: ' '.repeat(1800) };
    const all = await Promise.all(Array.from({ length: 4 }, () => send('/v1/completions', large)));
    expect(all.map(({ status }) => status).sort()).toEqual([200, 200, 503, 503]);
    // Answered requests no longer count.
    expect((await send('/v1/completions', large)).status).toBe(200);
  });

  it('hosts other than those allowed', async () => {
    const { send } = serve(() => '', { allowedHosts: ['Mine.example', '[::1]'] });
    const status = async (host: string): Promise<number> => (await send('/health', undefined, { headers: { host } })).status;
    expect(
      await Promise.all(
        ['mine.example', 'mine.example:80', '[::1]:8080', 'evil.example', 'mine.example.evil.example', 'xmine.example', ''].map(status),
      ),
    ).toEqual([200, 200, 200, 403, 403, 403, 403]);
  });

  it('a path of slashes: no time quadratic in its length, which for this one would be minutes', async () => {
    expect((await serve(() => '').send(`/${'/'.repeat(800_000)}x`)).status).toBe(404);
    expect((await serve(() => '').send('/health///')).status).toBe(200);
  });

  it('options that make no sense', () => {
    expect(() =>
      createHandler(
        scriptedBackend(() => ''),
        { apiKey: '' },
      ),
    ).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
    for (const wrong of [{ maxQueue: -1 }, { contextShift: true as never }, { contextShift: { keep: -2 } }, { embdNormalize: 0.5 }])
      expect(() =>
        createHandler(
          scriptedBackend(() => ''),
          wrong,
        ),
      ).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });
});

describe('keys and origins', () => {
  it('lets only known keys in, health excepted', async () => {
    const { json } = serve(() => 'x', { apiKey: ['one', 'two'] });
    const withKey = (key?: string) =>
      json('/v1/completions', { prompt: 'a' }, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } });
    expect((await withKey('two')).status).toBe(200);
    for (const key of [undefined, '', 'on', 'one1', 'TWO']) {
      const got = await withKey(key);
      expect([got.status, got.body.error.code]).toEqual([401, 'invalid_api_key']);
    }
    expect((await json('/health')).status).toBe(200);
    expect((await json('/metrics')).status).toBe(401);
    expect(sameSecret('abc', 'abc') && !sameSecret('abcabc', 'abc') && !sameSecret('ab', 'abc')).toBe(true);
  });

  it('answers other origins only when told to', async () => {
    const ask = async (cors: HandlerOptions['cors'], method = 'POST') => {
      const { handler } = serve(() => 'x', { ...(cors === undefined ? {} : { cors }) });
      return handler(
        new Request('http://server/v1/completions', {
          method,
          headers: { ...asJson, origin: 'https://a.example' },
          ...(method === 'POST' ? { body: '{"prompt": "a"}' } : {}),
        }),
      );
    };
    expect((await ask(undefined)).headers.get('access-control-allow-origin')).toBeNull();
    expect((await ask(true)).headers.get('access-control-allow-origin')).toBe('*');
    expect((await ask(['https://a.example'])).headers.get('access-control-allow-origin')).toBe('https://a.example');
    expect((await ask(['https://b.example'])).headers.get('access-control-allow-origin')).toBeNull();
    const pre = await ask(true, 'OPTIONS');
    expect([pre.status, pre.headers.get('access-control-allow-methods')]).toEqual([204, 'GET, POST, DELETE, OPTIONS']);
    // Headers that the official clients send from pages are allowed.
    const { handler } = serve(() => 'x', { cors: true });
    const names = 'anthropic-version,content-type,x-api-key,x-stainless-os';
    const headers = { origin: 'https://a.example', 'access-control-request-headers': names };
    const asked = await handler(new Request('http://server/v1/messages', { method: 'OPTIONS', headers }));
    expect(asked.headers.get('access-control-allow-headers')).toBe(names);
  });
});

describe('many clients', () => {
  it('runs so many at once, lets so many wait, refuses the rest', async () => {
    const { send, backend } = serve((prompt) => prompt, { parallel: 2, maxQueue: 3, msPerToken: 2 });
    const all = await Promise.all(Array.from({ length: 8 }, (_, i) => send('/v1/completions', { prompt: `prompt ${i}` })));
    expect(all.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 429, 429, 429]);
    for (const [i, response] of all.entries()) {
      if (response.status === 429) expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      else expect(((await response.json()) as Json).choices[0].text).toBe(`prompt ${i}`);
    }
    expect(backend.seen).toMatchObject({ most: 2, now: 0, aborted: 0 });
  });

  it('ends a generation whose first token comes with the end of its client', async () => {
    const { backend } = serve(() => 'abc');
    const client = new AbortController();
    async function* late(parts: AsyncIterable<GenerationPart>): AsyncGenerator<GenerationPart, void> {
      for await (const part of parts) {
        client.abort();
        yield part;
      }
    }
    const handler = createHandler({
      ...backend,
      generate: (ids, options) => {
        const generation = backend.generate(ids, options);
        return { result: () => generation.result(), [Symbol.asyncIterator]: () => late(generation) };
      },
    });
    const response = await handler(
      new Request('http://server/v1/completions', {
        method: 'POST',
        headers: asJson,
        body: JSON.stringify({ prompt: 'a', stream: true }),
        signal: client.signal,
      }),
    );
    // The headers were already sent, so a client that has gone does not see the end.
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toMatchObject({ name: 'AbortError' });
    await until(() => backend.seen.now === 0 && backend.seen.aborted === 1);
  });

  it('stops generating when the client goes, streaming or not, running or waiting', async () => {
    const { send, backend, json } = serve(() => 'x'.repeat(3000), { parallel: 1, msPerToken: 1 });
    const client = new AbortController();
    const running = send('/v1/completions', { prompt: 'a' }, { signal: client.signal });
    await until(() => backend.seen.now === 1);
    const second = new AbortController();
    const waiting = send('/v1/completions', { prompt: 'a' }, { signal: second.signal });
    second.abort();
    expect((await waiting).status).toBe(499);
    client.abort();
    expect((await running).status).toBe(499);
    await until(() => backend.seen.now === 0 && backend.seen.aborted === 1);

    const stream = await send('/v1/chat/completions', { messages, stream: true });
    const reader = stream.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    await until(() => backend.seen.now === 0 && backend.seen.aborted === 2);
    expect((await json('/v1/completions', { prompt: 'a', max_tokens: 2 })).body.choices[0].text).toBe('xx');
  });

  it("keeps a worker's request alive until nothing is computed for it, whole, streamed, given up", async () => {
    const { handler, backend } = serve(() => 'x'.repeat(300), { parallel: 1, msPerToken: 1 });
    let resting = true;
    const beside = {
      waitUntil: (work: Promise<unknown>): void => {
        resting = false;
        void work.then(() => (resting = true));
      },
    };
    const ask = (body: object, given: object = beside) =>
      handler(
        new Request('http://server/v1/completions', {
          method: 'POST',
          headers: asJson,
          body: JSON.stringify({ prompt: 'a', max_tokens: 20, ...body }),
        }),
        given,
      );
    await (await ask({})).text();
    await until(() => resting);
    const stream = await ask({ stream: true });
    expect(resting).toBe(false);
    await stream.text();
    await until(() => resting);
    const left = await ask({ stream: true, max_tokens: 300 });
    await left.body?.cancel();
    await until(() => resting);
    expect(backend.seen).toMatchObject({ now: 0, aborted: 1 });
    await ask({ prompt: 5 });
    await until(() => resting);
    // Deno and Bun pass something else as the second argument.
    expect((await ask({}, { remoteAddr: {} })).status).toBe(200);
  });

  it('long texts are tokenized in turns of their own; whoever has gone is not waited for', async () => {
    const backend = scriptedBackend(() => 'x', { contextLength: 20_000 });
    let steps = 0;
    const handler = createHandler({
      ...backend,
      *encodeWork(text, options) {
        // Each step takes longer than a slice.
        for (let i = 0; i < 20; i++) {
          for (const end = performance.now() + 3; performance.now() < end;);
          steps++;
          yield;
        }
        return backend.tokenize(text, options);
      },
    });
    const ask = (signal?: AbortSignal) =>
      handler(
        new Request('http://server/v1/completions', {
          method: 'POST',
          headers: asJson,
          body: '{"prompt": "some words", "max_tokens": 1}',
          ...(signal ? { signal } : {}),
        }),
      );
    let turns = 0;
    const ticking = setInterval(() => turns++, 0);
    expect((await ask()).status).toBe(200);
    clearInterval(ticking);
    expect([steps, turns >= 10]).toEqual([20, true]);
    const leaving = new AbortController();
    setTimeout(() => leaving.abort(), 1);
    expect((await ask(leaving.signal)).status).toBe(499);
    expect(steps).toBeLessThan(40);
  });

  it("builds the tokenizer's tables before the first request", () => {
    const backend = scriptedBackend(() => '');
    const texts: string[] = [];
    createHandler({ ...backend, tokenize: (text, options) => (texts.push(text), backend.tokenize(text, options)) });
    expect(texts).toHaveLength(1);
  });

  it('gives a place up when the time is over, also to a reader that does not read', async () => {
    const lines: unknown[] = [];
    const { send, backend } = serve(() => 'x'.repeat(100_000), {
      parallel: 1,
      timeoutMs: 150,
      msPerToken: 1,
      contextLength: 200_000,
      onAccess: ({ path, status }) => lines.push([path, status]),
    });
    expect((await send('/v1/completions', { prompt: 'a' })).status).toBe(504);
    const unread = await send('/v1/completions', { prompt: 'a', stream: true });
    await until(() => backend.seen.now === 0);
    expect(await unread.text()).toContain('"code":"timeout"');
    expect(lines).toEqual([
      ['/v1/completions', 504],
      ['/v1/completions', 504],
    ]);
  });

  it('a time limit longer than timers go does not end a request at once', async () => {
    const { send } = serve(() => 'yes', { timeoutMs: 2 ** 31, bodyTimeoutMs: 2 ** 40, msPerToken: 5 });
    expect((await send('/v1/completions', { prompt: 'a' })).status).toBe(200);
  });

  it('pauses a generation whose reader is slow', async () => {
    const { send, backend } = serve(() => 'x'.repeat(20_000), { contextLength: 100_000 });
    let tokens = 0;
    const counting = {
      ...backend,
      generate: (ids: readonly number[], options: object) => {
        const generation = backend.generate(ids, options);
        return {
          result: () => generation.result(),
          async *[Symbol.asyncIterator]() {
            for await (const part of generation) {
              tokens++;
              yield part;
            }
          },
        };
      },
    };
    const response = await createHandler(counting)(
      new Request('http://server/v1/completions', { method: 'POST', headers: asJson, body: JSON.stringify({ prompt: 'a', stream: true }) }),
    );
    await new Promise((resolve) => setTimeout(resolve, 400));
    // 256 KiB of waiting events, each longer than 100 bytes.
    expect(tokens).toBeLessThan(2622);
    await response.body?.cancel();
    await until(() => backend.seen.now === 0);
    expect((await send('/health')).status).toBe(200);
  });
});
