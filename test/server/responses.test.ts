/** /v1/responses through OpenAI's official client, with its fetch connected to the handler. */
import OpenAI from 'openai';
import type { ResponseInput, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { describe, expect, it } from 'vitest';
import { createHandler } from '../../src/server/handler.ts';
import { breaking, scriptedBackend } from './backend.ts';

const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
let seen = '';
const backend = scriptedBackend((prompt, { responseFormat }) => {
  seen = prompt;
  if (prompt.includes('FAIL')) throw new Error('secret');
  if (prompt.includes('LONG')) return 'x'.repeat(3000);
  if (responseFormat) return '{"city": "Oslo"}';
  return prompt.includes('weather') && !prompt.includes('<tool_response>')
    ? `<think>\nWeather.\n</think>\n\nLet me see. ${call}`
    : 'Hello, Grüße';
});
const handler = createHandler(backend, { apiKey: 'key', maxMessages: 8 });
const client = new OpenAI({
  apiKey: 'key',
  baseURL: 'http://server/v1',
  maxRetries: 0,
  fetch: (url, init) => handler(new Request(url, init)),
});
const model = 'scripted';
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const tools = [{ type: 'function' as const, name: 'get_weather', parameters, strict: true }];

describe('the openai client and /v1/responses', () => {
  it('answers a text, with usage; instructions go first', async () => {
    const response = await client.responses.create({ model, input: 'hi', instructions: 'Be kind.', metadata: { a: 'b' }, temperature: 0 });
    expect(seen).toBe('<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n');
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      output_text: 'Hello, Grüße',
      metadata: { a: 'b' },
      temperature: 0,
      error: null,
      incomplete_details: null,
      output: [{ type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', annotations: [] }] }],
      usage: {
        input_tokens: seen.length + 1,
        input_tokens_details: { cached_tokens: 1 },
        output_tokens: 14,
        total_tokens: seen.length + 15,
      },
    });
    expect(response.id).toMatch(/^resp_\w{24}$/);
  });

  it('streams the same, every item opened, written and closed in order', async () => {
    const ask = { model, input: 'weather', tools };
    const stream = client.responses.stream(ask);
    const events: ResponseStreamEvent[] = [];
    for await (const event of stream) events.push(event);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i));
    const types = events.map(({ type }) => type).filter((type, i, all) => !type.endsWith('.delta') || type !== all[i - 1]);
    expect(types).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.reasoning_text.delta',
      'response.reasoning_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const final = await stream.finalResponse();
    const whole = await client.responses.create(ask);
    // The client's helper adds parsed values.
    const bare = (output: readonly object[]): unknown =>
      JSON.parse(JSON.stringify(output, (key, value: unknown) => (/^(id|call_id|parsed.*)$/.test(key) ? undefined : value)));
    expect(bare(final.output)).toEqual(bare(whole.output));
    expect(whole.output).toMatchObject([
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Weather.' }] },
      { type: 'message', content: [{ text: 'Let me see. ' }] },
      { type: 'function_call', name: 'get_weather', arguments: '{"city": "Oslo"}', status: 'completed' },
    ]);
    expect(whole.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
    expect(final.usage).toEqual(whole.usage);
    // The last event repeats the items of the stream.
    const done = events.flatMap((event) => (event.type === 'response.output_item.done' ? [event.item] : []));
    const last = events.at(-1);
    expect(last?.type === 'response.completed' && last.response.output).toEqual(done);
  });

  it('goes on with the result of a tool, in one message of the assistant', async () => {
    const first = await client.responses.create({ model, input: 'weather', tools });
    const made = first.output.find((item) => item.type === 'function_call')!;
    const second = await client.responses.create({
      model,
      tools,
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'weather' }] },
        ...(first.output as ResponseInput),
        { type: 'function_call_output', call_id: made.call_id, output: 'snow' },
      ],
    });
    expect(seen).toContain(`<think>\nWeather.\n</think>\nLet me see. ${call}<|im_end|>\n`);
    expect(seen).toContain('<tool_response>\nsnow\n</tool_response>');
    expect(seen.match(/<\|im_start\|>assistant/g)).toHaveLength(2);
    expect(second.output_text).toBe('Hello, Grüße');
  });

  it.each([
    [
      'its content',
      { content: [{ type: 'reasoning_text', text: 'Because.' }], summary: [{ type: 'summary_text', text: 'Short.' }] },
      'Because.',
    ],
    ['its summary, if that is all', { summary: [{ type: 'summary_text', text: 'Short.' }], encrypted_content: 'x' }, 'Short.'],
  ])('reads earlier reasoning by %s', async (_, fields, want) => {
    const reasoning = { type: 'reasoning' as const, id: 'rs_1', ...fields } as unknown as ResponseInput[number];
    const calls: ResponseInput = [
      { type: 'function_call', call_id: 'c', name: 'get_weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'snow' },
    ];
    await client.responses.create({ model, tools, input: [{ role: 'user', content: 'weather' }, reasoning, ...calls] });
    expect(seen).toContain(`<think>\n${want}\n</think>`);
  });

  it('makes JSON, requires calls, leaves out tools that are not functions, thinks or not', async () => {
    const text = { format: { type: 'json_schema' as const, name: 'place', schema: parameters } };
    expect((await client.responses.create({ model, input: 'where', text })).output_text).toBe('{"city": "Oslo"}');
    expect(backend.seen.options.at(-1)?.responseFormat).toEqual({ type: 'json_schema', schema: parameters });
    await client.responses.create({ model, input: 'where', tools, tool_choice: { type: 'function', name: 'get_weather' } });
    expect(backend.seen.options.at(-1)?.calls).toMatchObject({ tools: [{ name: 'get_weather' }], section: false });
    await client.responses.create({ model, input: 'hi', tools: [{ type: 'web_search' }] });
    expect(seen).not.toContain('web_search');
    await client.responses.create({ model, input: 'hi', reasoning: { effort: 'low' } });
    expect(backend.seen.options.at(-1)).not.toHaveProperty('templateVariables');
  });

  it('is cut at max_output_tokens, whole and streamed', async () => {
    const ask = { model, input: 'hi', max_output_tokens: 3 };
    expect(await client.responses.create(ask)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output_text: 'Hel',
    });
    const types: string[] = [];
    for await (const { type } of await client.responses.create({ ...ask, stream: true })) types.push(type);
    expect(types.at(-1)).toBe('response.incomplete');
  });

  it('counts tokens', async () => {
    await client.responses.create({ model, input: 'hi' });
    expect(await client.responses.inputTokens.count({ model, input: 'hi' })).toEqual({
      object: 'response.input_tokens',
      input_tokens: seen.length + 1,
    });
    // A prompt longer than the context can be counted too.
    expect((await client.responses.inputTokens.count({ model, input: 'x'.repeat(10_000) })).input_tokens).toBeGreaterThan(10_000);
  });

  it('aborts', async () => {
    const before = backend.seen.aborted;
    const stream = await client.responses.create({ model, input: 'LONG', stream: true });
    let events = 0;
    for await (const _ of stream) if (++events === 9) stream.controller.abort();
    for (let i = 0; i < 200 && backend.seen.now > 0; i++) await new Promise((resolve) => setTimeout(resolve, 5));
    expect([backend.seen.now, backend.seen.aborted]).toEqual([0, before + 1]);
  });

  type Ask = Parameters<typeof client.responses.create>[0];
  it.each<[string, object, number, string | null, string]>([
    ['no input', {}, 400, 'input', 'invalid_value'],
    ['an item that is a number', { input: [3] }, 400, 'input[0]', 'invalid_value'],
    ['an item of another type', { input: [{ type: 'computer_call' }] }, 400, 'input[0].type', 'invalid_value'],
    ['an unknown role', { input: [{ role: 'king', content: 'a' }] }, 400, 'input[0].role', 'invalid_value'],
    ['content that is a number', { input: [{ role: 'user', content: 3 }] }, 400, 'input[0].content', 'invalid_value'],
    ['a part that is null', { input: [{ role: 'user', content: [null] }] }, 400, 'input[0].content[0]', 'invalid_value'],
    ['an image', { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }, 400, null, 'invalid_value'],
    ['a call without arguments', { input: [{ type: 'function_call', call_id: 'a', name: 'b' }] }, 400, 'input[0]', 'invalid_value'],
    ['a result of no call', { input: [{ type: 'function_call_output', output: 'b' }] }, 400, 'input[0].call_id', 'invalid_value'],
    ['a stored response', { input: 'a', previous_response_id: 'resp_1' }, 400, 'previous_response_id', 'unsupported_parameter'],
    ['work in the background', { input: 'a', background: true }, 400, 'background', 'unsupported_parameter'],
    ['a truncation', { input: 'a', truncation: 'auto' }, 400, 'truncation', 'unsupported_parameter'],
    ['a tool without a name', { input: 'a', tools: [{ type: 'function' }] }, 400, 'tools', 'invalid_value'],
    ['a choice that is a number', { input: 'a', tool_choice: 3 }, 400, 'tool_choice', 'invalid_value'],
    ['a format without a schema', { input: 'a', text: { format: { type: 'json_schema' } } }, 400, 'text.format', 'invalid_value'],
    ['long metadata', { input: 'a', metadata: { a: 'x'.repeat(600) } }, 400, 'metadata', 'invalid_value'],
    ['negative max_output_tokens', { input: 'a', max_output_tokens: -1 }, 400, 'max_output_tokens', 'invalid_value'],
    ['too long an input', { input: 'a'.repeat(9000) }, 400, null, 'context_length_exceeded'],
    ['too many messages', { input: Array.from({ length: 9 }, () => ({ role: 'user', content: 'a' })) }, 413, 'input', 'too_many_messages'],
  ])('refuses %s', async (_, body, status, param, code) => {
    await expect(client.responses.create({ model, ...body } as Ask)).rejects.toMatchObject({ status, param, code });
    await expect(client.responses.create({ model, ...body, stream: true } as Ask)).rejects.toMatchObject({ status, param, code });
  });

  it('a failure in the middle of a stream ends it with an error that the client throws', async () => {
    const broken = createHandler(breaking(backend));
    const other = new OpenAI({
      apiKey: 'x',
      baseURL: 'http://server/v1',
      maxRetries: 0,
      fetch: (url, init) => broken(new Request(url, init)),
    });
    const stream = await other.responses.create({ model, input: 'hi', stream: true });
    const read = async (): Promise<void> => {
      for await (const _ of stream);
    };
    await expect(read()).rejects.toMatchObject({ code: 'internal_error', message: expect.not.stringContaining('secret') as string });
  });
});
