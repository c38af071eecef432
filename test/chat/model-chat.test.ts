/** model.chat() with the model that ships: it knows nothing but stories, yet renders, streams, calls tools by grammar and reuses its cache. */
import { loadModel, type ChatEvent, type ChatMessage, type Model } from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { failure, shippedModel } from '../support.ts';

/** Of few tokens, and it writes contents as they are. The context is longer than the model was trained for: the tools' prompt needs it. */
const plain = "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
let model: Model;
beforeAll(async () => void (model = await loadModel(shippedModel, { threads: 2, warmUp: false, contextLength: 1024, chatTemplate: plain })));
afterAll(() => model.dispose());

const greedy = { temperature: 0, maxTokens: 24 } as const;
const first: ChatMessage[] = [{ role: 'system', content: 'You tell stories.' }, { role: 'user', content: 'Tell me about a little dog.' }];

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
  const tool = (name: string, properties: object) => ({ type: 'function' as const, function: { name, parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false } } });
  const tools = [tool('weather', { city: { enum: ['Oslo', 'Rome'] } }), tool('add', { a: { type: 'integer', minimum: 0, maximum: 99 } })];

  it.each(['required', { name: 'add' }] as const)('toolChoice %j makes a call that fits its schema', async (toolChoice) => {
    const chat = model.chat(first, { ...greedy, maxTokens: 100, tools, toolChoice });
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
    const { toolCalls, timings, ids } = await model.chat(first, { ...greedy, maxTokens: 100, tools, toolChoice: 'required', parallelToolCalls: false }).result();
    expect(toolCalls).toHaveLength(1);
    expect(timings.predictedTokens).toBe(ids.length);
  });

  it('responseFormat: the content is JSON of the schema', async () => {
    const { content } = await model.chat(first, { ...greedy, maxTokens: 60, responseFormat: { type: 'json_schema', schema: { type: 'object', properties: { n: { type: 'integer', maximum: 9, minimum: 0 } }, required: ['n'], additionalProperties: false } } }).result();
    expect(JSON.parse(content)).toEqual({ n: expect.any(Number) as number });
  });
});

describe('what is wrong has a code, and the model goes on', () => {
  it.each<[string, () => Promise<unknown>, string]>([
    ['a template that does not parse', async () => model.chat(first, { chatTemplate: '{% if %}' }).result(), 'ERR_CHAT_TEMPLATE'],
    ['a template that throws', async () => model.chat(first, { chatTemplate: "{% if 'little dog' in messages[-1].content %}{{ raise_exception('no dogs') }}{% endif %}{{ messages[-1].content }}" }).result(), 'ERR_CHAT_TEMPLATE'],
    ['a text in place of messages', async () => model.chat('hello' as never).result(), 'ERR_INVALID_ARGUMENT'],
    ['no message in the list', async () => model.chat([null] as never).result(), 'ERR_INVALID_ARGUMENT'],
    ['a message without a role', async () => model.chat([{ content: 'x' }] as never).result(), 'ERR_INVALID_ARGUMENT'],
    ['content that is a number', async () => model.chat([{ role: 'user', content: 5 }] as never).result(), 'ERR_INVALID_ARGUMENT'],
    ['tools that are no list', async () => model.chat(first, { tools: {} as never }).result(), 'ERR_INVALID_ARGUMENT'],
    ['a tool without a name', async () => model.chat(first, { tools: [{ type: 'function' }] as never }).result(), 'ERR_INVALID_ARGUMENT'],
    ['an image', async () => model.chat([{ role: 'user', content: [{ type: 'image_url' }] }]).result(), 'ERR_INVALID_ARGUMENT'],
    ['a tool that is not there', async () => model.chat(first, { toolChoice: { name: 'x' } }).result(), 'ERR_INVALID_ARGUMENT'],
    ['a conversation longer than the context', async () => model.chat([{ role: 'user', content: 'the dog '.repeat(1000) }]).result(), 'ERR_CONTEXT_FULL'],
    ['a bad grammar', async () => model.chat(first, { grammar: 'root ::= "' }).result(), 'ERR_GRAMMAR'],
  ])('%s', async (_, run, code) => {
    expect((await failure(run)).code).toBe(code);
    expect((await model.chat(first, { ...greedy, maxTokens: 3 }).result()).ids).toHaveLength(3);
  });

  it('an abort ends the answer with its reason; leaving the loop frees the place', async () => {
    const controller = new AbortController();
    const chat = model.chat(first, { ...greedy, maxTokens: 200, ignoreEos: true, signal: controller.signal });
    const reason = new Error('enough');
    expect((await failure(async () => { for await (const _ of chat) controller.abort(reason); })).error).toBe(reason);
    for await (const _ of model.chat(first, greedy)) break;
    expect((await model.chat(first, greedy).result()).ids).toHaveLength(24);
  });

  it('iterating twice', async () => {
    const chat = model.chat(first, greedy);
    await chat.result();
    expect((await failure(async () => { for await (const _ of chat); })).code).toBe('ERR_INVALID_ARGUMENT');
  });
});

it('the model tells what backends ask: name, template, texts of its special tokens', async () => {
  expect([model.bos, model.eos, model.parallel, model.chatTemplate.source]).toEqual(['<s>', '</s>', 1, plain]);
  expect(new TextDecoder().decode(model.tokenBytes(model.state.tokenizer.special.bos!))).toBe('<s>');
  const other = await loadModel(shippedModel, { warmUp: false, threads: 1, name: 'mine' });
  expect([other.name, other.chatTemplate.warnings.length]).toEqual(['mine', 1]);
  await other.dispose();
});
