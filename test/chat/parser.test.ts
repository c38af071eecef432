import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { detectFormat, type ChatFormat } from '../../src/chat/formats.ts';
import type { ChatTool } from '../../src/chat/messages.ts';
import { collectEvents, createChatParser, parseAnswer, type ChatParserOptions } from '../../src/chat/parser.ts';
import { processorMs, root } from '../support.ts';

const tools: ChatTool[] = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      parameters: { type: 'object', properties: { city: { type: 'string' }, n: { type: 'integer' }, zip: { type: 'string' } } },
    },
  },
  { type: 'function', function: { name: 'now', parameters: { type: 'object', properties: {} } } },
];

/** Parts of templates from which the parser recognises each family. */
const marks: Readonly<Record<string, string>> = {
  hermes: '<tool_call> <think></think>',
  llama: '<|start_header_id|><|end_header_id|> "parameters"',
  mistral: '[TOOL_CALLS] [THINK][/THINK]',
  functionary31: '<function=x>{}</function>',
  functionary32: '>>>all',
  firefunction: 'functools[',
  harmony: '<|start|><|channel|><|message|>',
  deepseek: '<｜tool▁call▁begin｜> <think></think>',
  dsml: '<｜DSML｜function_calls></think>',
  kimi: '<|tool_call_argument_begin|> <think></think>',
  minimax: '<minimax:tool_call>',
  seed: '<seed:tool_call><seed:think></seed:think>',
  command: '<|START_ACTION|><|START_THINKING|><|END_THINKING|>',
  commandPlus: 'Action: "tool_name"',
  granite: '<|tool_call|>',
  nemotron: '<TOOLCALL>',
  apertus: '<|tools_prefix|>',
  apriel: '<tool_calls></tool_calls>[BEGIN FINAL RESPONSE]',
  lfm: '<|tool_call_start|>',
  gemma: '<|tool_call>call:<channel|>',
  minicpm: '<function name="<param name="',
  solar: '<|tool_call:args|>',
  hunyuan: '<tool_call:opensource><think:opensource>',
  qwen3Coder: '<tool_call><function=<parameter= <think></think>',
  ling: '<role>ASSISTANT</role><arg_key><tool_call><think></think>',
  minimaxM3: ']<]minimax[>[ <mm:think></mm:think>',
  muse: '<atem:function_calls>',
  kimiK3: '<|open|><|close|><|sep|>',
};
const formats: Readonly<Record<string, ChatFormat>> = Object.fromEntries(
  Object.entries(marks).map(([name, text]) => [name, detectFormat(text)]),
);

interface Example {
  readonly format: string;
  readonly text: string;
  readonly content?: string;
  readonly reasoning?: string;
  readonly calls?: readonly (readonly [string, object, string?])[];
  readonly prompt?: string;
}
const paris: readonly [string, object] = ['get_weather', { city: 'Paris', n: 3 }];
const rome: readonly [string, object] = ['get_weather', { city: 'Rome' }];
const json = '{"city": "Paris", "n": 3}';
const named = `{"name": "get_weather", "arguments": ${json}}`;

const examples: readonly Example[] = [
  { format: 'hermes', text: 'Hello <b>world</b> < 3', content: 'Hello <b>world</b> < 3' },
  { format: 'hermes', text: `<tool_call>\n${named}\n</tool_call>`, calls: [paris] },
  {
    format: 'hermes',
    text: `\n\n<tool_call>${named}</tool_call>\n<tool_call>{"name":"get_weather","arguments":{"city":"Rome"}}</tool_call>\n`,
    calls: [paris, rome],
  },
  { format: 'hermes', text: `Let me look.<tool_call>${named}</tool_call> Done.`, content: 'Let me look.Done.', calls: [paris] },
  {
    format: 'hermes',
    text: `<think>\nHm, <tool_call>?\n</think>\n\nIt is <think> here.`,
    reasoning: 'Hm, <tool_call>?',
    content: 'It is <think> here.',
  },
  {
    format: 'hermes',
    text: `so\n</think>\n\n<tool_call>${named}`,
    prompt: '<|im_start|>assistant\n<think>\n',
    reasoning: 'so',
    calls: [paris],
  },
  { format: 'hermes', text: 'never ends', prompt: '<think>', reasoning: 'never ends' },
  { format: 'hermes', text: 'Hi', prompt: '<think>\n\n</think>\n\n', content: 'Hi' },
  {
    format: 'hermes',
    text: '<tool_call>{"name": "get_weather", "arguments": {"city": "a </tool_call> b"}}</tool_call>',
    calls: [['get_weather', { city: 'a </tool_call> b' }]],
  },
  { format: 'hermes', text: '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\"}"}</tool_call>', calls: [rome] },
  { format: 'hermes', text: '<tool_call>{"function": {"name": "now"}}</tool_call>', calls: [['now', {}]] },
  {
    format: 'hermes',
    text: '<tool_call>{"name": "now", "arguments": {}}<tool_call>{"name": "now", "arguments": null}</tool_call>',
    calls: [
      ['now', {}],
      ['now', {}],
    ],
  },
  {
    format: 'hermes',
    text: '<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=n>\n3\n</parameter>\n<parameter=zip>\n0123\n</parameter>\n</function>\n</tool_call>',
    calls: [['get_weather', { city: 'Paris', n: 3, zip: '0123' }]],
  },
  { format: 'hermes', text: '<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>', calls: [rome] },
  { format: 'hermes', text: '<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>', calls: [rome] },
  { format: 'llama', text: '{"name": "get_weather", "parameters": {"city": "Paris", "n": 3}}', calls: [paris] },
  {
    format: 'llama',
    text: '{"name": "get_weather", "parameters": {"city": "Rome"}}; {"type": "function", "name": "now", "parameters": {}}',
    calls: [rome, ['now', {}]],
  },
  { format: 'llama', text: '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Rome"}}', calls: [rome] },
  { format: 'llama', text: '<|python_tag|>get_weather.call(city="Paris", n=3)', calls: [['get_weather.call', { city: 'Paris', n: 3 }]] },
  { format: 'llama', text: '{"name": "Bob", "parameters": {}}', content: '{"name": "Bob", "parameters": {}}' },
  { format: 'llama', text: '{"name": "now"}', content: '{"name": "now"}' },
  { format: 'llama', text: '{"city": "Paris"}', content: '{"city": "Paris"}' },
  { format: 'llama', text: 'A set: {"name": "now", "parameters": {}}', content: 'A set: {"name": "now", "parameters": {}}' },
  {
    format: 'mistral',
    text: `[TOOL_CALLS][${named}, {"name": "now", "arguments": {}, "id": "abcdefghi"}]`,
    calls: [paris, ['now', {}, 'abcdefghi']],
  },
  { format: 'mistral', text: `[TOOL_CALLS]get_weather[ARGS]${json}[TOOL_CALLS]now[ARGS]{}`, calls: [paris, ['now', {}]] },
  {
    format: 'mistral',
    text: `[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]${json}`,
    calls: [['get_weather', { city: 'Paris', n: 3 }, 'a1b2c3d4e']],
  },
  { format: 'mistral', text: `[TOOL_CALLS]get_weather${json}`, calls: [paris] },
  { format: 'mistral', text: '[THINK]hm[/THINK]a[0] [TOOL]', reasoning: 'hm', content: 'a[0] [TOOL]' },
  { format: 'functionary31', text: `<function=get_weather>${json}</function><function=now>{}</function>`, calls: [paris, ['now', {}]] },
  { format: 'functionary32', text: `all\nHello\n>>>get_weather\n${json}`, prompt: 'x>>>', content: 'Hello\n', calls: [paris] },
  { format: 'functionary32', text: `get_weather\n${json}\n>>>now\n{}`, prompt: 'x>>>', calls: [paris, ['now', {}]] },
  { format: 'firefunction', text: ` functools[${named}]`, calls: [paris] },
  {
    format: 'harmony',
    text: '<|channel|>analysis<|message|>User asks.<|end|><|start|>assistant<|channel|>final<|message|>Hello!<|return|>',
    reasoning: 'User asks.',
    content: 'Hello!',
  },
  {
    format: 'harmony',
    text: `<|channel|>analysis<|message|>Call.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${json}<|call|>`,
    reasoning: 'Call.',
    calls: [paris],
  },
  { format: 'harmony', text: ` to=functions.get_weather<|channel|>commentary json<|message|>${json}`, calls: [paris] },
  {
    format: 'deepseek',
    text: `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n\`\`\`json\n${json}\n\`\`\`<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n\`\`\`json\n{}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
    calls: [paris, ['now', {}]],
  },
  {
    format: 'deepseek',
    text: `yes</think>ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>${json}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
    prompt: '<think>',
    reasoning: 'yes',
    content: 'ok',
    calls: [paris],
  },
  {
    format: 'dsml',
    text: '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name="n" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    calls: [paris],
  },
  {
    format: 'kimi',
    text: `<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>${json}<|tool_call_end|><|tool_calls_section_end|>`,
    calls: [['get_weather', { city: 'Paris', n: 3 }, 'functions.get_weather:0']],
  },
  {
    format: 'minimax',
    text: '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n<parameter name="n">3</parameter>\n</invoke>\n<invoke name="now">\n</invoke></minimax:tool_call>',
    calls: [paris, ['now', {}]],
  },
  {
    format: 'seed',
    text: '<seed:think>a</seed:think><seed:tool_call>\n<function=get_weather>\n<parameter=city>Rome</parameter>\n</function>\n</seed:tool_call>',
    reasoning: 'a',
    calls: [rome],
  },
  {
    format: 'command',
    text: '<|START_THINKING|>plan<|END_THINKING|><|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Rome"}}\n]<|END_ACTION|>',
    reasoning: 'plan',
    calls: [['get_weather', { city: 'Rome' }, '0']],
  },
  { format: 'command', text: '<|START_THINKING|><|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>', content: 'Hi' },
  {
    format: 'commandPlus',
    text: 'Action:\n```json\n[\n    {\n        "tool_name": "get_weather",\n        "parameters": {"city": "Rome"}\n    }\n]```',
    calls: [rome],
  },
  { format: 'granite', text: `<|tool_call|>[${named}]`, calls: [paris] },
  { format: 'nemotron', text: `<TOOLCALL>[${named}]</TOOLCALL>`, calls: [paris] },
  { format: 'apertus', text: `<|tools_prefix|>[{"get_weather": ${json}}, {"now": {}}]<|tools_suffix|>`, calls: [paris, ['now', {}]] },
  { format: 'apriel', text: `<tool_calls>[${named}]</tool_calls>`, calls: [paris] },
  {
    format: 'lfm',
    text: "<|tool_call_start|>[get_weather(city='Paris', n=3), now()]<|tool_call_end|>Checking.",
    content: 'Checking.',
    calls: [paris, ['now', {}]],
  },
  {
    format: 'lfm',
    text: "<|tool_call_start|>[f(a=\"it's\", b=[1, 'x', None], c={'k': True}, d=-1.5e3)]<|tool_call_end|>",
    calls: [['f', { a: "it's", b: [1, 'x', null], c: { k: true }, d: -1500 }]],
  },
  { format: 'lfm', text: `<|tool_call_start|>[${named}]<|tool_call_end|>`, calls: [paris] },
  {
    format: 'gemma',
    text: '<|tool_call>call:get_weather{city:<|"|>Pa:r{is<|"|>,n:3}<tool_call|>',
    calls: [['get_weather', { city: 'Pa:r{is', n: 3 }]],
  },
  {
    format: 'minicpm',
    text: '<function name="get_weather"><param name="city">Rome</param></function><function name="now"></function>',
    calls: [rome, ['now', {}]],
  },
  {
    format: 'solar',
    text: `<|tool_calls|><|tool_call:begin|>id1<|tool_call:name|>get_weather<|tool_call:args|>${json}<|tool_call:end|><|calls|>`,
    calls: [['get_weather', { city: 'Paris', n: 3 }, 'id1']],
  },
  {
    format: 'hunyuan',
    text: '<think:opensource>a</think:opensource><tool_calls:opensource><tool_call:opensource>get_weather<tool_sep:opensource><arg_key:opensource>city</arg_key:opensource><arg_value:opensource>Rome</arg_value:opensource></tool_call:opensource></tool_calls:opensource>',
    reasoning: 'a',
    calls: [rome],
  },
  {
    format: 'qwen3Coder',
    text: 'I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>\nthere',
    prompt: '<|im_start|>assistant\n<think>\n',
    reasoning: 'I look.',
    content: 'there',
    calls: [rome],
  },
  {
    format: 'qwen3Coder',
    text: 'As <tool_call> goes, <function= too.\n</think>\n\n<function=now>\n</function>\n</tool_call>Done',
    prompt: '<think>\n',
    reasoning: 'As <tool_call> goes, <function= too.',
    content: 'Done',
    calls: [['now', {}]],
  },
  {
    format: 'qwen3Coder',
    text: '<tool_call>\n<function=get_weather>\n<parameter=city>\n a\n\nb\n\n</parameter>\n</function>\n</tool_call>',
    calls: [['get_weather', { city: ' a\n\nb\n' }]],
  },
  {
    format: 'seed',
    text: '<seed:tool_call><function=get_weather><parameter=city>Rome\n</parameter></function></seed:tool_call>',
    calls: [['get_weather', { city: 'Rome\n' }]],
  },
  {
    format: 'ling',
    text: 'Hm.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call><|role_end|>',
    prompt: '<role>ASSISTANT</role>\n<think>',
    reasoning: 'Hm.',
    calls: [rome],
  },
  {
    format: 'kimi',
    text: 'Both.<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>',
    prompt: '<think>',
    reasoning: 'Both.',
    calls: [['now', {}, 'functions.now:0']],
  },
  {
    format: 'dsml',
    text: 'Hm\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
    prompt: '<｜Assistant｜><think>',
    reasoning: 'Hm',
    calls: [['now', {}]],
  },
  {
    format: 'minimaxM3',
    text: '<mm:think>a</mm:think>]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Pa<b>ris]<]minimax[>[</city>]<]minimax[>[<n>3]<]minimax[>[</n>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name="now">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>',
    reasoning: 'a',
    calls: [
      ['get_weather', { city: 'Pa<b>ris', n: 3 }],
      ['now', {}],
    ],
  },
  {
    format: 'minimaxM3',
    text: '</mm:think>]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<a>]<]minimax[>[<item>x]<]minimax[>[</item>]<]minimax[>[<item>]<]minimax[>[<b>true]<]minimax[>[</b>]<]minimax[>[</item>]<]minimax[>[</a>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>',
    calls: [['f', { a: ['x', { b: true }] }]],
  },
  {
    format: 'muse',
    text: ' to=self<|message|>A <atem:function_calls>?<|eom|><|start|>assistant to=user<|message|>I look.<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Rome</atem:parameter>\n</atem:invoke>\n</atem:function_calls>',
    reasoning: 'A <atem:function_calls>?',
    content: 'I look.',
    calls: [rome],
  },
  {
    format: 'kimiK3',
    text: 'a<|close|>think<|sep|><|open|>response<|sep|>On it.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>Rome<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>',
    prompt: '<|open|>think<|sep|>',
    reasoning: 'a',
    content: 'On it.',
    calls: [rome],
  },
  {
    format: 'apriel',
    text: `a\n[BEGIN FINAL RESPONSE]\n<tool_calls>[${named}]</tool_calls>`,
    prompt: '<|begin_assistant|>\nHere are my reasoning steps:\n',
    reasoning: 'a',
    calls: [paris],
  },
  {
    format: 'gemma',
    text: '<|channel>thought\nhm<channel|>Hello<|channel>thought\n<channel|>',
    reasoning: 'hm',
    content: 'Hello',
  },
  {
    format: 'harmony',
    text: `<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=get_weather <|constrain|>json<|message|>${json}<|call|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{}`,
    content: 'I look.{}',
    calls: [paris],
  },
  {
    format: 'minicpm',
    text: '<function name="get_weather"><param name="city"><![CDATA[a </param></function> b]]></param></function>',
    calls: [['get_weather', { city: 'a </param></function> b' }]],
  },
];

/** Texts that look like calls but are not: every character must come out as content. */
const malformed: readonly (readonly [string, string])[] = [
  ['hermes', '<tool_call>{"name": "get_weather", "arguments": {oops}}</tool_call> and more'],
  ['hermes', '<tool_call>{"name": "get_time", "arguments": {"city": "Par'],
  ['hermes', '<tool_call>{"name": "get_we'],
  ['hermes', '<tool_call>{"city": "Paris"}</tool_call>'],
  ['hermes', '<tool_call>{"name": "get_weather", "arguments": [1]}</tool_call>'],
  ['hermes', 'The <tool_call> tag, said plainly'],
  ['hermes', '<tool_call><function=get_weather>broken</tool_call>'],
  ['hermes', 'a <tool_ca'],
  ['llama', '{"name": "get_we'],
  ['llama', '<|python_tag|>import os'],
  ['mistral', '[TOOL_CALLS]nothing here'],
  ['mistral', '[TOOL_CALLS][{"name": 3}]'],
  ['deepseek', '<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>none'],
  ['lfm', '<|tool_call_start|>[get_weather(city=Paris)]<|tool_call_end|>'],
  ['gemma', '<|tool_call>call:get_weather{city}<tool_call|>'],
  ['kimi', '<|tool_call_begin|>functions.now:0'],
  ['firefunction', ' functools is a module'],
  ['muse', 'Go to=there and to=user'],
  [
    'minimaxM3',
    ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<a>1]<]minimax[>[</b>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>',
  ],
  ['minicpm', '<function name="f"><param name="a"><![CDATA[b</param></function>'],
];

function stream(format: ChatFormat, pieces: readonly string[], options: ChatParserOptions) {
  const parser = createChatParser(format, options);
  return collectEvents([...pieces.flatMap((piece) => parser.push(piece)), ...parser.end()]);
}

function cutAt(text: string, cuts: readonly number[]): string[] {
  const at = [0, ...cuts.map((cut) => Math.floor(cut * text.length)).sort((a, b) => a - b), text.length];
  return at.slice(1).map((end, i) => text.slice(at[i], end));
}

it('docs/tools.md has every format', () => {
  const docs = readFileSync(new URL('docs/tools.md', root), 'utf8');
  for (const { name } of Object.values(formats)) expect(docs).toContain(`\`${name}\``);
});

describe('createChatParser', () => {
  it.each(examples.map((example) => [`${example.format}: ${example.text.slice(0, 60)}`, example] as const))(
    '%s',
    (_, { format, text, prompt, content = '', reasoning = '', calls = [] }) => {
      const options = { tools, ...(prompt === undefined ? {} : { prompt }) };
      const want = { content, reasoning, calls: calls.map(([name, args, id]) => [name, args, id]) };
      for (const pieces of [[text], [...text], text.split(/(?<=[ {>"])/)]) {
        const got = stream(formats[format], pieces, options);
        expect({
          content: got.content,
          reasoning: got.reasoning,
          calls: got.toolCalls.map((call) => [call.name, JSON.parse(call.arguments) as object, call.id]),
        }).toEqual(want);
      }
    },
  );

  it.each(malformed)('%s: %s is content', (format, text) => {
    for (const pieces of [[text], [...text]])
      expect(stream(formats[format], pieces, { tools })).toEqual({ content: text, reasoning: '', toolCalls: [] });
  });

  it.each(Object.keys(formats))('%s: a model that writes nothing but blanks behind a marker costs no time out of proportion', (name) => {
    const start = processorMs();
    for (const { start: marker } of formats[name].calls) {
      const parser = createChatParser(formats[name], { tools });
      for (const piece of [marker, ...new Array<string>(4000).fill('   '), 'x']) parser.push(piece);
      parser.end();
    }
    expect(processorMs() - start).toBeLessThan(1000);
  });

  it('leaves calls in the content where no tools were offered, and reasoning where it is not wanted', () => {
    const text = `<tool_call>${named}</tool_call>`;
    expect(parseAnswer(formats.hermes, text)).toEqual({ content: text, reasoning: '', toolCalls: [] });
    expect(parseAnswer(formats.hermes, '<think>a</think>b', { reasoning: false }).content).toBe('<think>a</think>b');
  });

  it('gives the same in sum however the text is cut', () => {
    const texts = [
      ...examples.map(({ format, text, prompt }) => ({ format, text, prompt })),
      ...malformed.map(([format, text]) => ({ format, text, prompt: undefined })),
    ];
    const piece = fc.constantFrom(
      ...texts.map(({ text }) => text),
      '<think>',
      '</think>',
      '<tool_call>',
      '</tool_call>',
      '{"name": "now", "arguments": {}}',
      '\n',
      ' ',
      '<',
      '{',
      '[TOOL_CALLS]',
    );
    const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.array(piece, { maxLength: 3 }), cuts, ({ format, text, prompt }, more, at) => {
        const whole = text + more.join('');
        const options = { tools, ...(prompt === undefined ? {} : { prompt }) };
        expect(stream(formats[format], cutAt(whole, at), options)).toEqual(parseAnswer(formats[format], whole, options));
      }),
      { seed: 1414, numRuns: 3000 },
    );
  });

  it('reads back what every format writes', () => {
    const value = fc.jsonValue({ maxDepth: 2 });
    const args = fc.dictionary(fc.stringMatching(/^[a-z_]{1,8}$/), value, { maxKeys: 3 });
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(formats)), fc.array(args, { minLength: 1, maxLength: 3 }), (name, list) => {
        const calls = list.map((one) => ({ id: undefined, name: 'get_weather', arguments: JSON.stringify(one) }));
        expect(parseAnswer(formats[name], formats[name].write(calls), { tools }).toolCalls, name).toEqual(calls);
      }),
      { seed: 15, numRuns: 500 },
    );
  });

  it('holds nothing back longer than it must', () => {
    const parser = createChatParser(formats.hermes, { tools });
    expect(parser.push('Hello')).toEqual([{ type: 'content', delta: 'Hello' }]);
    expect(parser.push(' a <')).toEqual([{ type: 'content', delta: ' a ' }]);
    expect(parser.push('b')).toEqual([{ type: 'content', delta: '<b' }]);
    expect(parser.push('<tool_call>')).toEqual([]);
    expect(parser.push('no')).toEqual([]);
    expect(parser.push('!')).toEqual([{ type: 'content', delta: '<tool_call>no!' }]);
    expect(parser.push(`<tool_call>${named}</tool_call>`)).toMatchObject([
      { type: 'toolCallDelta', index: 0, name: 'get_weather', delta: json },
      { type: 'toolCall', index: 0 },
    ]);
    const bare = createChatParser(formats.llama, { tools });
    expect(bare.push('{"na')).toEqual([]);
    expect(bare.push('tion')).toEqual([{ type: 'content', delta: '{"nation' }]);
    const other = createChatParser(formats.llama, { tools });
    expect(other.push('{"name": "B')).toEqual([{ type: 'content', delta: '{"name": "B' }]);
  });

  it('does not search for ever in what is almost a call', () => {
    const pairs = '<arg_key>a</arg_key><arg_value>b</arg_value>'.repeat(2000);
    for (const text of [
      `<tool_call>get_time${pairs}junk</tool_call>`,
      `<tool_call><function=f>${'<parameter=a>'.repeat(2000)}</function></tool_call>`,
      `<tool_call>${'['.repeat(5000)}`,
    ]) {
      expect(parseAnswer(formats.hermes, text, { tools }).content).toBe(text);
    }
    // Once arguments of an offered tool have begun, the call stays one.
    const { content, toolCalls } = parseAnswer(formats.hermes, `<tool_call>get_weather${pairs}junk</tool_call>`, { tools });
    expect([content, toolCalls.length, toolCalls[0].cut]).toEqual(['', 1, true]);
    expect(toolCalls[0].arguments).toContain('junk');
  });

  it('takes no time quadratic in what a client makes the model write: for these it would be minutes', () => {
    const openings: readonly (readonly [mark: string, opening: string, rest: string])[] = [
      ['<tool_call>', '<tool_call>', '<function=a><parameter=b>'],
      ['<tool_call>', '<tool_call>', '<function='],
      ['<tool_call>', '<tool_call>a', '<arg_key>'],
      ['<tool_call>', '<tool_call>a', '<arg_key>b</arg_key><arg_value>'],
      ['<minimax:tool_call>', '<minimax:tool_call>', '<invoke name="a"><parameter name="b">'],
      ['<|open|><|close|><|sep|>', '<|open|>tools<|sep|>', '<|open|>call tool="a"<|sep|><|open|>argument key="b"<|sep|>'],
      ['<function name="<param name="', '<function name="', 'a"><param name="b">'],
      ['<function name="<param name="', '<function name="', 'a"><param name="b"><![CDATA[c</param>'],
      ['<tool_call><function=<parameter=', '<think>', '<tool_call><function='],
      ['<|tool_call_start|>', '<|tool_call_start|>', '[f(a='],
      ['<|tool_call>call:', '<|tool_call>', 'call:a{'],
      [']<]minimax[>[', ']<]minimax[>[<tool_call>', ']<]minimax[>[<invoke name="a">]<]minimax[>[<b>'],
      ['<atem:function_calls>', ' to=', ' to=a<|message|><atem:function_calls>'],
    ];
    for (const [mark, opening, rest] of openings) {
      const answer = opening + rest.repeat(Math.ceil(1_000_000 / rest.length));
      expect(parseAnswer(detectFormat(mark), answer, { tools }).toolCalls, mark).toEqual([]);
    }
    const nested = `<|tool_call_start|>[get_time(city=${'['.repeat(100_000)}`;
    expect(parseAnswer(detectFormat('<|tool_call_start|>'), nested, { tools }).content).toBe(nested);
    const deep = parseAnswer(detectFormat('<|tool_call_start|>'), nested.replace('get_time', 'get_weather'), { tools });
    expect(deep.content.length + deep.toolCalls[0].arguments.length).toBe(100_000 + '{"city": '.length);
  });

  it('stays linear over long arguments', () => {
    const parser = createChatParser(formats.hermes, { tools });
    const text = `<tool_call>{"name": "get_weather", "arguments": {"city": "${'word and '.repeat(20_000)}"}}</tool_call>`;
    const start = processorMs();
    const events = text.match(/[\s\S]{1,4}/g)?.flatMap((piece) => parser.push(piece)) ?? [];
    expect(events.filter(({ type }) => type === 'toolCall')).toHaveLength(1);
    expect(events.length).toBeGreaterThan(45_000);
    // Starting over at each of 45,000 pieces would take minutes. A few seconds allow for a busy
    // machine.
    expect(processorMs() - start).toBeLessThan(5000);
  });
});
