import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { createHandler } from '../../src/server/handler.ts';
import { scriptedBackend } from './backend.ts';

/** OpenAI's official client, with its fetch connected to the handler. */
const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
const backend = scriptedBackend((prompt, { responseFormat }) => {
  if (prompt.includes('LONG')) return 'x'.repeat(3000);
  if (responseFormat) return '{"a": 1}';
  return prompt.includes('weather') && !prompt.includes('<tool_response>') ? `Let me see. ${call}` : 'Hello, Grüße';
});
const handler = createHandler(backend, { apiKey: 'key' });
const clientWith = (apiKey: string): OpenAI =>
  new OpenAI({ apiKey, baseURL: 'http://server/v1', maxRetries: 0, fetch: (url, init) => handler(new Request(url, init)) });
const client = clientWith('key');
const model = 'scripted';
const user = (content: string) => [{ role: 'user' as const, content }];
const parameters = { type: 'object', properties: { city: { type: 'string' } } };

describe('the openai client', () => {
  it('chats, whole and streamed', async () => {
    const whole = await client.chat.completions.create({ model, messages: user('hi') });
    expect(whole.choices[0].message.content).toBe('Hello, Grüße');
    let text = '';
    let tokens = 0;
    for await (const chunk of await client.chat.completions.create({
      model,
      messages: user('hi'),
      stream: true,
      stream_options: { include_usage: true },
    })) {
      text += chunk.choices[0]?.delta.content ?? '';
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
    expect([text, tokens]).toEqual(['Hello, Grüße', 14]);
  });

  it('calls tools: streamed, and run to the end by its helper', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'get_weather', parameters } }];
    const { choices } = await client.chat.completions.stream({ model, messages: user('weather'), tools }).finalChatCompletion();
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: 'Let me see. ', tool_calls: [{ function: { name: 'get_weather', arguments: '{"city": "Oslo"}' } }] },
    });
    const cities: string[] = [];
    const runner = client.chat.completions.runTools({
      model,
      messages: user('weather'),
      tools: [
        {
          type: 'function',
          function: {
            name: 'get_weather',
            description: '',
            parameters,
            parse: (text: string) => JSON.parse(text) as { city: string },
            function: ({ city }: { city: string }) => (cities.push(city), 'snow'),
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe('Hello, Grüße');
    expect(cities).toEqual(['Oslo']);
  });

  it('completes, embeds, lists models, makes JSON', async () => {
    expect((await client.completions.create({ model, prompt: 'p' })).choices[0].text).toBe('Hello, Grüße');
    // The client requests base64 and decodes it.
    expect((await client.embeddings.create({ model, input: ['ab', 'abc'] })).data.map(({ embedding }) => embedding[0])).toEqual([2, 3]);
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual([model]);
    const json = await client.chat.completions.create({
      model,
      messages: user('hi'),
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema: parameters } },
    });
    expect(json.choices[0].message.content).toBe('{"a": 1}');
  });

  it('gets errors of the right kind', async () => {
    await expect(clientWith('no').models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await expect(client.completions.create({ model, prompt: 'a'.repeat(6000) })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
    });
    await expect(client.chat.completions.create({ model, messages: [] })).rejects.toMatchObject({ status: 400, param: 'messages' });
    await expect(client.chat.completions.create({ model: 'm', messages: user('a'), n: 99 })).rejects.toBeInstanceOf(OpenAI.BadRequestError);
  });

  it('aborts a stream, which stops the generation', async () => {
    const stream = await client.chat.completions.create({ model, messages: user('LONG'), stream: true });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 5) stream.controller.abort();
    for (let i = 0; i < 200 && backend.seen.now > 0; i++) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(backend.seen).toMatchObject({ now: 0, aborted: 1 });
  });
});
