/**
 * Answers that have begun and must follow a schema, a grammar or a call: the beginning in the
 * prompt counts as part of the answer. With a real model, in every protocol.
 */
import { generateText } from 'ai';
import { loadModel, type Model, type ModelChatOptions } from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { languageModel } from '../../src/ai-sdk/language-model.ts';
import { createHandler } from '../../src/server/handler.ts';
import { ownTemplates } from '../chat/templates.ts';
import { failure, shippedModel } from '../support.ts';

let model: Model;
let handler: ReturnType<typeof createHandler>;
const options = { threads: 1, warmUp: false, contextLength: 1024 } as const;
beforeAll(async () => {
  model = await loadModel(shippedModel, { ...options, chatTemplate: ownTemplates.hermes });
  handler = createHandler(model);
});
afterAll(() => model.dispose());

const user = { role: 'user' as const, content: 'Hi' };
const conversation = (content: string) => [user, { role: 'assistant' as const, content }];
/** Only one answer satisfies this. */
const schema = {
  type: 'object',
  properties: { a: { enum: ['xyz'] }, b: { enum: [70] } },
  required: ['a', 'b'],
  additionalProperties: false,
};
const want = { a: 'xyz', b: 70 };
const format = { type: 'json_schema', json_schema: { name: 'n', strict: true, schema } };
const call = { type: 'object', properties: { city: { enum: ['Oslo'] } }, required: ['city'], additionalProperties: false };
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: call } }];
const BEGUN = ['{', '{"a', '{"a": "x', '{"a":"xyz"', '{"a": "xyz", "b": 7', '\n{"a": "xyz", "b"', '{"a": "xyz", "b": 70}'];

async function post(path: string, body: object) {
  const headers = { 'content-type': 'application/json' };
  const response = await handler(new Request(`http://server${path}`, { method: 'POST', headers, body: JSON.stringify(body) }));
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- answers of several protocols
  return { status: response.status, body: (await response.json()) as any };
}

/** Asks for the schema in each protocol, and returns the answer. */
const ASKS: Readonly<Record<string, (content: string) => Promise<string>>> = {
  'chat completions': async (content) => {
    const { body } = await post('/v1/chat/completions', { messages: conversation(content), response_format: format, max_tokens: 99 });
    return body.choices?.[0].message.content ?? body.error;
  },
  'continue_final_message and json_schema': async (content) => {
    const fields = { continue_final_message: true, response_format: { type: 'json_object', schema } };
    const { body } = await post('/v1/chat/completions', { messages: conversation(content), max_tokens: 99, ...fields });
    return body.choices?.[0].message.content ?? body.error;
  },
  'a grammar': async (content) => {
    const grammar = String.raw`root ::= "\n"? "{\"a\":" " "? "\"xyz\"" ", \"b\": 70}"`;
    const { body } = await post('/v1/chat/completions', { messages: conversation(content), grammar, max_tokens: 99 });
    return body.choices?.[0].message.content ?? body.error;
  },
  "Anthropic's messages": async (content) => {
    const output_config = { format: { type: 'json_schema', schema } };
    const { body } = await post('/v1/messages', { messages: conversation(content), output_config, model: 'm', max_tokens: 99 });
    return body.error ?? body.content.map(({ text }: { text: string }) => text).join('');
  },
  responses: async (content) => {
    const text = { format: { type: 'json_schema', name: 'n', schema } };
    const { body } = await post('/v1/responses', { input: conversation(content), text, max_output_tokens: 99 });
    return body.error ?? body.output.map((item: { content: { text: string }[] }) => item.content[0].text).join('');
  },
  'the library': async (content) => {
    const asked: ModelChatOptions = { continueFinalMessage: true, responseFormat: { type: 'json_schema', schema }, maxTokens: 99 };
    return (await model.chat(conversation(content), asked).result()).content;
  },
  'the AI SDK': async (content) => {
    const providerOptions = { quantlet: { grammar: String.raw`root ::= "\n"? "{\"a\":" " "? "\"xyz\"" ", \"b\": 70}"` } };
    const { text } = await generateText({
      model: languageModel(model),
      messages: conversation(content),
      maxOutputTokens: 99,
      providerOptions,
    });
    return text;
  },
};

describe.each(Object.entries(ASKS))('%s', (_, ask) => {
  it.each(BEGUN)('%j', async (content) => {
    expect(JSON.parse(content + (await ask(content)))).toEqual(want);
  });
});

it('streams what is new', async () => {
  const body = { messages: conversation('{"a": "x'), response_format: format, stream: true };
  const headers = { 'content-type': 'application/json' };
  const response = await handler(new Request('http://server/v1/chat/completions', { method: 'POST', headers, body: JSON.stringify(body) }));
  const deltas = [...(await response.text()).matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)].map(
    ([, text]) => JSON.parse(`"${text}"`) as string,
  );
  expect(JSON.parse(`{"a": "x${deltas.join('')}`)).toEqual(want);
});

describe('what no answer begins with is refused, by what it has and what fits', () => {
  const fields = { response_format: format, tools: undefined as object | undefined, grammar: undefined as string | undefined };
  it.each<[string, string, object, RegExp]>([
    ['words before JSON', 'Sure: {', fields, /begun with "Sure: \{", but no answer .* begins with that; expected one of \{/],
    ['another value', '{"a": "w', fields, /begun with "\{\\"a\\": \\"w", .* expected one of x after "\{\\"a\\": \\""/],
    ['more than the answer', '{"a": "xyz", "b": 70}!', fields, /70\}!", .* expected one of the end/],
    ['a grammar', 'maybe', { grammar: 'root ::= "yes" | "no"' }, /begun with "maybe", .* expected one of n y after ""/],
    ['a call', 'Let me see: ', { tools, tool_choice: 'required' }, /begun with "Let me see: ", .* expected one of .*</],
  ])('%s', async (_, content, body, message) => {
    const { status, body: answer } = await post('/v1/chat/completions', { messages: conversation(content), ...body });
    expect([status, answer.error]).toMatchObject([400, { code: 'invalid_value', message: expect.stringMatching(message) }]);
  });

  it('reasoning may go on, and the format begins after it', async () => {
    const messages = [user, { role: 'assistant', content: '', reasoning_content: 'Hm' }];
    const ask = { messages, response_format: format };
    const { body } = await post('/v1/chat/completions', { ...ask, reasoning_budget_tokens: 4, max_tokens: 200 });
    expect(JSON.parse(body.choices[0].message.content as string)).toEqual(want);
    expect(body.choices[0].message.reasoning_content).not.toBe('');
    const text = await post('/v1/chat/completions', { ...ask, reasoning_format: 'none' });
    expect([text.status, text.body.error.message]).toEqual([400, expect.stringMatching(/begins with reasoning.*expected a message/)]);
    const ended = await post('/v1/chat/completions', { messages, response_format: format, continue_final_message: 'content' });
    expect(JSON.parse(ended.body.choices[0].message.content as string)).toEqual(want);
  });

  it("Anthropic's and responses, and the library by its code", async () => {
    const output_config = { format: { type: 'json_schema', schema } };
    const anthropic = await post('/v1/messages', { messages: conversation('no'), output_config, model: 'm', max_tokens: 9 });
    const responses = await post('/v1/responses', {
      input: conversation('no'),
      text: { format: { type: 'json_schema', name: 'n', schema } },
    });
    for (const { status, body } of [anthropic, responses])
      expect([status, body.error.message]).toEqual([400, expect.stringMatching(/begun with "no"/)]);
    const chat = model.chat(conversation('no'), { continueFinalMessage: true, responseFormat: { type: 'json_schema', schema } });
    expect(await failure(chat.result())).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(/begun with "no"/) });
  });
});

describe('a call that has begun', () => {
  it.each(
    ['{"name": "get', '{"name": "get_weather", "arguments": {"ci', '{"name": "get_weather", "arguments": {"city": "Oslo"}'].flatMap(
      (json) => [json, `<tool_call>\n${json}`],
    ),
  )('%s', async (content) => {
    const { body } = await post('/v1/chat/completions', {
      messages: conversation(content),
      tools,
      tool_choice: 'required',
      max_tokens: 99,
    });
    expect(body.choices[0]).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } });
    const { name, arguments: text } = body.choices[0].message.tool_calls[0].function;
    expect([name, JSON.parse(text as string)]).toEqual(['get_weather', { city: 'Oslo' }]);
  });

  it('is made, and its result answered, in the same message', async () => {
    const seen: string[] = [];
    const parameters = call;
    const execute = (args: object): string => (seen.push(JSON.stringify(args)), 'rain');
    const chat = model.chat(conversation('{"name": "get_weather", "arg'), {
      tools: { get_weather: { parameters, execute } },
      toolChoice: 'required',
      continueFinalMessage: true,
      maxTokens: 60,
      temperature: 0,
    });
    const { messages, steps } = await chat.result();
    expect([seen, steps, messages.map(({ role }) => role)]).toEqual([['{"city":"Oslo"}'], 2, ['assistant', 'tool', 'assistant']]);
  });

  it('to Anthropic, of a tool that is named', async () => {
    const { body } = await post('/v1/messages', {
      messages: conversation('{"name": "get_weather", "argu'),
      tools: [{ name: 'get_weather', input_schema: call }],
      tool_choice: { type: 'tool', name: 'get_weather' },
      model: 'm',
      max_tokens: 99,
    });
    expect([body.content, body.stop_reason]).toMatchObject([
      [{ type: 'tool_use', name: 'get_weather', input: { city: 'Oslo' } }],
      'tool_use',
    ]);
  });
});
