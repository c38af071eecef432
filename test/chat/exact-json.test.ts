/** Numbers in a prompt keep the digits of the request. */
import { describe, expect, it } from 'vitest';
import { exactJson, indentedJson, parseExactJson } from '../../src/chat/exact-json.ts';
import type { ChatMessage, ChatTool } from '../../src/chat/messages.ts';
import { parseAnswer } from '../../src/chat/parser.ts';
import { answerRecord } from '../../src/server/batch/batch-line.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { createHandler } from '../../src/server/handler.ts';
import { scriptedBackend } from '../server/backend.ts';
import { everyTemplate, ownTemplates } from './templates.ts';

const written = [
  '1234567890123456789',
  '-9007199254740993',
  '1.0',
  '-0',
  '0.10',
  '1e5',
  '1E+2',
  '1e-7',
  '0.00001',
  '-0.000012',
  '123456789012345678901234567890.5',
];

describe('parseExactJson', () => {
  it.each([
    '{"a":1.0,"b":[1,2.50,{"c":1234567890123456789}],"d":"1.0 \\" 2.0","e\\u0066":-0}',
    '[1.0,[],{},"x",null,true,-1e5,[[1.0]]]',
    '1.5',
    '{"":1.0,"__proto__":2.0,"1":3.0}',
    '{"\\\\":1.0,"b":"\\\\\\\\","c":2.0}',
  ])('%s is written as it came', (text) => {
    const value = parseExactJson(text);
    expect(value).toEqual(JSON.parse(text));
    const ordered = text.startsWith('{"":') ? '{"1":3.0,"":1.0,"__proto__":2.0}' : text.replace('e\\u0066', 'ef');
    expect(exactJson(value)).toBe(ordered);
  });

  it('takes the last of two fields of one name', () => {
    expect(exactJson(parseExactJson('{"a": 1.0, "a": 2}'))).toBe('{"a":2}');
    expect(exactJson(parseExactJson('{"a": {"b": 1.0}, "a": {"b": 1, "c": 2.0}}'))).toBe('{"a":{"b":1,"c":2.0}}');
    expect(exactJson(parseExactJson('{"a": [1.0], "a": "x"}'))).toBe('{"a":"x"}');
  });

  it('refuses what JSON.parse refuses', () => {
    for (const text of ['', '{', '{"a":01}', '[1.]', '"']) expect(() => parseExactJson(text)).toThrow(SyntaxError);
  });

  it('a number that was changed is written as it is', () => {
    const value = parseExactJson('{"a": 1.0}') as { a: number };
    value.a = 7;
    expect(exactJson(value)).toBe('{"a":7}');
  });

  it('takes no time quadratic in quotes and backslashes', () => {
    const text = JSON.stringify({ a: '\\"'.repeat(500_000), b: 1 });
    expect(parseExactJson(text)).toEqual(JSON.parse(text));
  });
});

describe.each(everyTemplate)('%s', (_, source) => {
  const template = createChatTemplate(source, { bos: '<BOS>', eos: '<EOS>' });
  const text = `{${written.map((number, i) => `"k${i}": ${number}`).join(', ')}}`;
  const parameters = `{"type": "object", "properties": {"n": {"type": "integer", "description": "A number", "default": 1234567890123456789}}}`;
  const tools: ChatTool[] = [
    { type: 'function', function: { name: 'f', description: 'F', parameters: parseExactJson(parameters) as object } },
  ];
  const messages = (args: string | object): ChatMessage[] => [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: '', tool_calls: [{ id: 'abcdefgh1', type: 'function', function: { name: 'f', arguments: args } }] },
    { role: 'tool', tool_call_id: 'abcdefgh1', name: 'f', content: 'done' },
  ];

  it('arguments of an earlier call, as text and as an object', () => {
    for (const args of [text, parseExactJson(text) as object]) {
      const prompt = template.render({ messages: messages(args), tools });
      for (const number of written) expect(prompt).toContain(number);
    }
  });

  it('a schema, where the template writes it', () => {
    const prompt = template.render({ messages: messages('{}'), tools });
    expect(prompt).not.toContain('1234567890123456800');
    if (prompt.includes('default')) expect(prompt).toContain('1234567890123456789');
  });
});

it('integers of type bigint are written with their digits, in arguments and schemas', () => {
  const template = createChatTemplate(ownTemplates.hermes, { bos: '<BOS>', eos: '<EOS>' });
  const parameters = { type: 'object', properties: { n: { type: 'integer', maximum: 2n ** 64n } } };
  const prompt = template.render({
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f', arguments: { n: 1234567890123456789n } } }] },
      { role: 'tool', tool_call_id: 'a', content: 'done' },
    ],
    tools: [{ type: 'function', function: { name: 'f', parameters } }],
  });
  expect(prompt).toContain('"n": 1234567890123456789');
  expect(prompt).toContain('"maximum": 18446744073709551616');
});

describe('an answer keeps them', () => {
  const args = '{"n": 1234567890123456789, "x": 1.0, "deep": [{"m": -9223372036854775808}]}';
  const says = `<tool_call>\n{"name": "f", "arguments": ${args}}\n</tool_call>`;
  const handler = createHandler(scriptedBackend(() => says, { template: ownTemplates.hermes }));
  const post = async (path: string, body: object): Promise<string> => {
    const headers = { 'content-type': 'application/json' };
    return (await handler(new Request(`http://server${path}`, { method: 'POST', headers, body: JSON.stringify(body) }))).text();
  };
  const messages = [{ role: 'user', content: 'Hi' }];
  const quoted = JSON.stringify(args).slice(1, -1);

  it.each<[string, string, object, string]>([
    ['chat', '/v1/chat/completions', { messages, tools: [{ type: 'function', function: { name: 'f' } }] }, quoted],
    ['messages', '/v1/messages', { messages, max_tokens: 999, tools: [{ name: 'f', input_schema: { type: 'object' } }] }, args],
    ['responses', '/v1/responses', { input: messages, tools: [{ type: 'function', name: 'f' }] }, quoted],
  ])('%s, whole and streamed', async (name, path, body, whole) => {
    expect(await post(path, body)).toContain(whole);
    const pieces = (await post(path, { ...body, stream: true })).matchAll(/"(?:partial_json|delta|arguments)":("(?:[^"\\]|\\.)*")/g);
    expect([...pieces].map(([, piece]) => JSON.parse(piece) as string).join('')).toContain(args);
    expect(JSON.parse(await post(path, body))).toMatchObject(name === 'messages' ? { content: [{ type: 'tool_use' }] } : {});
  });

  it.each(Object.entries(ownTemplates))('in the notation of %s', async (_, source) => {
    const template = createChatTemplate(source, { bos: '<BOS>', eos: '<EOS>' });
    const { format } = template;
    const call = { id: undefined, name: 'f', arguments: args };
    const written = format.write([call]);
    const { toolCalls } = parseAnswer(format, written, { tools: [{ type: 'function', function: { name: 'f' } }] });
    if (toolCalls.length > 0)
      for (const number of ['1234567890123456789', '1.0', '-9223372036854775808']) expect(toolCalls[0].arguments).toContain(number);
  });

  it('a line of a batch', async () => {
    const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { messages } };
    const { text } = answerRecord({ line: 1, customId: 'a', url: line.url, body: line.body, size: 1 }, 200, `{"n":${args}}`);
    expect(text).toContain(args);
  });

  it('the page, where it shows a call', () => {
    expect(indentedJson('{"n":1234567890123456789,"x":[1.0]}')).toBe('{\n  "n": 1234567890123456789,\n  "x": [\n    1.0\n  ]\n}');
    expect(indentedJson('{"n":')).toBe('{"n":');
  });
});

it('a request keeps them, in every protocol', async () => {
  let seen = '';
  const handler = createHandler(scriptedBackend((prompt) => ((seen = prompt), 'ok'), { template: ownTemplates.hermes }));
  const post = async (path: string, body: string): Promise<string> => {
    const headers = { 'content-type': 'application/json' };
    expect((await handler(new Request(`http://server${path}`, { method: 'POST', headers, body }))).status).toBe(200);
    return seen;
  };
  const n = '{"n": 1234567890123456789, "x": 1.0}';
  const schema = '{"type": "object", "properties": {"n": {"maximum": 9223372036854775807}}}';
  const prompts = [
    await post(
      '/v1/chat/completions',
      `{"temperature": 1.0, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": ${n}}}]}, {"role": "tool", "tool_call_id": "a", "content": "done"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": ${schema}}}]}`,
    ),
    await post(
      '/v1/messages',
      `{"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": ${n}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]}], "tools": [{"name": "f", "input_schema": ${schema}}]}`,
    ),
    await post(
      '/v1/responses',
      `{"input": [{"role": "user", "content": "Hi"}, {"type": "function_call", "call_id": "a", "name": "f", "arguments": ${JSON.stringify(n)}}, {"type": "function_call_output", "call_id": "a", "output": "done"}], "tools": [{"type": "function", "name": "f", "parameters": ${schema}}]}`,
    ),
  ];
  for (const prompt of prompts) {
    expect(prompt).toContain('{"n": 1234567890123456789, "x": 1.0}');
    expect(prompt).toContain('"maximum": 9223372036854775807');
  }
});
