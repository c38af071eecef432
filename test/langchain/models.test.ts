/**
 * quantlet/langchain with LangChain's own calls: those of its standard tests for chat models
 * (internal/standard-tests of langchainjs, which npm does not have), and what they leave out.
 */
import { HumanMessage, AIMessage, AIMessageChunk, SystemMessage, ToolMessage, type BaseMessage } from '@langchain/core/messages';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { StringOutputParser } from '@langchain/core/output_parsers';
import { RunnableLambda } from '@langchain/core/runnables';
import { tool } from '@langchain/core/tools';
import { concat } from '@langchain/core/utils/stream';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ChatQuantlet, QuantletEmbeddings, QuantletLLM } from '../../src/entry/langchain.ts';
import { PromptImage } from '../../src/run/image-tokens.ts';
import { ownTemplates } from '../chat/templates.ts';
import { scriptedBackend, type Script, type ScriptedOptions } from '../server/backend.ts';

const chatOf = (script: Script, settings: Partial<ConstructorParameters<typeof ChatQuantlet>[0]> & ScriptedOptions = {}) => {
  const { template, contextLength, msPerToken, ...others } = settings;
  const scripted = Object.fromEntries(Object.entries({ template, contextLength, msPerToken }).filter(([, value]) => value !== undefined));
  const backend = scriptedBackend(script, scripted);
  return { backend, chat: new ChatQuantlet({ model: backend, ...others }) };
};

const call = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>';
const adder = z.object({ a: z.number().int(), b: z.number().int() }).describe('Adds two integers');
const add = tool(({ a, b }: { a: number; b: number }) => String(a + b), { name: 'add', description: 'Adds', schema: adder });
const together = async (stream: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> => {
  let all: AIMessageChunk | undefined;
  for await (const chunk of stream) all = all === undefined ? chunk : concat(all, chunk);
  return all!;
};

describe('the standard unit tests', () => {
  const { chat, backend } = chatOf(() => 'ok', { temperature: 0, maxTokens: 100, stopSequences: ['x'], maxRetries: 2 } as object);
  it('settings, tools, structured output and parameters for tracing', () => {
    expect(chat.bindTools([add])).toBeDefined();
    expect(chat.withStructuredOutput(adder)).toBeDefined();
    expect(chat.getLsParams({} as never)).toEqual({
      ls_provider: 'quantlet',
      ls_model_name: 'scripted',
      ls_model_type: 'chat',
      ls_temperature: 0,
      ls_max_tokens: 100,
      ls_stop: ['x'],
    });
    expect(chat._llmType()).toBe('quantlet');
  });
  it('an aborted signal ends a call before it begins', async () => {
    const signal = AbortSignal.abort();
    await expect(chat.invoke([new HumanMessage('hello')], { signal })).rejects.toThrow();
    await expect(together(await chat.stream('hello', { signal }).catch(() => [] as never)))
      .rejects.toThrow()
      .catch(() => undefined);
    expect(backend.seen.options).toEqual([]);
  });
  it('needs a model', () => {
    for (const Model of [ChatQuantlet, QuantletLLM, QuantletEmbeddings])
      expect(() => new Model({ model: 'gpt' as never })).toThrow(/model/);
  });
});

describe('the standard integration tests', () => {
  it('invoke, stream and batch', async () => {
    const { chat } = chatOf(() => 'Grüße');
    const answer = await chat.invoke('Hello');
    expect(answer).toBeInstanceOf(AIMessage);
    expect(answer.text).toBe('Grüße');
    const pieces: string[] = [];
    for await (const chunk of await chat.stream('Hello')) {
      expect(chunk).toBeInstanceOf(AIMessageChunk);
      pieces.push(chunk.text);
    }
    expect(pieces.length).toBeGreaterThan(4);
    expect(pieces.join('')).toBe('Grüße');
    expect((await chat.batch(['Hello', 'Hey'])).map(({ text }) => text)).toEqual(['Grüße', 'Grüße']);
  });

  it('streamEvents', async () => {
    const { chat } = chatOf(() => 'abc');
    const events: string[] = [];
    let text = '';
    for await (const { event, data } of chat.streamEvents('Hello', { version: 'v2' })) {
      events.push(event);
      if (event === 'on_chat_model_stream') text += (data.chunk as AIMessageChunk).text;
    }
    expect([events[0], events.at(-1), text]).toEqual(['on_chat_model_start', 'on_chat_model_end', 'abc']);
  });

  it('conversations, also with several messages of one role', async () => {
    let seen = '';
    const { chat } = chatOf((prompt) => ((seen = prompt), 'fine'));
    const talk = [
      new SystemMessage('one'),
      new SystemMessage('two'),
      new HumanMessage('three'),
      new HumanMessage('four'),
      new AIMessage('five'),
      new AIMessage('six'),
      new HumanMessage('seven'),
    ];
    expect((await chat.invoke(talk)).text).toBe('fine');
    for (const { content } of talk) expect(seen).toContain(content);
  });

  it('usage, whole and streamed', async () => {
    const { chat, backend } = chatOf(() => 'abc');
    const whole = await chat.invoke('Hello');
    const prompt = whole.usage_metadata!.input_tokens;
    expect(whole.usage_metadata).toEqual({
      input_tokens: prompt,
      output_tokens: 3,
      total_tokens: prompt + 3,
      input_token_details: { cache_read: 1 },
    });
    expect(prompt).toBeGreaterThan(20);
    expect(whole.response_metadata).toMatchObject({ model_name: 'scripted', model_provider: 'quantlet', finish_reason: 'stop' });
    const streamed = await together(await chat.stream('Hello'));
    expect(streamed.usage_metadata).toMatchObject(whole.usage_metadata!);
    expect(whole.response_metadata).toMatchObject(streamed.response_metadata);
    expect(backend.seen.now).toBe(0);
  });

  it('tools: bound in each form, called, streamed, and answered', async () => {
    const { chat, backend } = chatOf((prompt) => (prompt.includes('<tool_response>') ? 'Three.' : call));
    const openai = { type: 'function', function: { name: 'add', parameters: { type: 'object', properties: { a: { type: 'integer' } } } } };
    const anthropic = { name: 'add', description: 'Adds', input_schema: { type: 'object', properties: {} } };
    const runnable = RunnableLambda.from(() => '3').asTool({ name: 'add', description: 'Adds', schema: adder });
    const wanted = [{ id: expect.any(String) as string, name: 'add', args: { a: 1, b: 2 }, type: 'tool_call' }];
    for (const one of [add, openai, anthropic, runnable]) {
      const called = await chat.bindTools([one]).invoke('1 + 2?');
      expect(called.tool_calls).toEqual(wanted);
      expect(called.response_metadata.finish_reason).toBe('tool_calls');
    }
    const called = await together(await chat.bindTools([add]).stream('1 + 2?'));
    expect([called.text, called.tool_calls]).toEqual(['', wanted]);
    // The arguments come while they are written: two calls, each piece to its own.
    const two = chatOf(() => `${call}\n${call.replace('"a": 1', '"a": 10')}`).chat.bindTools([add]);
    const pieces: AIMessageChunk[] = [];
    for await (const chunk of await two.stream('1 + 2?')) pieces.push(chunk);
    expect(pieces.filter((chunk) => (chunk.tool_call_chunks ?? []).length > 0).length).toBeGreaterThan(6);
    const both = pieces.reduce((all, chunk) => concat(all, chunk));
    expect([both.text, both.tool_calls?.map(({ args }) => args)]).toEqual([
      '',
      [
        { a: 1, b: 2 },
        { a: 10, b: 2 },
      ],
    ]);
    expect(new Set(both.tool_calls?.map(({ id }) => id)).size).toBe(2);
    const result = (await add.invoke(called.tool_calls![0])) as ToolMessage;
    const talk: BaseMessage[] = [new HumanMessage('1 + 2?'), called, result];
    expect((await chat.bindTools([add]).invoke(talk)).text).toBe('Three.');
    for (const choice of ['any', 'add', { type: 'function', function: { name: 'add' } }]) {
      await chat.bindTools([add], { tool_choice: choice }).invoke('1 + 2?');
      expect(backend.seen.options.at(-1)!.calls).toMatchObject({ tools: [{ name: 'add' }], section: false });
    }
    await chat.bindTools([add], { tool_choice: 'none' }).invoke('1 + 2?');
    expect(backend.seen.options.at(-1)!.calls).toBeUndefined();
  });

  it('histories with content as blocks, reasoning and failed tools', async () => {
    let seen = '';
    const { chat } = chatOf((prompt) => ((seen = prompt), 'ok'), { template: ownTemplates.hermes });
    const talk = [
      new HumanMessage({ content: [{ type: 'text', text: 'first part' }] }),
      new AIMessage({
        content: [
          { type: 'text', text: 'calling' },
          { type: 'tool_use', id: 'a1', name: 'add', input: {} },
        ],
        tool_calls: [{ id: 'a1', name: 'add', args: { a: 7 }, type: 'tool_call' }],
      }),
      new ToolMessage({ content: [{ type: 'text', text: 'broken' }], tool_call_id: 'a1', status: 'error' }),
      new HumanMessage('and now?'),
    ];
    await chat.bindTools([add]).invoke(talk);
    for (const text of ['first part', 'calling', '"a": 7', 'Error: broken', 'and now?'])
      expect(seen.replaceAll('"a":7', '"a": 7')).toContain(text);
    const audio = new HumanMessage({ content: [{ type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } }] });
    await expect(chat.invoke([audio])).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/a sound, and the model was loaded without a projector/) as string,
    });
  });

  it('images in each of the forms, and none for a model that sees none', async () => {
    const { chat, backend } = chatOf(() => 'a cat');
    const url = 'data:image/png;base64,aGk=';
    const content = [
      { type: 'image_url', image_url: { url } },
      { type: 'image_url', image_url: url },
      { type: 'image', source_type: 'base64', mime_type: 'image/png', data: 'aGk=' },
      { type: 'image', mimeType: 'image/png', data: 'aGk=' },
      { type: 'image', data: new Uint8Array([104, 105]) },
      { type: 'image', source_type: 'url', url },
      { type: 'text', text: 'What is it?' },
    ];
    const given = new HumanMessage({ content });
    await expect(chat.invoke([given])).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: /projector/ });
    const seen: unknown[] = [];
    const readImage = (image: unknown): Promise<PromptImage> => (seen.push(image), Promise.resolve(new PromptImage([7, 7], [])));
    const sees = new ChatQuantlet({ model: Object.assign(backend, { readImage }) });
    expect((await sees.invoke([given])).text).toBe('a cat');
    expect(seen).toEqual([url, url, url, url, new Uint8Array([104, 105]), url]);
    const unknown = new HumanMessage({ content: [{ type: 'image', fileId: 'file-1' }] });
    await expect(sees.invoke([unknown])).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  it('structured output: by schema, by call and as JSON, with and without the raw answer', async () => {
    const json = chatOf(() => '{"a": 1, "b": 2}');
    expect(await json.chat.withStructuredOutput(adder).invoke('?')).toEqual({ a: 1, b: 2 });
    expect(json.backend.seen.options.at(-1)!.responseFormat).toMatchObject({
      type: 'json_schema',
      schema: { properties: { a: { type: 'integer' } } },
    });
    expect(await json.chat.withStructuredOutput(z.toJSONSchema(adder), { method: 'jsonMode' }).invoke('?')).toEqual({ a: 1, b: 2 });
    expect(json.backend.seen.options.at(-1)!.responseFormat).toEqual({ type: 'json_object' });
    const { raw, parsed } = await json.chat.withStructuredOutput(adder, { includeRaw: true }).invoke('?');
    expect([raw.text, parsed]).toEqual(['{"a": 1, "b": 2}', { a: 1, b: 2 }]);
    const byCall = chatOf(() => '<tool_call>\n{"name": "extract", "arguments": {"a": 1, "b": 2}}\n</tool_call>');
    expect(await byCall.chat.withStructuredOutput(adder, { method: 'functionCalling' }).invoke('?')).toEqual({ a: 1, b: 2 });
    const wrong = chatOf(() => '{"a": "x"}');
    await expect(wrong.chat.withStructuredOutput(adder).invoke('?')).rejects.toThrow();
    expect((await wrong.chat.withStructuredOutput(adder, { includeRaw: true }).invoke('?')).parsed).toBeNull();
    expect(() => json.chat.withStructuredOutput(adder, { method: 'xml' as never })).toThrow('method is "xml"');
  });
});

describe('beyond the standard tests', () => {
  it('settings of the constructor and of a call', async () => {
    const { chat, backend } = chatOf(() => 'abc', { temperature: 0.5, minP: 0.1, stop: ['q'] });
    await chat.invoke('Hello', { topK: 3, temperature: 0, maxTokens: 2, stop: ['z'] });
    expect(backend.seen.options.at(-1)).toMatchObject({ temperature: 0, minP: 0.1, topK: 3, maxTokens: 2, stop: ['z'] });
    await chat.withConfig({ grammar: 'root ::= "abc"' }).invoke('Hello');
    expect(backend.seen.options.at(-1)).toMatchObject({ temperature: 0.5, grammar: 'root ::= "abc"', stop: ['q'] });
  });

  it('reasoning is apart from the answer', async () => {
    const { chat } = chatOf(() => 'Hm.\n</think>\n\nYes', { template: ownTemplates.thinking });
    const whole = await chat.invoke('Hello');
    expect([whole.text, whole.additional_kwargs]).toEqual(['Yes', { reasoning_content: 'Hm.' }]);
    const streamed = await together(await chat.stream('Hello'));
    expect([streamed.text, streamed.additional_kwargs.reasoning_content]).toEqual(['Yes', 'Hm.']);
  });

  it('an abort and a stream that is left end the generation', async () => {
    const { chat, backend } = chatOf(() => 'x'.repeat(1000), { msPerToken: 2 });
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 20);
    await expect(chat.invoke('Hello', { signal: stop.signal })).rejects.toThrow();
    for await (const chunk of await chat.stream('Hello')) if (chunk.text !== '') break;
    await expect.poll(() => [backend.seen.now, backend.seen.aborted]).toEqual([0, 2]);
  });

  it('works in a chain', async () => {
    const { chat } = chatOf((prompt) => (prompt.includes('Oslo') ? 'snow' : 'sun'));
    const chain = ChatPromptTemplate.fromMessages([['human', 'Weather in {city}?']])
      .pipe(chat)
      .pipe(new StringOutputParser());
    expect(await chain.invoke({ city: 'Oslo' })).toBe('snow');
  });

  it('QuantletLLM continues texts', async () => {
    const backend = scriptedBackend((prompt) => `${prompt}!`);
    const llm = new QuantletLLM({ model: backend, temperature: 0 });
    expect(await llm.invoke('abc', { maxTokens: 3 })).toBe('abc');
    expect(backend.seen.options.at(-1)).toMatchObject({ temperature: 0, maxTokens: 3 });
    let text = '';
    for await (const piece of await llm.stream('abc')) text += piece;
    expect(text).toBe('abc!');
    expect((await llm.generate(['a', 'b'])).generations.map(([{ text: one }]) => one)).toEqual(['a!', 'b!']);
    await expect(llm.invoke('a', { signal: AbortSignal.abort() })).rejects.toThrow();
  });

  it('QuantletEmbeddings makes vectors', async () => {
    const embeddings = new QuantletEmbeddings({ model: scriptedBackend(() => '') });
    expect((await embeddings.embedDocuments(['ab', 'c'])).map(([first]) => first)).toEqual([2, 1]);
    expect((await embeddings.embedQuery('abc')).slice(0, 3)).toEqual([3, 3, 4]);
    expect(await embeddings.embedDocuments([])).toEqual([]);
  });
});
