/** chatTransport() with the AI SDK's own chat, which useChat() wraps, and its own stream reader. */
import {
  AbstractChat,
  jsonSchema,
  lastAssistantMessageIsCompleteWithToolCalls,
  tool,
  type ChatState,
  type ChatTransport,
  type UIMessage,
} from 'ai';
import { build } from 'esbuild';
import { describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { chatTransport, type ChatModel, type ChatTransportOptions } from '../../src/ai-sdk/chat-transport.ts';
import { createChat } from '../../src/chat/generation.ts';
import { at } from '../support.ts';
import { ownTemplates } from '../chat/templates.ts';
import { scriptedBackend, type Script, type ScriptedOptions } from '../server/backend.ts';

/** A chat of the AI SDK with a state that is plain data. */
class PlainChat extends AbstractChat<UIMessage> {
  constructor(transport: ChatTransport<UIMessage>, more: { sendAutomatically?: boolean } = {}) {
    const state: ChatState<UIMessage> = {
      status: 'ready',
      error: undefined,
      messages: [],
      pushMessage: (message) => void state.messages.push(message),
      popMessage: () => void state.messages.pop(),
      replaceMessage: (index, message) => void (state.messages[index] = message),
      snapshot: (value) => structuredClone(value),
    };
    super({ state, transport, ...(more.sendAutomatically ? { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls } : {}) });
  }
}

const modelOf = (script: Script, options?: ScriptedOptions) => {
  const backend = scriptedBackend(script, { contextLength: 100_000, ...options });
  const asked: string[] = [];
  const model: ChatModel = {
    chat: (messages, given) => {
      asked.push(JSON.stringify(messages));
      return createChat(() => backend, messages, given);
    },
  };
  return { model, backend, asked };
};
const started = (script: Script, options: ChatTransportOptions = {}, scripted?: ScriptedOptions) => {
  const made = modelOf(script, scripted);
  return { ...made, chat: new PlainChat(chatTransport(made.model, options)) };
};
/** Parts of the last message, without fields that are undefined. */
const last = (chat: PlainChat): unknown => JSON.parse(JSON.stringify(chat.messages.at(-1)!.parts));

const call = (city: string): string => `<tool_call>\n{"name": "weather", "arguments": {"city": ${JSON.stringify(city)}}}\n</tool_call>`;
const withTools: Script = (prompt) => (prompt.includes('<tool_response>') ? 'Snow.' : `One moment.${call('Oslo')}`);

describe('an answer', () => {
  it('has reasoning and text as they come, and its metadata', async () => {
    const { chat, asked } = started(
      () => 'Hm.\n</think>\n\nYes, 👋',
      { system: 'Be kind.', messageMetadata: ({ ids }) => ({ tokens: ids.length }) },
      { template: ownTemplates.thinking },
    );
    await chat.sendMessage({ text: 'Hi' });
    expect([chat.status, chat.error]).toEqual(['ready', undefined]);
    expect(last(chat)).toMatchObject([
      { type: 'step-start' },
      { type: 'reasoning', text: 'Hm.', state: 'done' },
      { type: 'text', text: 'Yes, 👋', state: 'done' },
    ]);
    expect(chat.messages.at(-1)!.metadata).toEqual({ tokens: expect.any(Number) as number });
    await chat.sendMessage({ text: 'And now?' });
    expect(JSON.parse(asked[1])).toEqual([
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
      { role: 'assistant', content: 'Yes, 👋', reasoning_content: 'Hm.' },
      { role: 'user', content: [{ type: 'text', text: 'And now?' }] },
    ]);
    await chat.regenerate();
    expect(JSON.parse(asked[2])).toEqual(JSON.parse(asked[1]));
  });

  it('is stopped by stop(), and what was written stays', async () => {
    const { chat, backend } = started(() => 'word '.repeat(10_000), {}, { msPerToken: 1 });
    const sending = chat.sendMessage({ text: 'Hi' });
    await vi.waitFor(() => expect(JSON.stringify(chat.messages.at(-1)!.parts)).toContain('word'));
    await chat.stop();
    await sending;
    expect(chat.status).toBe('ready');
    await vi.waitFor(() => expect([backend.seen.now, backend.seen.aborted]).toEqual([0, 1]));
    expect(JSON.stringify(last(chat))).toContain('word');
  });

  it('that fails is an error of the chat, and so are files that are no images', async () => {
    const { chat } = started(() => 'x', { grammar: 'bad' });
    await chat.sendMessage({ text: 'Hi' });
    expect([chat.status, chat.error?.message]).toEqual(['error', expect.stringContaining('expected a rule')]);
    const { chat: other } = started(() => 'x');
    await other.sendMessage({
      text: 'Hi',
      files: [{ type: 'file', mediaType: 'application/pdf', url: 'data:application/pdf;base64,AAAA' }],
    });
    expect(other.error?.message).toMatch(/a file of type "application\/pdf"/);
    const { chat: blind } = started(() => 'x');
    await blind.sendMessage({ text: 'Hi', files: [{ type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AAAA' }] });
    expect(blind.error?.message).toMatch(/the model was loaded without a projector/);
  });
});

describe('loading', () => {
  it('begins with the first message, once, and again after a failure', async () => {
    const { model } = modelOf(() => 'Hello.');
    const load = vi.fn<() => Promise<ChatModel>>().mockRejectedValueOnce(new Error('offline')).mockResolvedValue(model);
    const chat = new PlainChat(chatTransport(load));
    expect(load).not.toHaveBeenCalled();
    await chat.sendMessage({ text: 'Hi' });
    expect([chat.status, chat.error?.message]).toEqual(['error', 'offline']);
    await chat.sendMessage({ text: 'Hi' });
    await chat.sendMessage({ text: 'Hi' });
    expect([chat.status, load.mock.calls.length]).toEqual(['ready', 2]);
    expect(await chatTransport(load).reconnectToStream()).toBeNull();
  });

  it('can be stopped, and goes on for the next message', async () => {
    const { model } = modelOf(() => 'Hello.');
    let ready = (_: ChatModel): void => {};
    const load = vi.fn(() => new Promise<ChatModel>((resolve) => (ready = resolve)));
    const chat = new PlainChat(chatTransport(load));
    const sending = chat.sendMessage({ text: 'Hi' });
    await vi.waitFor(() => expect(load).toHaveBeenCalled());
    await chat.stop();
    await sending;
    expect(chat.status).toBe('ready');
    ready(model);
    await chat.sendMessage({ text: 'Hi' });
    expect([JSON.stringify(last(chat)).includes('Hello.'), load.mock.calls.length]).toEqual([true, 1]);
  });
});

describe('tools', () => {
  const schemas = {
    zod: z.object({ city: z.string() }),
    "the AI SDK's jsonSchema()": jsonSchema<{ city: string }>({
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    }),
    'a JSON schema': { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  };
  it.each(Object.entries(schemas))('run in the page, with a schema of %s, and the model reads the result', async (_, inputSchema) => {
    const execute = vi.fn(({ city }: { city: string }, _options: { toolCallId: string; abortSignal?: AbortSignal }) => ({
      sky: 'snow',
      city,
    }));
    const { chat, asked } = started(withTools, { tools: { weather: { description: 'Weather', inputSchema, execute } } });
    await chat.sendMessage({ text: 'Weather in Oslo?' });
    const id = expect.any(String) as string;
    const done = {
      type: 'tool-weather',
      toolCallId: id,
      state: 'output-available',
      input: { city: 'Oslo' },
      output: { sky: 'snow', city: 'Oslo' },
    };
    expect(last(chat)).toMatchObject([
      { type: 'step-start' },
      { type: 'text', text: 'One moment.', state: 'done' },
      done,
      { type: 'step-start' },
      { type: 'text', text: 'Snow.', state: 'done' },
    ]);
    expect(execute.mock.calls[0][1]).toMatchObject({ toolCallId: id, abortSignal: expect.any(AbortSignal) as AbortSignal });
    await chat.sendMessage({ text: 'Thanks' });
    expect((JSON.parse(asked[1]) as { role: string }[]).map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
    ]);
    expect(asked[1]).toContain('{\\"sky\\":\\"snow\\",\\"city\\":\\"Oslo\\"}');
  });

  it('of the AI SDK are typed as its tool() makes them; input that breaks the schema is an error for the model', async () => {
    const execute = vi.fn();
    const tools = { weather: tool({ description: 'Weather', inputSchema: z.object({ city: z.enum(['Rome']) }), execute }) };
    const { chat, asked } = started(withTools, { tools });
    await chat.sendMessage({ text: 'Weather in Oslo?' });
    expect(execute).not.toHaveBeenCalled();
    expect(last(chat)).toMatchObject([
      {},
      {},
      { state: 'output-error', errorText: expect.stringContaining('do not follow the schema') as string },
      {},
      { text: 'Snow.' },
    ]);
    await chat.sendMessage({ text: 'Hm' });
    expect(asked[1]).toContain('Error: the arguments do not follow the schema');
  });

  it('without execute end the answer; the page gives the output, and the model goes on', async () => {
    const made = modelOf(withTools);
    const transport = chatTransport(made.model, { tools: { weather: { inputSchema: schemas.zod } } });
    const chat = new PlainChat(transport, { sendAutomatically: true });
    await chat.sendMessage({ text: 'Weather in Oslo?' });
    const [, , part] = last(chat) as { toolCallId: string }[];
    expect(part).toMatchObject({ type: 'tool-weather', state: 'input-available', input: { city: 'Oslo' } });
    await chat.addToolOutput({ tool: 'weather', toolCallId: part.toolCallId, output: 'rain' });
    await vi.waitFor(() => expect(JSON.stringify(last(chat))).toContain('Snow.'));
    expect(chat.messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
  });

  it('whose arguments are cut do not run', async () => {
    const execute = vi.fn();
    const { chat } = started(() => call('Oslo'), { tools: { weather: { inputSchema: schemas.zod, execute } }, maxTokens: 50 });
    await chat.sendMessage({ text: 'Weather in Oslo?' });
    expect(execute).not.toHaveBeenCalled();
    expect(last(chat)).toMatchObject([{}, { type: 'tool-weather', state: 'output-error' }]);
    // The next message leaves the call out or says that it failed, and is answered.
    await chat.sendMessage({ text: 'Again' });
    expect(chat.status).toBe('ready');
  });
});

it('bundles of pages that use other exports of quantlet/ai-sdk do not contain it', async () => {
  const bundle = async (name: string): Promise<string> => {
    const contents = `export { ${name} } from './dist/entry/ai-sdk.js';`;
    const stdin = { contents, resolveDir: at('.') };
    const { outputFiles } = await build({ stdin, bundle: true, format: 'esm', packages: 'external', write: false, logLevel: 'error' });
    return outputFiles[0].text;
  };
  const [with_, without] = await Promise.all([bundle('chatTransport'), bundle('languageModel, embeddingModel')]);
  expect([with_.includes('tool-output-available'), without.includes('tool-output-available')]).toEqual([true, false]);
  expect(with_).not.toMatch(/from\s*["']ai["']/);
});
