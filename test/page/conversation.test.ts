/**
 * The page's requests: messages, options, blocks of Markdown. Browsers check what it shows
 * (test/runtime/checks/page.mjs).
 */
import { describe, expect, it } from 'vitest';
import { canGoOn, wireMessages } from '../../page/src/answer.ts';
import { failureOf, nameOnPage } from '../../page/src/backend.ts';
import { DEFAULT_SETTINGS, NUMBER_FIELDS, optionsOf, rowOf, toolsOf } from '../../page/src/settings.ts';
import { titleOf } from '../../page/src/tree.ts';
import { SAMPLER_NUMBERS, resolveSamplerOptions } from '../../src/sample/options.ts';
import { message } from './message.ts';

describe('messages', () => {
  it('a system prompt, calls and their results, in OpenAI’s spelling', () => {
    const calls = [{ id: 'c1', name: 'add', arguments: '{"a": 1}' }];
    expect(
      wireMessages('Be kind.', [message('user', 'Hi'), message('assistant', '', { calls }), message('tool', '2', { callId: 'c1' })]),
    ).toEqual([
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: '', tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a": 1}' } }] },
      { role: 'tool', content: '2', tool_call_id: 'c1' },
    ]);
  });

  it('empty answers are left out, and the messages around them are joined', () => {
    expect(wireMessages(' ', [message('user', 'a'), message('assistant', '', { state: 'failed' }), message('user', 'b')])).toEqual([
      { role: 'user', content: 'a\n\nb' },
    ]);
  });

  it('files are in fences that they do not contain', () => {
    const attachments = [{ name: 'a.md', text: 'x\n````\ny\n' }];
    expect(wireMessages('', [message('user', 'Look', { attachments })])[0].content).toBe('Look\n\na.md:\n`````\nx\n````\ny\n`````');
  });

  it('answers that were stopped, cut or interrupted can be continued', () => {
    const states = ['stopped', 'length', 'failed', 'done', 'streaming'] as const;
    expect(states.map((state) => canGoOn(message('assistant', 'text', { state })))).toEqual([true, true, true, false, false]);
    expect(canGoOn(message('assistant', '', { state: 'stopped' }))).toBe(false);
  });

  it('titles are the first line, and not long', () => {
    expect(titleOf('  Hello   there\nand more')).toBe('Hello there');
    expect(titleOf('x'.repeat(100))).toHaveLength(58);
  });
});

describe('settings', () => {
  it('options that are not set are not sent', () => expect(optionsOf(DEFAULT_SETTINGS)).toEqual({}));

  it('every number of the sampler has a field, whose bounds are the sampler’s', () => {
    const fields = NUMBER_FIELDS.flatMap(({ fields }) => fields.map(({ name }) => name));
    expect(fields.filter((name) => name !== 'maxTokens').sort()).toEqual(Object.keys(SAMPLER_NUMBERS).sort());
    expect(fields.every((name) => rowOf(name).least <= rowOf(name).most)).toBe(true);
  });

  it('all of them together are options that the sampler takes', () => {
    const numbers = { temperature: 0.5, topK: 10, maxTokens: 5 };
    const options = optionsOf({
      ...DEFAULT_SETTINGS,
      numbers,
      stop: 'END\n\\n\\n',
      drySequenceBreakers: '\\n\n:',
      logitBias: '{"5": -1}',
      format: 'json_schema',
      schema: '{"type": "object"}',
      tools: '[{"name": "f"}]',
      thinking: 'off',
    });
    expect(options).toEqual({
      ...numbers,
      stop: ['END', '\n\n'],
      drySequenceBreakers: ['\n', ':'],
      logitBias: { 5: -1 },
      responseFormat: { type: 'json_schema', schema: { type: 'object' } },
      tools: [{ type: 'function', function: { name: 'f' } }],
      toolChoice: 'auto',
      templateVariables: { enable_thinking: false },
    });
    expect(() => resolveSamplerOptions({ ...numbers, drySequenceBreakers: options.drySequenceBreakers })).not.toThrow();
  });

  it('a text without turns has no tools', () => {
    expect(optionsOf({ ...DEFAULT_SETTINGS, mode: 'text', tools: '[{"name": "f"}]' })).toEqual({});
  });

  it.each([
    ['tools', '{nothing', /^Tools .* not JSON/],
    ['tools', '[1]', /^Tools .* of another kind/],
    ['logitBias', '{"1": "a"}', /^Logit bias .* of another kind/],
  ] as const)('%s: %s is refused', (name, value, expected) => {
    expect(() => optionsOf({ ...DEFAULT_SETTINGS, [name]: value })).toThrow(expected);
  });

  it('tools are taken as one function, one tool, or a list', () => {
    const wanted = [{ type: 'function', function: { name: 'f' } }];
    for (const given of ['{"name": "f"}', '{"type": "function", "function": {"name": "f"}}', '[{"name": "f"}]'])
      expect(toolsOf(given)).toEqual(wanted);
    expect(toolsOf(' ')).toEqual([]);
  });
});

it('errors are sentences with their codes', () => {
  expect(failureOf(Object.assign(new Error('no room'), { code: 'ERR_OUT_OF_MEMORY' }))).toEqual({
    message: 'No room.',
    code: 'ERR_OUT_OF_MEMORY',
  });
  // Settings are named as on the page, in whatever spelling the error has them.
  nameOnPage({ contextLength: 'context of this test', mmproj: 'the projector' });
  for (const [said, shown] of [
    [
      'the prompt has 9 tokens, the context 8; load the model with a larger contextLength',
      'load the model with a larger context of this test.',
    ],
    ['generate: temperature is -1; expected a number', '“Temperature” is -1; expected a number.'],
    ["'top_p' is 5; expected a number", '“Top p” is 5; expected a number.'],
    ['the seed is fine', 'The seed is fine.'],
    ['mmproj makes embeddings of 64 numbers', 'The projector makes embeddings of 64 numbers.'],
    ['grammar and responseFormat are both given', 'Grammar and “The answer is” are both given.'],
  ])
    expect(failureOf(new Error(said)).message.endsWith(shown), failureOf(new Error(said)).message).toBe(true);
  expect(failureOf('what?')).toEqual({ message: 'What?' });
});
