/**
 * Reasoning effort in each protocol's own fields, passed to templates under their own names. A
 * budget of 0 forbids reasoning.
 */
import { describe, expect, it } from 'vitest';
import { createChatTemplate } from '../../src/chat/template.ts';
import { reasoningOptions } from '../../src/server/protocols/reasoning.ts';
import { createHandler } from '../../src/server/handler.ts';
import { everyTemplate } from '../chat/templates.ts';
import { scriptedBackend } from './backend.ts';

let seen = '';
/** Shows the template's variables, and has marks that show it knows reasoning. */
const names = ['enable_thinking', 'thinking', 'thinking_mode', 'thinking_budget', 'reasoning_effort'];
const template = `{% for m in messages %}{{ m.content }}{% endfor %} ${names.map((name) => `{{ ${name} if ${name} is defined else '-' }}`).join(' ')}{# <think> </think> #}`;
const backend = scriptedBackend(
  (prompt) => {
    seen = prompt;
    return 'ok';
  },
  { template },
);

async function told(path: string, fields: object, defaults: object = {}): Promise<{ told: string; budget: number | undefined }> {
  const handler = createHandler(backend, { chatDefaults: defaults });
  const message = [{ role: 'user', content: 'hi' }];
  const body = path === '/v1/responses' ? { input: message, ...fields } : { messages: message, max_tokens: 9, ...fields };
  const request = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await handler(new Request(`http://server${path}`, request));
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  return { told: seen.replace(/^hi /, ''), budget: backend.seen.options.at(-1)?.spanBudget?.tokens };
}

const off = { told: 'False False disabled 0 -', budget: 0 };
const on = (effort: string) => ({ told: `True True enabled - ${effort}`, budget: undefined });
const [chat, responses, messages] = ['/v1/chat/completions', '/v1/responses', '/v1/messages'];

describe('reasoning that a request asks for', () => {
  it.each<[string, object, object]>([
    [chat, {}, { told: '- - - - -', budget: undefined }],
    [chat, { reasoning_effort: 'none' }, off],
    [chat, { thinking: { type: 'disabled' } }, off],
    [chat, { reasoning_effort: 'minimal' }, on('minimal')],
    [chat, { reasoning_effort: 'xhigh' }, on('xhigh')],
    [chat, { reasoning_effort: 'none', chat_template_kwargs: { enable_thinking: true } }, { told: 'True False disabled 0 -', budget: 0 }],
    [chat, { reasoning_effort: 'none', reasoning_budget_tokens: 5 }, { ...off, budget: 5 }],
    [responses, { reasoning: { effort: 'none' } }, off],
    [responses, { reasoning: { effort: 'low' } }, on('low')],
    [messages, { thinking: { type: 'disabled' } }, off],
    [messages, { thinking: { type: 'disabled' }, output_config: { effort: 'high' } }, off],
    [messages, { thinking: { type: 'enabled', budget_tokens: 1024 } }, { ...on('-'), budget: 1024 }],
    [messages, { thinking: { type: 'adaptive' }, output_config: { effort: 'max' } }, on('max')],
  ])('%s %j', async (path, fields, want) => expect(await told(path, fields)).toEqual(want));

  it("goes before the server's own defaults", async () => {
    const defaults = { templateVariables: { enable_thinking: true, reasoning_effort: 'high' }, reasoningBudget: 100 };
    expect(await told(chat, { reasoning_effort: 'none' }, defaults)).toEqual(off);
    expect(await told(chat, {}, defaults)).toEqual({ told: 'True - - - high', budget: 100 });
  });
});

describe('an effort that a template does not know', () => {
  const some = createChatTemplate(
    `{% if reasoning_effort is defined and reasoning_effort not in ['low', 'high'] %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}`,
  );
  it.each([
    ['minimal', 'low'],
    ['low', 'low'],
    ['medium', 'low'],
    ['high', 'high'],
    ['max', 'high'],
    ['a word of its own', 'a word of its own'],
  ])('%s is %s', (effort, want) => expect(reasoningOptions(some, { effort }).templateVariables).toMatchObject({ reasoning_effort: want }));
});

/** Templates, some of real models, and what they write for the efforts `none` and `medium`. */
const efforts: readonly (readonly [name: string, none: string, medium: string])[] = [
  ['glm', '<think></think>', ''],
  ['Qwen-Qwen3-0.6B.jinja', '<think>\n\n</think>', ''],
  ['deepseek-ai-DeepSeek-V3.1.jinja', '</think>', '<think>'],
  ['ibm-granite-granite-3.3-2B-Instruct.jinja', '', 'thought process'],
  ['Kimi-K3.jinja', 'response', 'think'],
  ['MiniMax-M3.jinja', 'thinking mode: disabled', 'thinking mode: enabled'],
  ['ByteDance-Seed-OSS.jinja', 'thinking budget is 0', ''],
  ['tencent-Hy3.jinja', 'reasoning_effort:no_think', 'reasoning_effort:low'],
];

describe('templates of models', () => {
  const prompt = (source: string, effort: string): string => {
    const template = createChatTemplate(source);
    const variables = Object.entries(reasoningOptions(template, { effort }).templateVariables).filter(([, value]) => value !== undefined);
    return template.render({ messages: [{ role: 'user', content: 'hi' }], extra: Object.fromEntries(variables) });
  };
  const known = everyTemplate.flatMap(([name, source]) =>
    efforts.filter(([of]) => of === name).map((effort) => [...effort, source] as const),
  );
  it.each(known)('%s', (_, none, medium, source) => {
    expect(prompt(source, 'none')).toContain(none);
    expect(prompt(source, 'medium')).toContain(medium);
    expect(prompt(source, 'none')).not.toBe(prompt(source, 'medium'));
  });
});
