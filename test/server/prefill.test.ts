/** Conversations that end with the beginning of their answer, in every protocol. */
import Anthropic from '@anthropic-ai/sdk';
import { generateText } from 'ai';
import { describe, expect, it } from 'vitest';
import { languageModel } from '../../src/ai-sdk/language-model.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { createHandler } from '../../src/server/handler.ts';
import { ownTemplates } from '../chat/templates.ts';
import { scriptedBackend } from './backend.ts';

const user = { role: 'user' as const, content: 'Hi' };
const begun = { role: 'assistant' as const, content: 'To the' };
const header = '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n';
const closed = `${header}To the<|im_end|>\n`;
const weather = { name: 'get_weather', description: 'Weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } };
const calls = [{ id: 'abcdefgh1', type: 'function', function: { name: 'get_weather', arguments: '{}' } }];

function serve(options: HandlerOptions = {}, template = ownTemplates.hermes, says = ' end.') {
  let seen = '';
  const backend = scriptedBackend((prompt) => ((seen = prompt), says), { template });
  const handler = createHandler(backend, options);
  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' };
    const response = await handler(new Request(`http://server${path}`, { method: 'POST', headers, body: JSON.stringify(body) }));
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- answers of several protocols
    return { status: response.status, body: (await response.json()) as any, prompt: seen };
  };
  const ask = (body: object, messages: readonly object[] = [user, begun]) => post('/v1/chat/completions', { messages, ...body });
  return { backend, handler, post, ask, seen: () => seen };
}

describe('/v1/chat/completions', () => {
  it("goes on with an assistant's last message, and answers with what is new", async () => {
    const { status, body, prompt } = await serve().ask({});
    expect([status, prompt, body.choices[0].message.content]).toEqual([200, `${header}To the`, ' end.']);
  });

  it('with tools, and calls one after it', async () => {
    const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
    const { body, prompt } = await serve({}, ownTemplates.hermes, ` weather: ${call}`).ask({
      tools: [{ type: 'function', function: weather }],
    });
    expect(prompt).toMatch(/"get_weather"[^]*assistant\nTo the$/);
    expect(body.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: ' weather: ', tool_calls: [{ function: { name: 'get_weather' } }] },
    });
  });

  it.each<[string, string, object]>([
    [
      '<tool_call>\n{"name": "get_weather", ',
      '"arguments": {}}\n</tool_call>',
      { content: null, tool_calls: [{ function: { arguments: '{}' } }] },
    ],
    ['Hm. <tool_', 'call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>', { content: null, tool_calls: [{}] }],
    ['<tool_call>\n{"x": 1, ', '"y": 2}\n</tool_call>', { content: '"y": 2}\n</tool_call>' }],
    ['Hm. <tool_', 'box> is red', { content: 'box> is red' }],
    ['<think>\nHm', ', well.\n</think>\n\nYes', { reasoning_content: ', well.', content: 'Yes' }],
  ])('takes %j and %j apart as one answer', async (content, says, message) => {
    const { ask } = serve({}, ownTemplates.hermes, says);
    const { body } = await ask({ tools: [{ type: 'function', function: weather }] }, [user, { role: 'assistant', content }]);
    expect(body.choices[0].message).toMatchObject(message);
  });

  it('where the template opens the reasoning of its answers, that is over', async () => {
    const { body, prompt } = await serve({}, ownTemplates.qwen3Coder).ask({});
    expect(prompt).toMatch(/<think>\n\n<\/think>\n\nTo the$/);
    expect(body.choices[0].message).toMatchObject({ content: ' end.' });
    expect(body.choices[0].message).not.toHaveProperty('reasoning_content');
  });

  it('in the channel of the content', async () =>
    expect((await serve({}, ownTemplates.harmony).ask({})).prompt).toMatch(/<\|start\|>assistant<\|channel\|>final<\|message\|>To the$/));

  it.each([
    ['continue_final_message', { continue_final_message: false }, {}, `${closed}<|im_start|>assistant\n`],
    ['add_generation_prompt: a new header', { add_generation_prompt: true }, {}, `${closed}<|im_start|>assistant\n`],
    ['add_generation_prompt: none', { continue_final_message: false, add_generation_prompt: false }, {}, closed],
    ['add_generation_prompt: none, of a server without prefill', { add_generation_prompt: false }, { prefillAssistant: false }, closed],
    ['--no-prefill-assistant', {}, { prefillAssistant: false }, `${closed}<|im_start|>assistant\n`],
    ['a request against --no-prefill-assistant', { continue_final_message: true }, { prefillAssistant: false }, `${header}To the`],
    ['continue_final_message: "content"', { continue_final_message: 'content' }, {}, `${header}To the`],
  ])('%s', async (_, body, options, prompt) => {
    const server = serve(options);
    expect((await server.ask(body)).prompt).toBe(prompt);
    expect((await server.post('/apply-template', { messages: [user, begun], ...body })).body).toEqual({ prompt });
  });

  it('reasoning goes on, or is over', async () => {
    const thought = { role: 'assistant', content: '', reasoning_content: 'Hm' };
    const { ask } = serve({}, ownTemplates.hermes, ' well.\n</think>\n\nYes');
    const { body } = await ask({ continue_final_message: 'reasoning_content' }, [user, thought]);
    expect(body.choices[0].message).toMatchObject({ reasoning_content: ' well.', content: 'Yes' });
    expect((await ask({ continue_final_message: 'content' }, [user, thought])).prompt).toMatch(/<think>\nHm\n<\/think>\n*$/);
  });

  it.each([
    [{ continue_final_message: true, add_generation_prompt: true }, [user, begun], /expected one of them/],
    [{ continue_final_message: 'reasoning_content' }, [user, { ...begun, reasoning_content: 'Hm' }], /its reasoning is complete/],
    [{ continue_final_message: 'both' }, [user, begun], /expected true, false, "content" or "reasoning_content"/],
    [{ continue_final_message: true }, [user], /it has the role user/],
    [{}, [user, begun, begun], /ends with two messages of the assistant/],
    [{}, [user, { role: 'assistant', content: null, tool_calls: calls }], /ends with calls of tools/],
    [{ add_generation_prompt: 1 }, [user], /'add_generation_prompt' is 1; expected true or false/],
  ])('%j of %j is refused', async (body, messages, message) => {
    const { status, body: answer } = await serve().ask(body, messages);
    expect([status, answer.error.message]).toEqual([400, expect.stringMatching(message)]);
  });
});

describe('other protocols', () => {
  it("Anthropic's: by its client", async () => {
    const { handler, seen } = serve();
    const client = new Anthropic({
      apiKey: 'key',
      baseURL: 'http://server',
      maxRetries: 0,
      fetch: (url, init) => handler(new Request(url, init)),
    });
    const { content } = await client.messages.create({ model: 'm', max_tokens: 9, messages: [user, begun] });
    expect([seen(), content]).toEqual([`${header}To the`, [expect.objectContaining({ text: ' end.' })]]);
    // Anthropic merges consecutive turns of one role.
    await client.messages.create({ model: 'm', max_tokens: 9, messages: [user, begun, { role: 'assistant', content: ' very' }] });
    expect(seen()).toMatch(/assistant\nTo the\s+very$/);
  });

  it("OpenAI's responses", async () => {
    const { body, prompt } = await serve().post('/v1/responses', { input: [user, begun] });
    expect([prompt, body.output[0].content[0].text]).toEqual([`${header}To the`, ' end.']);
    expect((await serve({ prefillAssistant: false }).post('/v1/responses', { input: [user, begun] })).prompt).toBe(
      `${closed}<|im_start|>assistant\n`,
    );
  });

  it('the AI SDK', async () => {
    const { backend, seen } = serve();
    const { text } = await generateText({ model: languageModel(backend), messages: [user, begun] });
    expect([seen(), text]).toEqual([`${header}To the`, ' end.']);
    const providerOptions = { quantlet: { continueFinalMessage: false } };
    await generateText({ model: languageModel(backend), messages: [user, begun], providerOptions });
    expect(seen()).toBe(`${closed}<|im_start|>assistant\n`);
  });
});
