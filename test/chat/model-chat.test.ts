/**
 * model.chat() with the shipped model. It only knows stories, but it renders, streams, calls tools
 * by grammar and reuses its cache.
 */
import { loadModel, type ChatEvent, type ChatMessage, type Model, type ModelChatOptions } from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { failure, shippedModel } from '../support.ts';

/**
 * A template with few tokens that writes contents unchanged. The context is longer than the model
 * was trained for, because the tools' prompt needs it.
 */
const plain = "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
let model: Model;
beforeAll(
  async () => void (model = await loadModel(shippedModel, { threads: 2, warmUp: false, contextLength: 1024, chatTemplate: plain })),
);
afterAll(() => model.dispose());

const greedy = { temperature: 0, maxTokens: 24 } as const;
const first: ChatMessage[] = [
  { role: 'system', content: 'You tell stories.' },
  { role: 'user', content: 'Tell me about a little dog.' },
];

it('streams events whose sum is the result', async () => {
  const chat = model.chat(first, greedy);
  const events: ChatEvent[] = [];
  for await (const event of chat) events.push(event);
  const result = await chat.result();
  expect(events.map((e) => (e.type === 'content' ? e.delta : '')).join('')).toBe(result.content);
  expect(result.content.length).toBeGreaterThan(10);
  expect(result).toMatchObject({ reasoning: '', toolCalls: [], finishReason: 'length', timings: { predictedTokens: 24 } });
  expect(result.ids).toHaveLength(24);
  expect(model.detokenize(result.promptIds.slice(1))).toContain('u:Tell me about a little dog.\na:');
});

it('logprobs: with the events as they come, one for each token in the result', async () => {
  const chat = model.chat(first, { ...greedy, logprobs: 2 });
  const told = [];
  for await (const event of chat) if ('logprobs' in event) told.push(...(event.logprobs ?? []));
  const { ids, logprobs } = await chat.result();
  expect(logprobs?.map(({ id }) => id)).toEqual(ids);
  expect(logprobs!.every(({ id, top }) => top.length === 2 && top[0].id === id)).toBe(true);
  expect(logprobs!.slice(0, told.length)).toEqual(told);
  expect(told.length).toBeGreaterThan(20);
  expect(await model.chat(first, greedy).result()).not.toHaveProperty('logprobs');
});

it('content of a format comes with its value so far, which is parsed when it is read, with logprobs too', async () => {
  const schema = {
    type: 'object',
    properties: { dogs: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 9 }, minItems: 2, maxItems: 2 } },
    required: ['dogs'],
  };
  const chat = model.chat(first, { ...greedy, maxTokens: 100, logprobs: 1, responseFormat: { type: 'json_schema', schema } });
  const events: ChatEvent[] = [];
  for await (const event of chat) events.push(event);
  const { content } = await chat.result();
  const getters = events.map((event) => Object.getOwnPropertyDescriptor(event, 'partial')?.get !== undefined);
  expect(getters).toEqual(events.map(() => true));
  expect((events.at(-1) as { partial: unknown }).partial).toEqual(JSON.parse(content));
  expect(events.some((event) => 'logprobs' in event)).toBe(true);
});

describe('a budget of reasoning', () => {
  let thinker: Model;
  const chatTemplate = `${plain.replace('a:', 'a:<think>')}{# </think> #}`;
  const speculation = { type: ['ngram-simple'], ngramSimple: { sizeN: 1, minHits: 1 } } as const;
  beforeAll(
    async () =>
      void (thinker = await loadModel(shippedModel, { threads: 2, warmUp: false, contextLength: 1024, chatTemplate, speculation })),
  );
  afterAll(() => thinker.dispose());
  const ask = (options: ModelChatOptions) => thinker.chat(first, { ...greedy, maxTokens: 40, ...options }).result();

  it.each([1, 7])('of %i tokens ends it, and the answer goes on', async (reasoningBudget) => {
    const free = await ask({});
    expect([free.content, free.reasoning === '']).toEqual(['', false]);
    const { ids, reasoning, content } = await ask({ reasoningBudget });
    const closing = model.tokenize('</think>', { addSpecial: false });
    expect(ids.slice(0, reasoningBudget)).toEqual(free.ids.slice(0, reasoningBudget));
    expect(ids.slice(reasoningBudget, reasoningBudget + closing.length)).toEqual(closing);
    expect(model.detokenize(ids.slice(0, reasoningBudget)).trim()).toBe(reasoning);
    expect(content.length).toBeGreaterThan(10);
    expect(await ask({ reasoningBudget, speculation: false }).then((r) => r.ids)).toEqual(ids);
  });

  it('of none: nothing is reasoned; a last thought may stand there', async () => {
    expect((await ask({ reasoningBudget: 0 })).reasoning).toBe('');
    const told = await ask({ reasoningBudget: 3, reasoningBudgetMessage: ' That is enough.' });
    expect(told.reasoning).toMatch(/ That is enough\.$/);
  });

  const schema = { type: 'object', properties: { n: { enum: [7] } }, required: ['n'], additionalProperties: false };
  it('a format begins after the reasoning that the template opens', async () => {
    const free = await ask({});
    const { ids, reasoning, content } = await ask({ reasoningBudget: 5, maxTokens: 200, responseFormat: { type: 'json_schema', schema } });
    expect(ids.slice(0, 5)).toEqual(free.ids.slice(0, 5));
    expect(reasoning).not.toBe('');
    expect(JSON.parse(content)).toEqual({ n: 7 });
  });

  it('a required call begins after it, too', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'pick', parameters: schema } }];
    const answer = await ask({ reasoningBudget: 5, tools, toolChoice: 'required', maxTokens: 300 });
    expect(answer).toMatchObject({ content: '', finishReason: 'tool_calls', toolCalls: [{ name: 'pick' }] });
    expect(answer.reasoning).not.toBe('');
    expect(JSON.parse(answer.toolCalls[0].arguments)).toEqual({ n: 7 });
  });

  it.each([-2, 0.5, 'x'])('%j is refused', async (reasoningBudget) => {
    expect((await failure(ask({ reasoningBudget } as never))).message).toMatch(/reasoningBudget is .*; expected a whole number from -1/);
  });
});

it('a next turn computes its new tokens only, and answers as a fresh model does, bit for bit', async () => {
  let messages = first;
  for (const question of ['And then?', 'Why?']) {
    const { content } = await model.chat(messages, greedy).result();
    messages = [...messages, { role: 'assistant', content }, { role: 'user', content: question }];
    const options = { ...greedy, temperature: 0.9, seed: 3 };
    const next = await model.chat(messages, options).result();
    expect(next.timings.promptTokens, `of ${next.promptIds.length}`).toBeLessThan(16);
    expect(next.promptIds.length).toBeGreaterThan(50);
    const other = await loadModel(shippedModel, { threads: 1, warmUp: false, contextLength: 1024, chatTemplate: plain });
    const fresh = await other.chat(messages, options).result();
    await other.dispose();
    expect(fresh.timings.promptTokens).toBe(next.promptIds.length);
    expect(fresh.ids).toEqual(next.ids);
  }
});

describe('tools', () => {
  const tool = (name: string, properties: object) => ({
    type: 'function' as const,
    function: { name, parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false } },
  });
  const tools = [tool('weather', { city: { enum: ['Oslo', 'Rome'] } }), tool('add', { a: { type: 'integer', minimum: 0, maximum: 99 } })];

  it.each(['required', { name: 'add' }] as const)('toolChoice %j makes a call that fits its schema', async (toolChoice) => {
    const chat = model.chat(first, { ...greedy, maxTokens: 200, tools, toolChoice });
    const calls: ChatEvent[] = [];
    for await (const event of chat) if (event.type === 'toolCall') calls.push(event);
    const { toolCalls, content, finishReason } = await chat.result();
    expect([toolCalls.length, calls.length, content, finishReason]).toEqual([1, 1, '', 'tool_calls']);
    const given = JSON.parse(toolCalls[0].arguments) as { city?: string; a?: number };
    if (toolCalls[0].name === 'add') expect(given.a).toBeLessThan(100);
    else expect(['Oslo', 'Rome']).toContain(given.city);
    if (typeof toolChoice === 'object') expect(toolCalls[0].name).toBe('add');
  });

  it('one call at most: the answer ends after it, with its tokens and timings', async () => {
    const { toolCalls, timings, ids } = await model
      .chat(first, { ...greedy, maxTokens: 200, tools, toolChoice: 'required', parallelToolCalls: false })
      .result();
    expect(toolCalls).toHaveLength(1);
    expect(timings.predictedTokens).toBe(ids.length);
  });

  it('responseFormat: the content is JSON of the schema', async () => {
    const { content } = await model
      .chat(first, {
        ...greedy,
        maxTokens: 60,
        responseFormat: {
          type: 'json_schema',
          schema: {
            type: 'object',
            properties: { n: { type: 'integer', maximum: 9, minimum: 0 } },
            required: ['n'],
            additionalProperties: false,
          },
        },
      })
      .result();
    expect(JSON.parse(content)).toEqual({ n: expect.any(Number) as number });
  });
});

describe('what is wrong has a code, and the model goes on', () => {
  it.each<[string, () => Promise<unknown>, string]>([
    ['a template that does not parse', async () => model.chat(first, { chatTemplate: '{% if %}' }).result(), 'ERR_CHAT_TEMPLATE'],
    [
      'a template that throws',
      async () =>
        model
          .chat(first, {
            chatTemplate:
              "{% if 'little dog' in messages[-1].content %}{{ raise_exception('no dogs') }}{% endif %}{{ messages[-1].content }}",
          })
          .result(),
      'ERR_CHAT_TEMPLATE',
    ],
    ['a text in place of messages', async () => model.chat('hello' as never).result(), 'ERR_INVALID_ARGUMENT'],
    ['no message in the list', async () => model.chat([null] as never).result(), 'ERR_INVALID_ARGUMENT'],
    ['a message without a role', async () => model.chat([{ content: 'x' }] as never).result(), 'ERR_INVALID_ARGUMENT'],
    ['content that is a number', async () => model.chat([{ role: 'user', content: 5 }] as never).result(), 'ERR_INVALID_ARGUMENT'],
    ['tools that are none', async () => model.chat(first, { tools: 5 as never }).result(), 'ERR_INVALID_ARGUMENT'],
    ['a tool without a name', async () => model.chat(first, { tools: [{ type: 'function' }] as never }).result(), 'ERR_INVALID_ARGUMENT'],
    ['an image', async () => model.chat([{ role: 'user', content: [{ type: 'image_url' }] }]).result(), 'ERR_INVALID_ARGUMENT'],
    ['a tool that is not there', async () => model.chat(first, { toolChoice: { name: 'x' } }).result(), 'ERR_INVALID_ARGUMENT'],
    [
      'a conversation longer than the context',
      async () => model.chat([{ role: 'user', content: 'the dog '.repeat(1000) }]).result(),
      'ERR_CONTEXT_FULL',
    ],
    ['a bad grammar', async () => model.chat(first, { grammar: 'root ::= "' }).result(), 'ERR_GRAMMAR'],
  ])('%s', async (_, run, code) => {
    expect((await failure(run)).code).toBe(code);
    expect((await model.chat(first, { ...greedy, maxTokens: 3 }).result()).ids).toHaveLength(3);
  });

  it('an abort ends the answer with its reason; leaving the loop frees the place', async () => {
    const controller = new AbortController();
    const chat = model.chat(first, { ...greedy, maxTokens: 200, ignoreEos: true, signal: controller.signal });
    const reason = new Error('enough');
    expect(
      (
        await failure(async () => {
          for await (const _ of chat) controller.abort(reason);
        })
      ).error,
    ).toBe(reason);
    for await (const _ of model.chat(first, greedy)) break;
    expect((await model.chat(first, greedy).result()).ids).toHaveLength(24);
  });

  it('iterating twice', async () => {
    const chat = model.chat(first, greedy);
    await chat.result();
    expect(
      (
        await failure(async () => {
          for await (const _ of chat);
        })
      ).code,
    ).toBe('ERR_INVALID_ARGUMENT');
  });
});

it('the model tells what backends ask: name, template, texts of its special tokens', async () => {
  expect([model.bos, model.eos, model.parallel, model.chatTemplate.source]).toEqual(['<s>', '</s>', 1, plain]);
  expect(new TextDecoder().decode(model.tokenBytes(model.internals.tokenizer.special.bos!))).toBe('<s>');
  const other = await loadModel(shippedModel, { warmUp: false, threads: 1, name: 'mine' });
  expect([other.name, other.chatTemplate.warnings.length]).toEqual(['mine', 1]);
  await other.dispose();
});

describe('tools that are called', () => {
  const parameters = {
    type: 'object',
    properties: { a: { type: 'integer', minimum: 0, maximum: 99 } },
    required: ['a'],
    additionalProperties: false,
  };
  const options = { ...greedy, maxTokens: 120, toolChoice: 'required' } as const;
  const calledWith: unknown[] = [];
  const add = {
    description: 'Adds one.',
    parameters,
    execute: ({ a }: { a: number }, { id, name }: { id: string; name: string }) => {
      calledWith.push([a, typeof id, name]);
      return { sum: a + 1 };
    },
  };

  it('the model gets the result and goes on; events, messages and timings tell', async () => {
    calledWith.length = 0;
    const chat = model.chat(first, { ...options, tools: { add } });
    const events: ChatEvent[] = [];
    for await (const event of chat) events.push(event);
    const result = await chat.result();
    const call = events.find((e) => e.type === 'toolCall')!.call;
    const done = events.find((e) => e.type === 'toolResult')!;
    const { a } = JSON.parse(call.arguments) as { a: number };
    expect(calledWith).toEqual([[a, 'string', 'add']]);
    expect(done).toEqual({ type: 'toolResult', call, text: JSON.stringify({ sum: a + 1 }), failed: false });
    expect([result.steps, result.toolCalls, result.finishReason]).toEqual([2, [], expect.stringMatching(/^(stop|length)$/)]);
    expect(result.messages).toEqual([
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ id: call.id, type: 'function', function: { name: 'add', arguments: call.arguments } }],
      },
      { role: 'tool', tool_call_id: call.id, name: 'add', content: JSON.stringify({ sum: a + 1 }) },
      { role: 'assistant', content: result.content },
    ]);
    expect(model.detokenize(result.promptIds.slice(1))).toContain(`{"sum":${a + 1}}`);
    expect(result.timings.predictedTokens).toBeGreaterThan(result.ids.length);
    const next = await model.chat([...first, ...result.messages, { role: 'user', content: 'And then?' }], greedy).result();
    expect(next.messages).toHaveLength(1);
  });

  it('what a tool throws is told to the model; an abort is not', async () => {
    const broken = { ...add, execute: () => Promise.reject(new Error('no such number')) };
    const { messages } = await model.chat(first, { ...options, tools: { broken } }).result();
    expect(messages[1].content).toBe('Error: no such number');
    const stopping = new AbortController();
    const reason = new Error('enough');
    const tools = { add: { ...add, execute: () => stopping.abort(reason) } };
    expect((await failure(model.chat(first, { ...options, tools, signal: stopping.signal }).result())).error).toBe(reason);
  });

  it('maxSteps, and a tool without a function, end with the calls', async () => {
    calledWith.length = 0;
    const { execute: _, ...told } = add;
    for (const more of [{ tools: { add }, maxSteps: 1 }, { tools: { told } }] as ModelChatOptions[]) {
      const { finishReason, toolCalls, steps } = await model.chat(first, { ...options, ...more }).result();
      expect([finishReason, toolCalls.length, steps, toolCalls[0].id.length]).toEqual(['tool_calls', 1, 1, 9]);
    }
    expect(calledWith).toEqual([]);
  });

  it.each<[object, RegExp]>([
    [{ tools: { add: 5 } }, /the tool "add": the options are 5; expected an object { description, parameters, execute }/],
    [{ tools: { add: { execute: 'x' } } }, /the tool "add": execute is "x"; expected a function/],
    [{ tools: { add: { parameters: 'x' } } }, /the tool "add": parameters is "x"; expected a JSON schema/],
    [{ tools: 5 }, /tools is 5/],
    [{ tool: {} }, /there is no option "tool"; did you mean tools\?/],
    [{ maxSteps: 0 }, /maxSteps is 0/],
    [{ reasoning: 'no' }, /reasoning is "no"/],
    [{ signal: {} }, /signal is an object/],
    [{ max_tokens: 5 }, /did you mean maxTokens\?/],
  ])('%j is refused', async (wrong, says) => {
    const { code, message } = await failure(model.chat(first, wrong).result());
    expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(says)]);
  });
});

describe('a conversation that outgrows the context', () => {
  const turn = (i: number): ChatMessage[] => [
    { role: 'user', content: `Question ${i}: ${'why the dog and the cat and the bird? '.repeat(6)}` },
    { role: 'assistant', content: `Answer ${i}.` },
  ];
  const long = [first[0], ...Array.from({ length: 40 }, (_, i) => turn(i)).flat(), { role: 'user', content: 'The last question.' }];

  it('is refused, or loses as few turns as will do: the oldest, or those behind the first', async () => {
    expect((await failure(model.chat(long, greedy).result())).code).toBe('ERR_CONTEXT_FULL');
    for (const onContextFull of ['shift', 'truncate-middle'] as const) {
      const { promptIds, leftOut, finishReason } = await model.chat(long, { ...greedy, onContextFull }).result();
      const prompt = model.detokenize(promptIds.slice(1));
      expect([leftOut % 2, finishReason]).toEqual([0, 'length']);
      expect(prompt).toContain('You tell stories.');
      expect(prompt).toContain('The last question.');
      expect(prompt.includes('Question 0:')).toBe(onContextFull === 'truncate-middle');
      const kept = [...prompt.matchAll(/Question (\d+)/g)].map(([, n]) => Number(n)).filter((n) => n > 0);
      expect(kept, 'the newest ones, without a gap').toEqual(Array.from({ length: kept.length }, (_, i) => 40 - kept.length + i));
      expect(promptIds.length).toBeLessThanOrEqual(1024 - 24);
      const perTurn = model.tokenize(`u:${turn(39)[0].content as string}\na:Answer 39.\n`).length + 8;
      expect(promptIds.length, 'no room for one more').toBeGreaterThan(1024 - 24 - perTurn);
    }
    // The event also reaches a reader that then stops the answer.
    const chat = model.chat(long, { ...greedy, onContextFull: 'shift' });
    for await (const event of chat) {
      expect(event).toEqual({ type: 'leftOut', messages: expect.any(Number) as number });
      break;
    }
    const none = await model.chat(first, { ...greedy, onContextFull: 'shift' }).result();
    expect(none.leftOut).toBe(0);
  });
});
