/** Tools whose schemas cannot be held exactly, with a real model, in every protocol. */
import { loadModel, type Model } from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createMatcher } from '../../src/grammar/matcher.ts';
import { createHandler } from '../../src/server/handler.ts';
import { ownTemplates } from '../chat/templates.ts';
import { shippedModel } from '../support.ts';

let model: Model;
let handler: ReturnType<typeof createHandler>;
beforeAll(async () => {
  model = await loadModel(shippedModel, { threads: 1, warmUp: false, contextLength: 1024, chatTemplate: ownTemplates.hermes });
  handler = createHandler(model);
});
afterAll(() => model.dispose());

const messages = [{ role: 'user' as const, content: 'Hi' }];
const easy = {
  type: 'object',
  properties: { n: { type: 'integer', minimum: 0, maximum: 9 } },
  required: ['n'],
  additionalProperties: false,
};
const hard = {
  type: 'object',
  properties: { list: { type: 'array', items: { type: 'string', maxLength: 3 }, uniqueItems: true, maxItems: 3 } },
  required: ['list'],
  additionalProperties: false,
};
const broken = { type: 'object', properties: { a: { $ref: '#/$defs/none' } } };
const RELAXED = [
  { tool: 'hard', pointer: '/properties/list', keyword: 'uniqueItems' },
  { tool: 'broken', pointer: '/properties/a', keyword: '$ref' },
];
const SCHEMAS: Readonly<Record<string, object>> = { easy, hard };

async function post(path: string, body: object) {
  const headers = { 'content-type': 'application/json' };
  const response = await handler(new Request(`http://server${path}`, { method: 'POST', headers, body: JSON.stringify(body) }));
  const text = await response.text();
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- answers of several protocols
  return { status: response.status, text, body: (text.startsWith('{') ? JSON.parse(text) : undefined) as any };
}

const named = (strict: boolean) =>
  Object.entries({ easy, hard, broken }).map(([name, parameters]) => ({
    name,
    parameters,
    ...(strict && name === 'hard' ? { strict } : {}),
  }));
const openai = (strict = false) => named(strict).map((tool) => ({ type: 'function', function: tool }));

describe('a hard tool of many', () => {
  it.each<[string, string, (stream: boolean) => object]>([
    ['chat completions', '/v1/chat/completions', (stream) => ({ messages, tools: openai(), stream, max_tokens: 5 })],
    [
      'responses',
      '/v1/responses',
      (stream) => ({ input: 'Hi', tools: named(false).map((tool) => ({ type: 'function', ...tool })), stream, max_output_tokens: 5 }),
    ],
    [
      "Anthropic's messages",
      '/v1/messages',
      (stream) => ({
        messages,
        tools: named(false).map(({ name, parameters }) => ({ name, input_schema: parameters })),
        stream,
        max_tokens: 5,
      }),
    ],
  ])('%s: does not spoil the request, and the answer says what is held in part', async (_, path, ask) => {
    const whole = await post(path, ask(false));
    expect([whole.status, whole.body.quantlet?.relaxed]).toEqual([200, RELAXED]);
    const streamed = await post(path, ask(true));
    expect([streamed.status, streamed.text]).toEqual([200, expect.stringContaining(`"relaxed":${JSON.stringify(RELAXED)}`)]);
  });

  it.each(['auto', 'required'])('strict is refused by the tool, the path and the keyword: %s', async (tool_choice) => {
    const { status, body } = await post('/v1/chat/completions', { messages, tools: openai(true), tool_choice });
    expect([status, body.error.message]).toEqual([400, expect.stringMatching(/the tool "hard".*#\/properties\/list\/uniqueItems/)]);
  });

  it('the library says the same, also of an answer with one call', async () => {
    const tools = { hard: { parameters: hard }, easy: { parameters: easy } };
    for (const parallelToolCalls of [undefined, false]) {
      const options = { tools, parallelToolCalls, toolChoice: { name: 'hard' }, maxTokens: 200, temperature: 0 };
      const { relaxed, toolCalls, timings } = await model.chat(messages, options).result();
      expect([relaxed, toolCalls.length, timings.promptMs > 0]).toEqual([[{ ...RELAXED[0] }], 1, true]);
    }
  });

  it('the only tool that must be called is refused if its schema cannot be compiled', async () => {
    const tools = [{ type: 'function', function: { name: 'broken', parameters: broken } }];
    const { status, body } = await post('/v1/chat/completions', { messages, tools, tool_choice: 'required' });
    expect([status, body.error.message]).toEqual([400, expect.stringMatching(/the tool "broken", schema #.*does not exist/)]);
    expect((await post('/v1/chat/completions', { messages, tools, max_tokens: 3 })).status).toBe(200);
  });
});

it('calls of a model that writes noise validate, under auto after the mark and if they are required', { timeout: 120_000 }, async () => {
  let called = 0;
  for (let seed = 0; seed < 12; seed++) {
    const auto = seed % 2 === 0;
    const { body } = await post('/v1/chat/completions', {
      messages: auto ? [...messages, { role: 'assistant', content: 'So: <tool_call>\n' }] : messages,
      tools: openai().slice(0, 2),
      tool_choice: auto ? 'auto' : 'required',
      temperature: 1.5,
      seed,
      max_tokens: 200,
    });
    const { finish_reason, message } = body.choices[0];
    if (finish_reason === 'length') continue;
    for (const { function: f } of message.tool_calls ?? []) {
      called++;
      expect(createMatcher({ schema: SCHEMAS[f.name] }).accepts(f.arguments), f.arguments).toBe(true);
    }
    expect(message.tool_calls?.length, JSON.stringify(message)).toBeGreaterThan(0);
  }
  expect(called).toBeGreaterThan(5);
});
