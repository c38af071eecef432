/** Arguments of calls as they are written, through the official clients of all three protocols. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { createHandler } from '../../src/server/handler.ts';
import { ownTemplates } from '../chat/templates.ts';
import { scriptedBackend } from './backend.ts';

const city = 'São Paulo';
const args = `{"city": "${city}", "days": 3}`;
/** The same call in notations of both kinds: JSON, and elements whose arguments become JSON. */
const answers: Readonly<Record<string, string>> = {
  hermes: `<tool_call>\n{"name": "get_weather", "arguments": ${args}}\n</tool_call>`,
  qwen3Coder: `<tool_call>\n<function=get_weather>\n<parameter=city>\n${city}\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>`,
  mistral: `[TOOL_CALLS]get_weather[ARGS]${args}`,
  deepseek: `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>${args}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
};
const parameters = { type: 'object' as const, properties: { city: { type: 'string' }, days: { type: 'integer' } } };
const model = 'scripted';
const user = [{ role: 'user' as const, content: 'weather' }];

/** These templates begin the answer with reasoning. */
const said = (family: string): string => (/qwen3Coder|deepseek/.test(family) ? '</think>' : '') + answers[family];

function clients(family: string) {
  const handler = createHandler(scriptedBackend(() => said(family), { template: ownTemplates[family] }));
  const send = (url: string | URL | Request, init?: RequestInit): Promise<Response> => handler(new Request(url, init));
  return {
    openai: new OpenAI({ apiKey: 'key', baseURL: 'http://server/v1', maxRetries: 0, fetch: send }),
    anthropic: new Anthropic({ apiKey: 'key', baseURL: 'http://server', maxRetries: 0, fetch: send }),
  };
}
/** A number of tokens (bytes) with which the answer ends inside the city. */
const limitOf = (family: string): number => new TextEncoder().encode(said(family).split(' Paulo')[0]).length;
const begun = '{"city": "São';

describe.each(Object.keys(answers))('%s', (family) => {
  const { openai, anthropic } = clients(family);

  it('chat.completions: deltas are the arguments, and a cut call ends with length', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'get_weather', parameters } }];
    const stream = openai.chat.completions.stream({ model, messages: user, tools });
    const deltas: string[] = [];
    stream.on('tool_calls.function.arguments.delta', (event) => void deltas.push(event.arguments_delta));
    const [choice] = (await stream.finalChatCompletion()).choices;
    expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } });
    expect(choice.message.tool_calls![0]).toMatchObject({ function: { name: 'get_weather', arguments: args } });
    expect(deltas.length).toBeGreaterThan(10);
    expect(deltas.join('')).toBe(args);

    const cut = await openai.chat.completions.create({ model, messages: user, tools, max_tokens: limitOf(family) });
    expect(cut.choices[0]).toMatchObject({
      finish_reason: 'length',
      message: { content: null, tool_calls: [{ function: { name: 'get_weather', arguments: begun } }] },
    });
  });

  it('messages: input_json_delta, and a cut call ends with max_tokens', async () => {
    const tools = [{ name: 'get_weather', input_schema: parameters }];
    const stream = anthropic.messages.stream({ model, messages: user, tools, max_tokens: 1000 });
    const snapshots: unknown[] = [];
    let joined = '';
    stream.on('inputJson', (delta, snapshot) => {
      joined += delta;
      snapshots.push(structuredClone(snapshot));
    });
    const message = await stream.finalMessage();
    expect(message).toMatchObject({ stop_reason: 'tool_use', content: [{ type: 'tool_use', input: { city, days: 3 } }] });
    expect(joined).toBe(args);
    expect(snapshots).toContainEqual({ city });

    const ask = { model, messages: user, tools, max_tokens: limitOf(family) };
    const whole = await anthropic.messages.create(ask);
    const streamed = await anthropic.messages.stream(ask).finalMessage();
    const cut = (input: object) => ({ stop_reason: 'max_tokens', content: [{ type: 'tool_use', name: 'get_weather', input }] });
    expect(whole).toMatchObject(cut({ city: 'São' }));
    // The client itself leaves out a string that is not complete.
    expect(streamed).toMatchObject(cut({}));
  });

  it('responses: function_call_arguments.delta, and a cut item is incomplete', async () => {
    const tools = [{ type: 'function' as const, name: 'get_weather', parameters, strict: false }];
    const ask = { model, input: 'weather', tools };
    const deltas: string[] = [];
    const types = new Set<string>();
    for await (const event of await openai.responses.create({ ...ask, stream: true })) {
      types.add(event.type);
      if (event.type === 'response.function_call_arguments.delta') deltas.push(event.delta);
      if (event.type === 'response.function_call_arguments.done') expect(event.arguments).toBe(args);
      if (event.type === 'response.completed')
        expect(event.response.output).toMatchObject([{ type: 'function_call', status: 'completed' }]);
    }
    expect([...types].filter((type) => type.includes('output_text'))).toEqual([]);
    expect(deltas.length).toBeGreaterThan(10);
    expect(deltas.join('')).toBe(args);

    const cut = await openai.responses.create({ ...ask, max_output_tokens: limitOf(family) });
    expect(cut).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ type: 'function_call', name: 'get_weather', arguments: begun, status: 'incomplete' }],
    });
  });
});
