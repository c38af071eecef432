/** The prompt contains everything that was said, for any order of roles in a conversation. */
import { describe, expect, it } from 'vitest';
import type { ChatMessage } from '../../src/chat/messages.ts';
import { NAMED_TEMPLATES } from '../../src/chat/named-templates.ts';
import { openReasoning } from '../../src/chat/markers.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { atOnce } from '../../src/slices.ts';
import { orders, weather, wordsOf } from './orders.ts';
import { everyTemplate, ownTemplates } from './templates.ts';

const tokens = { bos: '<BOS>', eos: '<EOS>' };
const say = (role: string, content: ChatMessage['content']): ChatMessage => ({ role, content });

/**
 * The rules of Mistral's templates: alternating turns, ids, a system message only for the last
 * user, no empty answers.
 */
const strict = `{% set ns = namespace(turn=0, system='') %}{% for m in messages %}{% if m.role == 'system' %}{% if not loop.first %}{{ raise_exception('system first') }}{% endif %}{% set ns.system = m.content ~ '\\n\\n' %}{% elif m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}{% if (m.role == 'user') != (ns.turn % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% set ns.turn = ns.turn + 1 %}{% if m.role == 'assistant' and not m.content %}{{ raise_exception('an answer must have content') }}{% endif %}{% if m.role == 'user' %}[INST]{{ ns.system if loop.last }}{{ m.content }}[/INST]{% else %}{{ m.content }}</s>{% endif %}{% elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]{% else %}[TOOL_CALLS]{{ m.tool_calls | tojson }}</s>{% endif %}{% endfor %}{# tools: #}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}{% endif %}`;
/** The last system message replaces the others, and there must be a user message. */
const last = `{% set ns = namespace(system='', user=false) %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content %}{% elif m.role == 'user' %}{% set ns.user = true %}{% endif %}{% endfor %}{% if not ns.user %}{{ raise_exception('No user query found') }}{% endif %}{{ ns.system }}{% for m in messages %}{% if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}`;
/** SmolVLM's template, which accepts only parts. */
const parts = `{% for m in messages %}{{ m.role | capitalize }}{{ ':' if m.content[0].type == 'image' else ': ' }}{% for line in m.content %}{% if line.type == 'text' %}{{ line.text }}{% elif line.type == 'image' %}<image>{% endif %}{% endfor %}<end>{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}`;
const developer = `{% set developer_token = '<dev>' %}{% for m in messages %}{% if m.role == 'developer' %}{{ developer_token }}{% else %}<{{ m.role }}>{% endif %}{{ m.content }}{% endfor %}`;
const noDeveloper = `{% set developer_token = '<dev>' %}{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('Invalid message role') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}`;
/**
 * Like Cohere's template: a result with the id of an earlier group is left out, and others get the
 * number of the first call with their id.
 */
const seenIds = `{% macro number(id) %}{% set ns = namespace(n=0, seen=false) %}{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id == id and not ns.seen %}{{ ns.n }}{% set ns.seen = true %}{% endif %}{% set ns.n = ns.n + 1 %}{% endfor %}{% endfor %}{% endmacro %}{% set ns = namespace(seen=[], n=0) %}{% for m in messages %}{% if m.role == 'tool' %}{% if loop.previtem.role == 'tool' or m.tool_call_id not in ns.seen %}{% set ns.seen = ns.seen + [m.tool_call_id] %}<result {{ number(m.tool_call_id) }}>{{ m.content }}{% endif %}{% elif m.tool_calls %}{{ m.content }}{% for c in m.tool_calls %}<call {{ ns.n }}>{{ c | tojson }}{% set ns.n = ns.n + 1 %}{% endfor %}{% else %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}{{ tools | tojson if tools }}`;
const odd = { strict, last, parts, developer, noDeveloper, seenIds };

/** Parameter schemas with and without common fields. */
const parameterSchemas: Readonly<Record<string, unknown>> = {
  'no properties': { type: 'object' },
  'no type': { properties: { city: { type: 'string' } } },
  'anyOf at the top': { anyOf: [{ type: 'object', properties: {} }] },
  'a null for required': { type: 'object', properties: { city: { type: 'string' } }, required: null },
  ...Object.fromEntries(
    Object.entries({
      'no description': { type: 'string' },
      nothing: {},
      'a null for a description': { type: 'string', description: null },
      'several types': { type: ['string', 'null'] },
      'several types and a description': { type: ['string', 'null'], description: 'Name' },
      anyOf: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      'an object': { type: 'object', description: 'Place' },
      'properties of their own': { type: 'object', properties: { name: {} } },
      'a list of anything': { type: 'array' },
      const: { const: 1 },
      true: true,
    }).map(([name, city]) => [`a property: ${name}`, { type: 'object', properties: { city }, required: ['city'] }]),
  ),
};

describe.each([...Object.entries(odd), ...everyTemplate, ...Object.entries(NAMED_TEMPLATES)])('%s', (_, source) => {
  const template = createChatTemplate(source, tokens);

  it.each([
    ['without tools', []],
    ['with tools', [weather]],
  ])('all that was said is in the prompt, %s', (_, tools) => {
    for (const [order, messages] of Object.entries(orders)) {
      const prompt = template.render({ messages, tools });
      const words = [...wordsOf(messages), ...tools.map((tool) => tool.function.name)];
      expect({ order, missing: words.filter((word) => !prompt.includes(word)), prompt: '' }).toEqual({ order, missing: [], prompt: '' });
    }
  });

  it('results of calls of one message are written once, whatever their ids', () => {
    for (const order of ['one id for two calls', 'an id again in the next round']) {
      const prompt = template.render({ messages: orders[order], tools: [weather] });
      for (const word of ['SNOW-RESULT', 'RAIN-RESULT']) expect(prompt.split(word).length - 1, prompt).toBe(1);
      expect(prompt.indexOf('SNOW-RESULT')).toBeLessThan(prompt.indexOf('RAIN-RESULT'));
    }
  });

  it('calls that end the conversation are written once, before a header and without one', () => {
    for (const addGenerationPrompt of [true, false]) {
      const prompt = template.render({ messages: orders['user, calls'], tools: [weather], addGenerationPrompt });
      for (const word of ['OSLO-CALL', 'BERN-CALL']) expect(prompt.split(word).length - 1, prompt).toBe(1);
    }
  });

  it.each(Object.entries(parameterSchemas))('parameters with %s are written', (_, parameters) => {
    const tools = [{ type: 'function' as const, function: { ...weather.function, parameters: parameters as object } }];
    const prompt = template.render({ messages: orders['user, assistant'], tools });
    for (const word of ['get_weather', 'FIRST-QUESTION', 'FIRST-ANSWER']) expect(prompt).toContain(word);
  });

  it('an answer that has begun ends the prompt, with all that was said before it', () => {
    for (const tools of [[], [weather]])
      for (const before of Object.values(orders).filter((messages) => messages.at(-1)!.role !== 'assistant')) {
        const messages = [...before, say('assistant', 'Once upon a')];
        const { text, opening } = atOnce(template.renderWork({ messages, tools, continueFinal: true }));
        expect(text.endsWith('Once upon a'), text).toBe(true);
        for (const word of wordsOf(before)) expect(text).toContain(word);
        if (opening !== undefined) expect(openReasoning(template.format.reasoning, opening)).toBeUndefined();
      }
  });

  it('an answer that has begun without a question is in the prompt once', () => {
    const { text } = atOnce(template.renderWork({ messages: [say('assistant', 'Once upon a')], continueFinal: true }));
    expect(text.endsWith('Once upon a'), text).toBe(true);
    expect(text.split('Once upon a')).toHaveLength(2);
  });

  it('reasoning that has begun goes on, or is over', () => {
    const { reasoning } = template.format;
    if (reasoning.length === 0) return;
    const begun = (content: string, reasoning_content: string): ChatMessage[] => [
      say('user', 'Hi'),
      { role: 'assistant', content, reasoning_content },
    ];
    const open = atOnce(template.renderWork({ messages: begun('', 'Let me'), continueFinal: true }));
    expect(open.text.endsWith('Let me'), open.text).toBe(true);
    expect(openReasoning(reasoning, open.opening!), open.text).toBeDefined();
    const over = atOnce(template.renderWork({ messages: begun('Once', 'I know-it.'), continueFinal: true }));
    expect(over.text).toMatch(/I know-it\.[^]+Once$/);
    expect(openReasoning(reasoning, over.opening!), over.text).toBeUndefined();
  });
});

describe('ids that come again', () => {
  const of = (source: string, order: string): string =>
    createChatTemplate(source, tokens).render({ messages: orders[order], tools: [weather] });

  it('become ids of their own where the template knows calls by them', () => {
    for (const order of ['an id again a turn later', 'an id again in the next round', 'one id for two calls'])
      expect(of(seenIds, order)).toMatch(/<result 0>SNOW-RESULT[^]*<result 1>RAIN-RESULT/);
    expect(createChatTemplate(seenIds, tokens).capabilities.repeatedIds).toBe(false);
  });

  it('stay as they came in other turns elsewhere, and in one message become two', () => {
    const source = `{% for m in messages %}{% for c in m.tool_calls or [] %}<{{ c.id }}>{{ c.function.arguments | tojson }}{% endfor %}{{ '<to ' ~ m.tool_call_id ~ '>' if m.role == 'tool' }}{{ m.content }}{% endfor %}{{ tools | tojson if tools }}`;
    expect(of(source, 'an id again a turn later').match(/<(to )?abc.*?>/g)).toEqual([
      '<abcdefgh1>',
      '<to abcdefgh1>',
      '<abcdefgh1>',
      '<to abcdefgh1>',
    ]);
    expect(of(source, 'one id for two calls').match(/<(to )?abc.*?>/g)).toEqual([
      '<abcdefgh1>',
      '<abcdefgh1-2>',
      '<to abcdefgh1>',
      '<to abcdefgh1-2>',
    ]);
  });
});

describe('a system message where the template does not write it', () => {
  const render = (source: string, ...messages: ChatMessage[]): string => createChatTemplate(source, tokens).render({ messages });
  const [s, s2, u, a, u2] = [say('system', 'S1'), say('system', 'S2'), say('user', 'U1'), say('assistant', 'A1'), say('user', 'U2')];

  it('goes into the first one', () => {
    expect(render(last, s, u, a, s2, u2)).toBe('S1\n\nS2<user>U1<assistant>A1<user>U2');
    expect(render(ownTemplates.hermes, s, s2, u)).toContain('<|im_start|>system\nS1\n\nS2<|im_end|>');
  });

  it("goes into the user's message next to it where there is no other, or becomes one", () => {
    expect(render(strict, u, a, s2, u2)).toBe('[INST]U1[/INST]A1</s>[INST]S2\n\nU2[/INST]');
    expect(render(strict, u, s2, a, u2)).toBe('[INST]U1\n\nS2[/INST]A1</s>[INST]U2[/INST]');
    expect(render(strict, u, a, s2)).toBe('[INST]U1[/INST]A1</s>[INST]S2[/INST]');
  });

  it('stays where the template writes it', () => {
    expect(render('chatml', s, u, a, s2, u2)).toContain('A1<|im_end|>\n<|im_start|>system\nS2<|im_end|>\n<|im_start|>user\nU2');
    expect(render('chatml', s, s2, u)).toContain('S1<|im_end|>\n<|im_start|>system\nS2<|im_end|>');
  });

  it('is in a prompt that ends with the result of a tool', () => {
    const prompt = createChatTemplate(strict, tokens).render({ messages: orders['system, user, call, result'], tools: [weather] });
    expect(prompt).toContain('[INST]FIRST-SYSTEM\n\nFIRST-QUESTION[/INST]');
  });
});

describe('results where the template does not write them as they come', () => {
  const render = (source: string, name: string): string => createChatTemplate(source, tokens).render({ messages: orders[name] });

  it('without an id, or with one of no call: they have that of the next call', () => {
    const ids = `{% for m in messages %}{{ m.role }}:{{ m.content or '' }}{{ m.tool_call_id }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %} {% endfor %}`;
    expect(render(ids, 'user, call, result, user, without ids')).toMatch(/"id": "call00000".* tool:SNOW-RESULTcall00000 /);
    expect(render(ids, 'user, call, result of another id, user')).toMatch(/"id": "oslocall0".* tool:SNOW-RESULToslocall0 /);
  });

  /** A template that only takes results directly after their call, and no empty answer. */
  const next = `{% for m in messages %}{% if m.role == 'tool' %}{% if loop.first or not (loop.previtem.tool_calls or loop.previtem.role == 'tool') %}{{ raise_exception('no call') }}{% endif %}{% elif m.role == 'assistant' and not (m.content or m.tool_calls) %}{{ raise_exception('empty') }}{% endif %}<{{ m.role }}>{{ m.content or '' }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}`;

  it('after another message: they go next to their call', () =>
    expect(render(next, 'user, call, user, result')).toMatch(
      /^<user>FIRST-QUESTION<assistant>\[.*\]<tool>SNOW-RESULT<user>SECOND-QUESTION$/,
    ));

  it('without a call: the user says them', () =>
    expect(render(next, 'result, user')).toBe('<user><tool_response>\nSNOW-RESULT\n</tool_response><user>FIRST-QUESTION'));

  it('and an answer that says nothing is left out', () =>
    expect(render(next, 'user, empty assistant, user')).toBe('<user>FIRST-QUESTION<user>SECOND-QUESTION'));

  it('stay where they are where the template writes them', () => {
    expect(render('chatml', 'result, user')).toContain('<|im_start|>tool\nSNOW-RESULT<|im_end|>');
    expect(render('chatml', 'user, empty assistant, user')).toContain('<|im_start|>assistant\n<|im_end|>');
  });
});

it('the role developer is system, unless the template writes it in a way of its own', () => {
  const messages = [say('developer', 'D'), say('user', 'U')];
  const render = (source: string): string => createChatTemplate(source).render({ messages });
  expect(render(developer)).toBe('<dev>D<user>U');
  expect(render(noDeveloper)).toBe('<system>D<user>U');
  expect(render('chatml')).toContain('<|im_start|>system\nD<|im_end|>');
});

it('text parts are put together by the template where it does so, and by a line end elsewhere', () => {
  const content = ['One ', 'text'].map((text) => ({ type: 'text', text }));
  const render = (source: string, role = 'user'): string =>
    createChatTemplate(source).render({ messages: [say(role, content), say('user', 'U')] });
  expect(render(parts)).toBe('User: One text<end>User: U<end>Assistant:');
  expect(render(parts, 'system')).toBe('System: One text<end>User: U<end>Assistant:');
  expect(render('chatml')).toContain('One \ntext');
  // Some templates accept parts only from a user.
  const both = `{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% elif m.role == 'user' %}{% for p in m.content %}{{ p.text }}|{% endfor %}{% endif %}{% endfor %}`;
  expect(render(both)).toBe('<user>One |text|<user>U');
  expect(render(both, 'system')).toBe('<system>One \ntext<user>U');
});

it('a tool needs no description and no parameters', () => {
  const source = `{% for t in tools or [] %}{{ t.function.name + ': ' + t.function.description }}({% for name, p in t.function.parameters.properties.items() %}{{ name }}{% endfor %}){% endfor %}{{ messages[0].content }}`;
  const render = (more: object): string =>
    createChatTemplate(source).render({ messages: [say('user', '!')], tools: [{ type: 'function', function: { name: 'now', ...more } }] });
  expect(render({})).toBe('now: ()!');
  expect(render({ description: 'Time', parameters: {} })).toBe('now: Time()!');
  expect(render({ description: null, parameters: null })).toBe('now: ()!');
});

describe('an answer that goes on', () => {
  const template = createChatTemplate(ownTemplates.hermes, tokens);
  const prompt = (content: string, reasoning_content: string, continueFinal: true | 'content' | 'reasoning'): string =>
    atOnce(template.renderWork({ messages: [say('user', 'U'), { role: 'assistant', content, reasoning_content }], continueFinal })).text;

  it('with its content, or its reasoning', () => {
    expect(prompt('', 'Hm', 'reasoning')).toMatch(/<think>\nHm$/);
    expect(prompt('', 'Hm', 'content')).toMatch(/<think>\nHm\n<\/think>\n+$/);
    expect(() => prompt('Yes', 'Hm', 'reasoning')).toThrow(/its reasoning is complete/);
  });

  it('keeps blanks at its end', () => expect(prompt('{"a": ', '', true)).toMatch(/\{"a": $/));
});
