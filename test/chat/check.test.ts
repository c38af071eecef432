/** Misspelt names in a conversation are refused, with a suggestion of the right name. */
import { loadModel, type ChatMessage, type Model, type ModelChatOptions, type ResponseFormat } from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { checkConversation } from '../../src/chat/check.ts';
import { plainFormat, schemaOf } from '../../src/grammar/schema-source.ts';
import { failure, shippedModel } from '../support.ts';

const chatml = "{% for m in messages %}{{ m.role + ':' + m.content }}{% endfor %}";
const check = (message: object, source = chatml) =>
  failure(async () => checkConversation([{ role: 'user', content: 'Hello.' }, message as ChatMessage], source));
const assistantCall = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };

describe('messages', () => {
  it.each<[string, object, string]>([
    [
      'a misspelt role',
      { role: 'sytem', content: 'x' },
      'message 2 of 2 has the role "sytem"; did you mean "system"? Expected one of system,',
    ],
    [
      'a role of no protocol',
      { role: 'robot', content: 'x' },
      'has the role "robot"; expected one of system, developer, user, assistant, tool',
    ],
    ['a misspelt field', { role: 'user', content: 'x', nmae: 'y' }, 'has the field "nmae", which does not exist; did you mean "name"?'],
    ['a field in camel case', { role: 'tool', content: 'x', toolCallId: 'y' }, 'did you mean "tool_call_id"?'],
    ['no content', { role: 'user' }, 'message 2 of 2 (user) has no content; expected a text or a list of parts'],
    ['null', { role: 'tool', content: null, tool_call_id: 'y' }, '(tool) has no content'],
    ['an answer of nothing', { role: 'assistant' }, '(assistant) has no content; expected a text or a list of parts, or tool_calls'],
    ['a number', { role: 'user', content: 5 }, 'has content that is 5; expected a text or a list of parts'],
    [
      'calls that are none',
      { role: 'assistant', content: '', tool_calls: [{ name: 'f' }] },
      'has tool_calls that are not calls; expected a list of',
    ],
  ])('%s', async (_, message, told) => {
    const { code, message: text } = await check(message);
    expect([code, text]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringContaining(told)]);
  });

  it.each<[string, object, string?]>([
    ["OpenAI's own answers", { role: 'assistant', content: 'x', refusal: null, annotations: [], function_call: undefined }],
    ['calls without a text', { role: 'assistant', content: null, tool_calls: [assistantCall] }],
    ['nothing but reasoning', { role: 'assistant', reasoning_content: 'x' }],
    ['a role that the template asks for', { role: 'document', content: 'x' }, "{% if m.role == 'document' %}{% endif %}"],
    ['a field that the template reads', { role: 'user', content: 'x', thinking: 'y' }, '{{ m.thinking }}'],
    ['parts', { role: 'user', content: [{ type: 'text', text: 'x' }] }],
  ])('taken: %s', (_, message, source = chatml) => checkConversation([message as ChatMessage], source));
});

describe('schemas in every form', () => {
  const zod = z.object({ city: z.string(), people: z.int().optional() });
  const schema = { type: 'object', properties: { city: { type: 'string' }, people: { type: 'integer' } }, required: ['city'] };
  it.each<[string, unknown]>([
    ['a JSON schema', { type: 'json_schema', schema }],
    ["OpenAI's form", { type: 'json_schema', json_schema: { name: 'place', strict: true, schema } }],
    ["llama-server's form", { type: 'json_object', schema }],
    ['zod', { type: 'json_schema', schema: zod }],
    ["zod in OpenAI's form", { type: 'json_schema', json_schema: { name: 'place', schema: zod } }],
  ])('%s', (_, format) => {
    const plain = plainFormat(format as ResponseFormat) as { type: string; schema: object };
    expect(plain).toMatchObject({
      type: 'json_schema',
      schema: { type: 'object', required: ['city'], properties: { city: { type: 'string' } } },
    });
  });

  it('a validator that is a function (ArkType)', () => {
    const type = Object.assign(() => {}, {
      '~standard': { version: 1, vendor: 'arktype', validate() {}, jsonSchema: { input: () => schema } },
    });
    expect(schemaOf('schema', type)).toBe(schema);
  });

  it.each<[string, unknown, string]>([
    ['valibot', { '~standard': { version: 1, vendor: 'valibot', validate() {} } }, 'toJsonSchema(schema) of @valibot/to-json-schema'],
    ['zod 3', { _def: {}, safeParse() {} }, 'z.toJSONSchema(schema) of zod 4'],
    ['zod before 4.2', { '~standard': { version: 1, vendor: 'zod', validate() {} } }, 'z.toJSONSchema(schema) of zod 4'],
    [
      'a type that JSON has not',
      z.object({ at: z.date() }),
      'is a schema of zod that cannot be converted to JSON schema: Date cannot be represented',
    ],
    ['a text', 'string', 'schema is "string"; expected a JSON schema'],
    ['a function', () => schema, 'schema is a function; expected a JSON schema'],
  ])('refused: %s', async (_, given, told) => {
    const { code, message } = await failure(async () => schemaOf('schema', given));
    expect([code, message]).toEqual(['ERR_GRAMMAR', expect.stringContaining(told)]);
  });

  it.each<[unknown, string, string]>([
    [{ type: 'json_shema', schema }, 'ERR_INVALID_ARGUMENT', 'responseFormat.type is "json_shema"; did you mean "json_schema"?'],
    [
      { type: 'json_schema', shema: schema },
      'ERR_GRAMMAR',
      'responseFormat has "shema", but no schema; expected { type: \'json_schema\', schema }',
    ],
    [null, 'ERR_INVALID_ARGUMENT', 'responseFormat is null'],
    ...[
      { type: 'object', properties: {} },
      { properties: { a: {} } },
      { enum: ['a'] },
      { '~standard': { vendor: 'some' }, type: 'object' },
      { safeParse: () => true, _def: {} },
    ].map((given): [unknown, string, string] => [
      given,
      'ERR_INVALID_ARGUMENT',
      "responseFormat is a schema; expected { type: 'json_schema', schema }",
    ]),
  ])('refused: %j', async (format, code, told) => {
    const error = await failure(async () => plainFormat(format as ResponseFormat));
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(told)]);
  });
});

describe('with a model', () => {
  let model: Model;
  const user: ChatMessage[] = [{ role: 'user', content: 'Add 1 and 2.' }];
  const add = { type: 'function', function: { name: 'add', parameters: z.object({ a: z.int(), b: z.int() }) } } as const;
  const ask = (options: unknown, messages = user) =>
    model.chat(messages, { temperature: 0, maxTokens: 120, ...(options as ModelChatOptions) }).result();
  beforeAll(async () => void (model = await loadModel(shippedModel, { threads: 1, warmUp: false, contextLength: 1024 })));
  afterAll(() => model.dispose());

  it("OpenAI's toolChoice means the tool, whose schema is zod's", async () => {
    const short = await ask({ tools: [add], toolChoice: { name: 'add' } });
    expect(JSON.parse(short.toolCalls[0].arguments)).toEqual({ a: expect.any(Number) as number, b: expect.any(Number) as number });
    const { toolCalls } = await ask({ tools: [add], toolChoice: { type: 'function', function: { name: 'add' } } });
    expect(toolCalls[0]).toMatchObject({ name: 'add', arguments: short.toolCalls[0].arguments });
  });

  it('a zod object holds the answer', async () => {
    const answer = z.object({ sum: z.int().min(0).max(9) });
    const { content } = await ask({ responseFormat: { type: 'json_schema', json_schema: { name: 'sum', schema: answer } } });
    expect(answer.safeParse(JSON.parse(content)).success).toBe(true);
  });

  it.each<[string, unknown, string]>([
    [
      'toolChoice',
      { toolChoice: 'requird' },
      'chat: toolChoice is "requird"; did you mean "required"? Expected "auto", "none", "required" or { name }',
    ],
    [
      'toolChoice without a name',
      { toolChoice: { type: 'function' } },
      'expected "auto", "none", "required" or { name } of one of the tools',
    ],
    [
      'a field of a tool',
      { tools: { add: { parameters: {}, excute() {} } } },
      'the tool "add": there is no option "excute"; did you mean execute?',
    ],
    ['a field of a listed tool', { tools: [{ type: 'function', function: { name: 'f', paramters: {} } }] }, 'did you mean parameters?'],
    ['onContextFull', { onContextFull: 'shfit' }, 'did you mean "shift"?'],
  ])('refused: %s', async (_, options, told) => {
    const { code, message } = await failure(ask(options));
    expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringContaining(told)]);
  });

  it('a misspelt role is refused before anything is computed', async () => {
    const { message } = await failure(ask({}, [{ role: 'uesr', content: 'x' }]));
    expect(message).toContain('did you mean "user"?');
  });
});
