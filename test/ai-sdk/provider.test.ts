import { embedMany, generateObject, generateText, jsonSchema, Output, rerank, stepCountIs, streamText, tool } from 'ai';
import { describe, expect, it } from 'vitest';
import { languageModel } from '../../src/ai-sdk/language-model.ts';
import { embeddingModel, rerankingModel } from '../../src/ai-sdk/vector-models.ts';
import { ownTemplates } from '../chat/templates.ts';
import { scriptedBackend, type Script } from '../server/backend.ts';

// The one unknown setting below is on purpose; its warning need not fill the log.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
const city = jsonSchema<{ city: string }>({
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
});
const weather = () => {
  const asked: string[] = [];
  return {
    asked,
    tools: {
      get_weather: tool({ description: 'Weather', inputSchema: city, execute: ({ city: name }) => (asked.push(name), { sky: 'snow' }) }),
    },
  };
};
const withTools: Script = (prompt) => (prompt.includes('<tool_response>') ? 'Snow in Oslo.' : `One moment.${call}`);

describe('languageModel', () => {
  it('generates text with usage and settings', async () => {
    const backend = scriptedBackend(() => 'Hello, Grüße');
    const result = await generateText({
      model: languageModel(backend),
      system: 'Be kind.',
      prompt: 'Hi',
      temperature: 0,
      seed: 3,
      stopSequences: ['ü'],
      maxOutputTokens: 30,
      providerOptions: { quantlet: { minP: 0.1, nonsense: 1 } },
    });
    expect(result.text).toBe('Hello, Gr');
    expect(result.finishReason).toBe('stop');
    expect(result.usage).toMatchObject({ outputTokens: 11 });
    expect(result.warnings).toMatchObject([{ type: 'unsupported', feature: 'providerOptions.quantlet.nonsense' }]);
    expect(backend.seen.options[0]).toMatchObject({ temperature: 0, seed: 3, minP: 0.1, maxTokens: 30, stop: ['ü'] });
  });

  it('streams text and reasoning', async () => {
    const result = streamText({
      model: languageModel(scriptedBackend(() => 'Hm.\n</think>\n\nYes, 👋', { template: ownTemplates.thinking })),
      prompt: 'Hi',
    });
    const pieces: string[] = [];
    for await (const piece of result.textStream) pieces.push(piece);
    expect(pieces.join('')).toBe('Yes, 👋');
    expect(pieces.length).toBeGreaterThan(3);
    expect(await result.reasoningText).toBe('Hm.');
  });

  it('the reasoning of a call, which the AI SDK 7 sends', async () => {
    let seen = '';
    const template = '{% for m in messages %}{{ m.content }}{% endfor %}<{{ enable_thinking }} {{ reasoning_effort }}>';
    const backend = scriptedBackend((prompt) => ((seen = prompt), 'ok'), { template });
    const prompted = async (reasoning: string | undefined, quantlet?: object): Promise<string> => {
      const call = {
        prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
        reasoning,
        providerOptions: quantlet && { quantlet },
      };
      await languageModel(backend).doGenerate(call as never);
      return seen;
    };
    for (const none of [undefined, 'provider-default']) expect(await prompted(none)).toMatch(/<\s*>$/);
    expect(await prompted('none')).toMatch(/<[Ff]alse\s*>$/);
    expect(backend.seen.options.at(-1)).not.toHaveProperty('reasoning');
    expect(await prompted('high')).toMatch(/<[Tt]rue high>$/);
    expect(await prompted('high', { templateVariables: { reasoning_effort: 'low' } })).toMatch(/<[Tt]rue low>$/);
  });

  it('calls tools and goes on with their results, whole and streamed', async () => {
    const whole = weather();
    const result = await generateText({
      model: languageModel(scriptedBackend(withTools)),
      prompt: 'Weather?',
      tools: whole.tools,
      stopWhen: stepCountIs(3),
    });
    expect([result.text, whole.asked, result.steps.length]).toEqual(['Snow in Oslo.', ['Oslo'], 2]);
    const streamed = weather();
    const stream = streamText({
      model: languageModel(scriptedBackend(withTools)),
      prompt: 'Weather?',
      tools: streamed.tools,
      stopWhen: stepCountIs(3),
    });
    expect(await stream.text).toBe('Snow in Oslo.');
    expect(streamed.asked).toEqual(['Oslo']);
  });

  it('makes objects through a schema', async () => {
    const backend = scriptedBackend((_, { responseFormat }) => (responseFormat?.type === 'json_schema' ? '{"city": "Oslo"}' : 'no'));
    expect((await generateObject({ model: languageModel(backend), schema: city, prompt: 'Where?' })).object).toEqual({ city: 'Oslo' });
    expect(
      (await generateText({ model: languageModel(backend), output: Output.object({ schema: city }), prompt: 'Where?' })).output,
    ).toEqual({ city: 'Oslo' });
    expect(backend.seen.options[0].responseFormat).toMatchObject({ type: 'json_schema', schema: { required: ['city'] } });
  });

  it('stops when it is aborted, and when the stream is left', async () => {
    const backend = scriptedBackend(() => 'x'.repeat(3000), { msPerToken: 1 });
    const controller = new AbortController();
    const aborted = streamText({ model: languageModel(backend), prompt: 'Hi', abortSignal: controller.signal });
    let parts = 0;
    for await (const part of aborted.fullStream) {
      if (part.type === 'text-delta' && ++parts === 3) controller.abort();
      if (part.type === 'abort') break;
    }
    const { stream } = await languageModel(backend).doStream({ prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }] });
    const reader = stream.getReader();
    for (let i = 0; i < 5; i++) await reader.read();
    await reader.cancel();
    for (let i = 0; i < 200 && backend.seen.now > 0; i++) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(backend.seen).toMatchObject({ now: 0, aborted: 2 });
  });

  it('refuses files, and too long prompts, with codes', async () => {
    const model = languageModel(scriptedBackend(() => ''));
    const image = [{ role: 'user' as const, content: [{ type: 'file' as const, data: 'AA==', mediaType: 'image/png' }] }];
    await expect(model.doGenerate({ prompt: image })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    await expect(generateText({ model, prompt: 'a'.repeat(5000), maxRetries: 0 })).rejects.toMatchObject({ code: 'ERR_CONTEXT_FULL' });
  });
});

describe('embeddingModel and rerankingModel', () => {
  const backend = scriptedBackend(() => '');
  it('embeds', async () => {
    const { embeddings, usage } = await embedMany({ model: embeddingModel(backend), values: ['ab', 'abc'] });
    expect(embeddings.map(([first]) => first)).toEqual([2, 3]);
    expect(usage.tokens).toBe(7);
  });
  it('embeds with options under providerOptions.quantlet', async () => {
    const seen: object[] = [];
    const embed = (values: readonly unknown[], options: object): Promise<Float32Array[]> => {
      seen.push(options);
      return Promise.resolve(values.map(() => Float32Array.of(1)));
    };
    const quantlet = { dimensions: 2, truncate: false, prompt: 'query: ', style: 'x' };
    const { warnings } = await embedMany({ model: embeddingModel({ ...backend, embed }), values: ['ab'], providerOptions: { quantlet } });
    expect(seen).toEqual([{ dimensions: 2, truncate: false, prompt: 'query: ' }]);
    expect(warnings).toMatchObject([{ type: 'unsupported', feature: 'providerOptions.quantlet.style' }]);
  });
  it('ranks', async () => {
    const { ranking } = await rerank({ model: rerankingModel(backend), query: 'a', documents: ['b', 'aaa', 'ab'], topN: 2 });
    expect(ranking.map(({ originalIndex }) => originalIndex)).toEqual([1, 2]);
  });
  it('says so where a model cannot', () => {
    expect(() => embeddingModel({ ...backend, embed: undefined })).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
    expect(() => rerankingModel({ ...backend, rank: undefined })).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });
});
