import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { compileJinja, strftime } from '../../src/chat/jinja.ts';
import type { ChatMessage, ChatTool } from '../../src/chat/messages.ts';
import { parseAnswer } from '../../src/chat/parser.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { root } from '../support.ts';
import { everyTemplate, ownTemplates, realTemplates } from './templates.ts';

const weather: ChatTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', description: 'Name' }, days: { type: 'integer', description: 'How many' } },
      required: ['city'],
    },
  },
};
const turns: readonly ChatMessage[] = [
  { role: 'system', content: 'Be brief-SYSTEM.' },
  { role: 'user', content: 'First-QUESTION' },
  { role: 'assistant', content: 'First-ANSWER' },
  { role: 'user', content: 'Second-QUESTION' },
];
const call = (id: string, city: string) => ({
  id,
  type: 'function' as const,
  function: { name: 'get_weather', arguments: `{"city": "${city}", "days": 3}` },
});
const withCalls: readonly ChatMessage[] = [
  { role: 'user', content: 'First-QUESTION' },
  { role: 'assistant', content: null, tool_calls: [call('call_abc1', 'Oslo'), call('call_abc2', 'Bergen')] },
  { role: 'tool', tool_call_id: 'call_abc1', name: 'get_weather', content: 'snow-RESULT' },
  { role: 'tool', tool_call_id: 'call_abc2', name: 'get_weather', content: 'rain-RESULT' },
];
const tokens = { bos: '<BOS>', eos: '<EOS>' };

/** Checks that the prompt contains all words in order. */
function expectInOrder(prompt: string, words: readonly string[], label: string): void {
  let at = 0;
  for (const word of words) {
    const found = prompt.indexOf(word, at);
    expect(found, `${label}: ${word} after ${at} in ${JSON.stringify(prompt)}`).toBeGreaterThanOrEqual(0);
    at = found;
  }
}

function rendersConversations(source: string, label: string): void {
  const template = createChatTemplate(source, tokens);
  const words = ['First-QUESTION', 'First-ANSWER', 'Second-QUESTION'];
  expectInOrder(template.render({ messages: turns }), words, label);
  expect(template.render({ messages: turns }), label).toContain('Be brief-SYSTEM.');
  const offered = template.render({ messages: turns, tools: [weather] });
  for (const word of [...words, 'Be brief-SYSTEM.', 'get_weather']) expect(offered, label).toContain(word);
  const called = template.render({ messages: withCalls, tools: [weather] });
  for (const word of ['Oslo', 'snow-RESULT', 'Bergen', 'rain-RESULT']) expect(called, label).toContain(word);
}

describe('templates', () => {
  it.each(Object.entries(ownTemplates))('%s renders conversations with and without tools', (name, source) =>
    rendersConversations(source, name),
  );

  it('finds out what they support', () => {
    const of = (name: string) => createChatTemplate(ownTemplates[name], tokens).capabilities;
    expect(of('hermes')).toEqual({
      systemRole: true,
      systemBefore: ['system', 'user', 'assistant', 'tool'],
      systemAfter: [],
      developerRole: false,
      tools: true,
      toolCalls: true,
      parallelToolCalls: true,
      callsBesideContent: true,
      callsBesideContentEarlier: true,
      callsAtEnd: true,
      lateResults: true,
      strayResults: true,
      repeatedIds: true,
      emptyAnswer: true,
      toolResults: true,
      objectArguments: true,
      nullContent: false,
      typedContent: false,
      textParts: [],
      names: [],
      alternates: false,
      oneAnswer: false,
      toolAnswer: null,
      userFirst: false,
      needsUser: false,
      noTools: 'undefined',
    });
    expect(of('llama3')).toMatchObject({ toolCalls: true, parallelToolCalls: false, objectArguments: true });
    expect(of('mistral')).toMatchObject({ tools: true, toolCalls: true, parallelToolCalls: true, objectArguments: false });
    expect(of('gemma')).toMatchObject({ systemRole: false, tools: false, toolCalls: false, toolResults: false, alternates: true });
    expect(of('typed')).toMatchObject({ typedContent: true, tools: false });
  });

  it('writes exact prompts', () => {
    expect(createChatTemplate(ownTemplates.gemma, tokens).render({ messages: turns })).toBe(
      '<BOS><start_of_turn>user\nBe brief-SYSTEM.\n\nFirst-QUESTION<end_of_turn>\n<start_of_turn>model\nFirst-ANSWER<end_of_turn>\n<start_of_turn>user\nSecond-QUESTION<end_of_turn>\n<start_of_turn>model\n',
    );
    const parts = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ];
    expect(createChatTemplate(ownTemplates.typed).render({ messages: parts })).toBe('<user>ab</user>');
    expect(createChatTemplate(ownTemplates.thinking).render({ messages: [{ role: 'assistant', content: '<think>x</think>\n\n y' }] })).toBe(
      '<|assistant|> y<|assistant|><think>\n',
    );
  });

  it('gives Mistral ids of nine characters, the same for call and result', () => {
    const text = createChatTemplate(ownTemplates.mistral, tokens).render({ messages: withCalls, tools: [weather] });
    const ids = [...text.matchAll(/"(?:call_)?id": "([^"]*)"/g)].map(([, id]) => id);
    expect(ids).toHaveLength(4);
    expect(ids.every((id) => /^[A-Za-z0-9]{9}$/.test(id))).toBe(true);
    expect([ids[2], ids[3]]).toEqual([ids[0], ids[1]]);
  });

  it('splits parallel calls where a template takes one at a time', () => {
    const text = createChatTemplate(ownTemplates.llama3, tokens).render({ messages: withCalls, tools: [weather] });
    expectInOrder(text, ['Oslo', 'snow-RESULT', 'Bergen', 'rain-RESULT'], 'llama3');
  });
});

describe('what native llama.cpp writes, and all that was said where it cannot write it', async () => {
  const { conversations } = (await import(new URL('test/golden/chat/turns.mjs', root).href)) as {
    conversations: Record<string, { messages: ChatMessage[]; tools?: ChatTool[]; said: string[] }>;
  };
  const sha = (prompt: string): string => createHash('sha256').update(prompt).digest('hex').slice(0, 16);

  /** @param kept the form in which the golden file has a prompt */
  function writesAsNative(file: string, sources: readonly (readonly [string, string])[], kept: (prompt: string) => string): void {
    const { date, templates } = JSON.parse(readFileSync(new URL(`test/golden/chat/${file}`, root), 'utf8')) as {
      date: string;
      templates: Record<string, Record<string, string>>;
    };
    it.each(sources)('%s', (name, source) => {
      const template = createChatTemplate(source, tokens, { now: () => new Date(`${date}T12:00`) });
      for (const [what, { messages, tools = [], said }] of Object.entries(conversations)) {
        const prompt = template.render({ messages, tools, extra: { enable_thinking: true } });
        const want = templates[name][what];
        if (want) expect(kept(prompt), `${what}: ${prompt}`).toBe(want);
        else for (const word of said) expect(prompt, what).toContain(word);
      }
    });
  }

  writesAsNative(
    'own-templates.json',
    Object.entries(ownTemplates).map(([name, source]) => [`${name}.jinja`, source]),
    (prompt) => prompt,
  );
  if (realTemplates.length) writesAsNative('templates.json', realTemplates, sha);
});

describe('bad input', () => {
  it('gives the words of a template that throws', () => {
    const template = createChatTemplate(
      "{% if messages[0].content == 'no' %}{{ raise_exception('I do not like this') }}{% endif %}{{ messages[0].content }}",
    );
    expect(template.render({ messages: [{ role: 'user', content: 'yes' }] })).toBe('yes');
    expect(() => template.render({ messages: [{ role: 'user', content: 'no' }] })).toThrow(
      expect.objectContaining({ code: 'ERR_CHAT_TEMPLATE', message: expect.stringContaining('I do not like this') as unknown }),
    );
  });

  it('refuses an invalid template, an empty conversation, content that is not a text, and a flood', () => {
    expect(() => createChatTemplate('{% if %}')).toThrow(expect.objectContaining({ code: 'ERR_CHAT_TEMPLATE' }));
    const template = createChatTemplate(ownTemplates.hermes);
    expect(() => template.render({ messages: [] })).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
    expect(() => template.render({ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }),
    );
    const flood = createChatTemplate('{% for i in range(2000000000) %}x{% endfor %}{{ messages }}');
    expect(() => flood.render({ messages: turns })).toThrow(expect.objectContaining({ code: 'ERR_CHAT_TEMPLATE' }));
  });

  const endless = {
    'loops in loops': '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}',
    'a macro that calls itself twice': '{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}',
    'loops in a macro':
      '{% macro m() %}{% for a in range(100000) %}{% for b in range(100000) %}{% break %}{% endfor %}{% endfor %}{% endmacro %}{{ m() }}',
    'a text doubled again and again':
      "{% set ns = namespace(s='ab') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    'a list doubled again and again': '{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}',
    'a list that holds itself twice, written':
      '{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}',
    'the same by the output itself':
      '{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}',
    'a search in a long text, over and over':
      "{% set ns = namespace(s='ab') %}{% for i in range(18) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{% for i in range(100000) %}{% if 'c' in ns.s %}x{% endif %}{% endfor %}",
  };
  const huge = {
    'a width': "{{ 'a' | center(1000000000) }}",
    'an indentation': "{{ 'a\nb' | indent(1000000000) }}",
    'a list': '{{ [1] * 100000000 }}',
    'a batch filled up': '{{ [1] | batch(1000000000, 0) | list }}',
    'a width of printf': "{{ '%*d' % (1000000000, 1) }}",
    'a precision': "{{ '{:.99999999f}'.format(1) }}",
    'a date': "{{ strftime_now('%999999999Y') }}",
    'a power': '{{ 10 ** 10000000000 }}',
    'a text in a text for every letter': "{% set s = 'a' * 1000000 %}{{ s | replace('a', s) | length }}",
    'a long text joined often': "{% set s = 'a' * 1000000 %}{{ ([s] * 100000) | join | length }}",
    'a long text formatted often': "{% set s = 'a' * 1000000 %}{{ ('%(a)s' * 100000) % {'a': s} | length }}",
    'a key doubled again and again':
      '{% set ns = namespace(a=(1,)) %}{% for i in range(40) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1} | length }}',
    'a loop in a loop without an end': '{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}',
    'a macro that calls itself': '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}',
  };
  it.each(Object.entries(huge))('a template that makes too much of a number or a text: %s', (_, source) => {
    expect(() => compileJinja(source)({})).toThrow();
  });

  it.each(Object.entries(endless))('a template without an end: %s', (_, source) => {
    const isChatTemplateError = expect.objectContaining({ code: 'ERR_CHAT_TEMPLATE' }) as unknown;
    // This condition is false for the probes that identify a template, so only this message runs
    // the source.
    expect(() =>
      createChatTemplate(`{% if messages[0].content == 'go' %}${source}{% endif %}`).render({
        messages: [{ role: 'user', content: 'go' }],
      }),
    ).toThrow(isChatTemplateError);
  });

  it('a template that never ends is told of when it is made, and probed once', () => {
    expect(() => createChatTemplate(endless['a list doubled again and again'])).toThrow(
      expect.objectContaining({ code: 'ERR_CHAT_TEMPLATE', message: expect.stringContaining('never ends') as unknown }),
    );
  });

  it('a template of blanks: no time quadratic in them, which for these would be minutes', () => {
    const blanks = ' '.repeat(2_000_000);
    for (const source of [`${blanks}x`, `x{{ 1 }}${'\n \t'.repeat(500_000)}{{ 2 }}`, `{{${blanks}1 }}`])
      expect(() => createChatTemplate(source)).toThrow(expect.objectContaining({ code: 'ERR_CHAT_TEMPLATE' }));
    expect(
      createChatTemplate(`${' '.repeat(1000)}{{ messages[0].content }}`)
        .render({ messages: [{ role: 'user', content: 'x' }] })
        .trim(),
    ).toBe('x');
  });

  it('a conversation of many messages is not an endless one, and pauses after each', () => {
    const many = Array.from({ length: 4000 }, (_, i): ChatMessage => ({ role: i % 2 ? 'assistant' : 'user', content: `message ${i}` }));
    for (const source of [ownTemplates.hermes, ownTemplates.llama3]) {
      const work = createChatTemplate(source, tokens).renderWork({ messages: many });
      let pauses = 0;
      while (!work.next().done) pauses++;
      expect(pauses).toBeGreaterThanOrEqual(2 * many.length);
    }
  });

  it('falls back to ChatML with a warning', () => {
    const template = createChatTemplate(undefined);
    expect(template.warnings).toHaveLength(1);
    expect(template.render({ messages: turns.slice(0, 2) })).toBe(
      '<|im_start|>system\nBe brief-SYSTEM.<|im_end|>\n<|im_start|>user\nFirst-QUESTION<|im_end|>\n<|im_start|>assistant\n',
    );
    rendersConversations(template.source, 'chatml');
  });
});

describe('Python in templates', () => {
  const cases: readonly (readonly [string, string])[] = [
    ["{{ '\\n\\n a'.lstrip('\\n') }}", ' a'],
    ["{{ '  a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'a\\n'.rstrip('\\n') }}", 'a|a|a'],
    ["{{ '<{}:{x}>{{}}'.format(1, x='b') }}", '<1:b>{}'],
    [
      '{% set l = [] %}{% set _ = l.append(2) %}{% set _ = l.append(1) %}{{ l | min }}{{ l | max }}{{ l | sum }}{{ l.pop(0) }}{{ l | length }}',
      '12321',
    ],
    ["{{ {'a': [1, true, none, \"it's\"]} | string }}", `{'a': [1, True, None, "it's"]}`],
    ["{% set d = {512: 'b', 16: 'a'} %}{% for k, v in d | dictsort %}{{ k + 1 }}{{ v }} {% endfor %}{{ d[512] }}", '17a 513b b'],
    ['{{ (\'{"a": [1, 2]}\' | from_json).a[1] }}', '2'],
    ["{% for a, b in [('x', 1), ('y', 2)] %}{{ a }}{{ b }}{% endfor %}", 'x1y2'],
    ["{{ {'b': 1, 'a': 'é<'} | tojson }}", '{"b": 1, "a": "é<"}'],
    ["{{ 'ab'.removeprefix('a') }}{{ 'ab'.removesuffix('b') }}{{ ','.join(['p', 'q']) }}", 'bap,q'],
  ];
  it.each(cases)('%s', (source, want) => expect(compileJinja(source)({})).toBe(want));

  it('writes dates in English whatever the locale', () => {
    const date = new Date(2025, 2, 4, 15, 6, 7);
    expect(strftime('%d %b %Y %B %A %a %H:%M:%S %I %p %y%%', date)).toBe('04 Mar 2025 March Tuesday Tue 15:06:07 03 PM 25%');
    expect(compileJinja("{{ strftime_now('%Y-%m-%d') }}", () => date)({})).toBe('2025-03-04');
  });
});

describe('line breaks of Windows and of old Macs', () => {
  it.each(everyTemplate)('%s: the same prompt as with \\n', (_, source) => {
    const messages: ChatMessage[] = [{ role: 'user', content: 'Two\r\nlines' }];
    const prompts = ['\n', '\r\n', '\r'].map((end) =>
      createChatTemplate(source.replaceAll('\n', end), tokens).render({ messages, tools: [weather] }),
    );
    expect(prompts[0]).toContain('Two\r\nlines');
    expect(prompts).toEqual([prompts[0], prompts[0], prompts[0]]);
  });

  it('leave no empty lines where blocks stand', () => {
    const source = '{%- for m in messages %}\r\n{{ m.role }}: {{ m.content }}\r\n{% endfor %}\r\nassistant:';
    expect(createChatTemplate(source).render({ messages: [{ role: 'user', content: 'Hi' }] })).toBe('user: Hi\nassistant:');
  });
});

describe('calls', () => {
  // A model writes what its template writes for an assistant's turn, so the parser must read that
  // back.
  it.each(everyTemplate)('%s: a call as its template writes it is parsed', (_, source) => {
    const template = createChatTemplate(source, tokens);
    const user: ChatMessage = { role: 'user', content: 'Question' };
    const prompt = template.render({ messages: [user], tools: [weather] });
    const whole = template.render({
      messages: [user, { role: 'assistant', content: '', tool_calls: [call('abcdefgh1', 'Oslo')] }],
      tools: [weather],
      addGenerationPrompt: false,
    });
    let at = 0;
    while (at < prompt.length && prompt[at] === whole[at]) at++;
    const open = whole.lastIndexOf('<', at);
    if (open >= 0 && !whole.slice(open, at).includes('>')) at = open;
    const { toolCalls } = parseAnswer(template.format, whole.slice(at), { tools: [weather], prompt: whole.slice(0, at) });
    expect(
      toolCalls.map(({ name: tool, arguments: args }) => [tool, JSON.parse(args)]),
      JSON.stringify(whole.slice(at)),
    ).toEqual([['get_weather', { city: 'Oslo', days: 3 }]]);
  });
});
