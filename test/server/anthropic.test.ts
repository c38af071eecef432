/** /v1/messages through Anthropic's official client, with its fetch connected to the handler. */
import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, it } from 'vitest';
import { createHandler } from '../../src/server/handler.ts';
import { breaking, scriptedBackend } from './backend.ts';

const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
let seen = '';
const backend = scriptedBackend((prompt, { responseFormat, calls }) => {
  seen = prompt;
  if (prompt.includes('LONG')) return 'x'.repeat(3000);
  if (responseFormat) return '{"city": "Oslo"}';
  if (calls && !calls.section) return call;
  return prompt.includes('weather') && !prompt.includes('<tool_response>')
    ? `<think>\nWeather.\n</think>\n\nLet me see. ${call}${call}`
    : 'Hello, Grüße';
});
const handler = createHandler(backend, { apiKey: 'key', maxMessages: 8 });
const clientOf = (apiKey: string, by = handler): Anthropic =>
  new Anthropic({ apiKey, baseURL: 'http://server', maxRetries: 0, fetch: (url, init) => by(new Request(url, init)) });
const client = clientOf('key');
const user = (content: string) => [{ role: 'user' as const, content }];
const base = { model: 'scripted', max_tokens: 500 };
const schema = { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] };
const tools = [{ name: 'get_weather', description: 'Tells the weather.', input_schema: schema }];

describe("Anthropic's client and /v1/messages", () => {
  it('answers, with usage; the system prompt goes first', async () => {
    const message = await client.messages.create({ ...base, system: 'Be kind.', messages: user('hi') });
    expect(seen).toBe('<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n');
    expect(message).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'scripted',
      content: [{ type: 'text', text: 'Hello, Grüße' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: seen.length, cache_read_input_tokens: 1, output_tokens: 14 },
    });
    expect(message.id).toMatch(/^msg_\w{24}$/);
  });

  it('streams the same blocks: reasoning, text, calls', async () => {
    const ask = { ...base, messages: user('weather'), tools };
    const stream = client.messages.stream(ask);
    const events: string[] = [];
    stream.on('streamEvent', (event) => void events.push('delta' in event && 'type' in event.delta ? event.delta.type : event.type));
    const streamed = await stream.finalMessage();
    expect(events.filter((type, i) => type !== events[i - 1])).toEqual([
      'message_start',
      'content_block_start',
      'thinking_delta',
      'signature_delta',
      'content_block_stop',
      'content_block_start',
      'text_delta',
      'content_block_stop',
      'content_block_start',
      'input_json_delta',
      'content_block_stop',
      'content_block_start',
      'input_json_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    const whole = await client.messages.create(ask);
    expect(whole).toMatchObject({
      stop_reason: 'tool_use',
      content: [
        { type: 'thinking', thinking: 'Weather.', signature: '' },
        { type: 'text', text: 'Let me see. ' },
        { type: 'tool_use', name: 'get_weather', input: { city: 'Oslo' } },
        { type: 'tool_use', name: 'get_weather', input: { city: 'Oslo' } },
      ],
    });
    const bare = ({ content, usage, stop_reason }: Anthropic.Message): unknown =>
      JSON.parse(JSON.stringify({ content, usage, stop_reason }, (key, value: unknown) => (key === 'id' ? '' : value)));
    expect(bare(streamed)).toEqual(bare(whole));
  });

  it('goes on with results of tools, which follow their calls', async () => {
    const first = await client.messages.create({ ...base, messages: user('weather'), tools });
    const calls = first.content.filter((block) => block.type === 'tool_use');
    const second = await client.messages.create({
      ...base,
      tools,
      messages: [
        ...user('weather'),
        { role: 'assistant', content: first.content },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: calls[0].id, content: 'snow' },
            { type: 'tool_result', tool_use_id: calls[1].id, content: [{ type: 'text', text: 'wind' }] },
            { type: 'text', text: 'And now?' },
          ],
        },
      ],
    });
    expect(second.content).toMatchObject([{ type: 'text', text: 'Hello, Grüße' }]);
    expect(seen).toMatch(/<tool_response>\nsnow\n<\/tool_response>[^]*<tool_response>\nwind\n<\/tool_response>[^]*And now\?/);
  });

  it('honours tool_choice, output_config, stop_sequences, max_tokens', async () => {
    const ask = { ...base, messages: user('weather'), tools };
    const only = await client.messages.create({ ...ask, tool_choice: { type: 'auto', disable_parallel_tool_use: true } });
    expect(only.content.filter(({ type }) => type === 'tool_use')).toHaveLength(1);
    for (const tool_choice of [{ type: 'any' as const }, { type: 'tool' as const, name: 'get_weather' }]) {
      const forced = await client.messages.create({ ...ask, tool_choice });
      expect(forced.content).toMatchObject([{ type: 'tool_use', name: 'get_weather', input: { city: 'Oslo' } }]);
    }
    await client.messages.create({ ...ask, tool_choice: { type: 'none' } });
    expect(seen).not.toContain('get_weather');
    await client.messages.create({ ...base, messages: user('where'), output_config: { format: { type: 'json_schema', schema } } });
    expect(backend.seen.options.at(-1)?.responseFormat).toEqual({ type: 'json_schema', schema });
    expect(await client.messages.create({ ...base, messages: user('hi'), stop_sequences: [','] })).toMatchObject({
      content: [{ text: 'Hello' }],
      stop_reason: 'stop_sequence',
      stop_sequence: ',',
    });
    expect(await client.messages.create({ ...base, messages: user('hi'), max_tokens: 2 })).toMatchObject({
      content: [{ text: 'He' }],
      stop_reason: 'max_tokens',
    });
  });

  it('counts tokens; a checksum in the system prompt does not move the cache', async () => {
    await client.messages.create({ ...base, messages: user('hi') });
    expect(await client.messages.countTokens({ model: 'scripted', messages: user('hi') })).toEqual({ input_tokens: seen.length + 1 });
    const system = (sum: string): string => `x-anthropic-billing-header: cc_version=2; cch=${sum};You are kind. cch=${sum}`;
    await client.messages.create({ ...base, system: system('a5145'), messages: user('hi') });
    expect(seen).toContain('x-anthropic-billing-header: cc_version=2; cch=;You are kind. cch=a5145');
  });

  it('lists models, one by one too', async () => {
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual(['scripted']);
    expect(await client.models.retrieve('scripted')).toMatchObject({ id: 'scripted', type: 'model', display_name: 'scripted' });
    await expect(client.models.retrieve('other/name')).rejects.toBeInstanceOf(Anthropic.NotFoundError);
  });

  it('aborts', async () => {
    const before = backend.seen.aborted;
    const stream = await client.messages.create({ ...base, messages: user('LONG'), stream: true });
    let events = 0;
    for await (const _ of stream) if (++events === 9) stream.controller.abort();
    for (let i = 0; i < 200 && backend.seen.now > 0; i++) await new Promise((resolve) => setTimeout(resolve, 5));
    expect([backend.seen.now, backend.seen.aborted]).toEqual([0, before + 1]);
  });

  type Ask = Parameters<typeof client.messages.create>[0];
  it.each<[string, object, number, string]>([
    ['no messages', { messages: [] }, 400, 'invalid_request_error'],
    ['a message that is a number', { messages: [3] }, 400, 'invalid_request_error'],
    ['an unknown role', { messages: [{ role: 'king', content: 'a' }] }, 400, 'invalid_request_error'],
    ['an image', { messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] }, 400, 'invalid_request_error'],
    [
      'a call without an input',
      { messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'b' }] }] },
      400,
      'invalid_request_error',
    ],
    [
      'a result of no call',
      { messages: [{ role: 'user', content: [{ type: 'tool_result', content: 'a' }] }] },
      400,
      'invalid_request_error',
    ],
    ['a tool without a name', { messages: user('a'), tools: [{}] }, 400, 'invalid_request_error'],
    ['a tool that is not offered', { messages: user('a'), tools, tool_choice: { type: 'tool', name: 'x' } }, 400, 'invalid_request_error'],
    ['an empty stop', { messages: user('a'), stop_sequences: [''] }, 400, 'invalid_request_error'],
    ['too long a conversation', { messages: user('a'.repeat(9000)) }, 400, 'invalid_request_error'],
    ['too many messages', { messages: Array.from({ length: 9 }, () => user('a')[0]) }, 413, 'request_too_large'],
  ])('refuses %s', async (_, body, status, type) => {
    await expect(client.messages.create({ ...base, ...body } as Ask)).rejects.toMatchObject({ status, type });
    await expect(client.messages.create({ ...base, ...body, stream: true } as Ask)).rejects.toMatchObject({ status, type });
  });

  it('refuses a wrong key, and says of a failure in a stream what the client expects', async () => {
    await expect(clientOf('no').messages.create({ ...base, messages: user('a') })).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
    const broken = createHandler(breaking(backend));
    const stream = await clientOf('x', broken).messages.create({ ...base, messages: user('hi'), stream: true });
    const read = async (): Promise<void> => {
      for await (const _ of stream);
    };
    await expect(read()).rejects.toMatchObject({ type: 'api_error', message: expect.not.stringContaining('secret') as string });
  });

  it("hears of failures in its protocol's form at every path", async () => {
    const failed = (asked: Promise<unknown>): Promise<unknown> => asked.then(String, ({ error }: { error: unknown }) => error);
    const of = (type: string) => ({ type: 'error', error: { type, message: expect.any(String) as string } });
    expect(await failed(client.models.retrieve('nobody'))).toMatchObject(of('not_found_error'));
    expect(await failed(client.get('/v1/nowhere'))).toMatchObject(of('not_found_error'));
    expect(await failed(client.post('/v1/models', { body: {} }))).toMatchObject(of('invalid_request_error'));
    expect(await failed(client.post('/v1/embeddings', { body: {} }))).toMatchObject(of('invalid_request_error'));
    expect(await failed(clientOf('no').get('/v1/files'))).toMatchObject(of('authentication_error'));
    // Without Anthropic's header, errors have OpenAI's form.
    const other = await handler(new Request('http://server/v1/nowhere'));
    expect(await other.json()).toMatchObject({ error: { type: 'not_found_error', code: 'not_found' } });
  });
});
