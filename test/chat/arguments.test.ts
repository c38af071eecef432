/**
 * Arguments of calls: read back as templates write them, emitted while the model writes them, and
 * typed by the schema of the tool.
 */
import { describe, expect, it } from 'vitest';
import { exactJson, keepSpellings, parseExactJson } from '../../src/chat/exact-json.ts';
import { detectFormat } from '../../src/chat/formats.ts';
import type { ChatTool } from '../../src/chat/messages.ts';
import { createChatParser, parseAnswer, type ChatEvent } from '../../src/chat/parser.ts';
import { partialJson } from '../../src/chat/partial-json.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { eventsOf, hostileStrings, otherValues, pieces, toolOf, writeCall } from './round-trip.ts';
import { everyTemplate } from './templates.ts';

const LENGTHS = [1, 7, 1e9];

/** Values that a template writes so that nobody can read them back. */
const UNWRITABLE: readonly (readonly [template: RegExp, value: RegExp, reason: string])[] = [
  [/command-r-plus/, /\u2028/, 'it indents the lines of the text, and Python takes this character for the end of a line'],
  [/MiniMax-M3/, /null|\[\]/, 'it writes no members that are null, and nothing for an empty list'],
];
/** For a nullable string, these words are null. */
const NULLS = ['null', 'None'];

const deltasOf = (events: readonly ChatEvent[]): string =>
  events.map((event) => (event.type === 'toolCallDelta' ? event.delta : '')).join('');
const callsOf = (events: readonly ChatEvent[]) => events.flatMap((event) => (event.type === 'toolCall' ? [event.call] : []));

/** JSON text of an object with its members in order: Gemma's template sorts them. */
function inOrder(json: string): string {
  const sorted = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return keepSpellings(value.map(sorted), value);
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return keepSpellings(Object.fromEntries(members.map(([key, part]) => [key, sorted(part)])), value);
  };
  return exactJson(sorted(parseExactJson(json)));
}

describe('reads back what a template writes', () => {
  const strings = hostileStrings.flatMap((text): [object, string][] => [
    [{ type: 'string' }, JSON.stringify(text)],
    ...(NULLS.includes(text) ? [] : [[{ anyOf: [{ type: 'string' }, { type: 'null' }] }, JSON.stringify(text)] as [object, string]]),
  ]);
  const others = otherValues.map(([type, json]): [object, string] => [{ type: type === 'null' ? ['integer', 'null'] : type }, json]);

  it.each(everyTemplate)('%s', { timeout: 120_000 }, (name, source) => {
    const template = createChatTemplate(source, { bos: '<s>', eos: '</s>' });
    for (const [schema, json] of [...strings, ...others]) {
      if (UNWRITABLE.some(([which, value]) => which.test(name) && value.test(json))) continue;
      const tool = toolOf(schema);
      const args = `{"before": 1, "value": ${json}, "after": "z"}`;
      const written = writeCall(template, tool, args);
      const calls = new Set<string>();
      for (const length of LENGTHS) {
        const events = eventsOf(template, tool, written, length);
        const [call, ...more] = callsOf(events);
        const context = JSON.stringify({ json, schema, length, answer: written.answer });
        expect(more, context).toEqual([]);
        expect(call.cut, context).toBeUndefined();
        expect(inOrder(call.arguments), context).toBe(inOrder(args));
        expect(deltasOf(events), context).toBe(call.arguments);
        calls.add(call.arguments);
      }
      expect(calls.size).toBe(1);
    }
  });
});

describe('a call that the end of the answer cuts', () => {
  it.each(everyTemplate)('%s: stays a call, and no mark is content', { timeout: 60_000 }, (_, source) => {
    const template = createChatTemplate(source, { bos: '<s>', eos: '</s>' });
    const tool = toolOf({ type: 'string' });
    const { prompt, answer } = writeCall(template, tool, '{"before": 12, "value": "a long \\"text\\" 😀", "after": "z"}');
    const whole = parseAnswer(template.format, answer, { tools: [tool], prompt }).toolCalls[0].arguments;
    const from = answer.indexOf('long');
    for (let length = from; length < answer.length; length++) {
      if (/[\ud800-\udbff]$/.test(answer.slice(0, length))) continue;
      const parser = createChatParser(template.format, { tools: [tool], prompt });
      const events = [...parser.push(answer.slice(0, length)), ...parser.end()];
      const [call, ...more] = callsOf(events);
      expect(more).toEqual([]);
      expect(deltasOf(events)).toBe(call.arguments);
      expect(whole.startsWith(call.arguments), `${call.arguments} of ${whole}`).toBe(true);
      if (!call.cut) expect(call.arguments).toBe(whole);
      expect(events.map((event) => (event.type === 'content' ? event.delta : '')).join('')).not.toMatch(/before|long/);
    }
  });

  it.each([
    ['<tool_call>', '<tool_call>\n{"name": "act", "arguments": {"value": "Par', '{"value": "Par'],
    ['<tool_call>', '<tool_call>\n{"name": "act", "argu', ''],
    ['<tool_call>', '<tool_call>\n{"name": "act", "arguments": {"before": 1', '{"before": '],
    ['<tool_call><function=<parameter=', '<tool_call>\n<function=act>\n<parameter=value>\nPar\n</para', '{"value": "Par'],
    ['<tool_call><function=<parameter=', '<tool_call>\n<function=act>\n<param', ''],
    ['<|start_header_id|><|end_header_id|>parameters', '{"name": "act", "parameters": {"value": "Par', '{"value": "Par'],
    ['[TOOL_CALLS]', '[TOOL_CALLS]act[ARGS]{"value": "Par\\', '{"value": "Par'],
  ])('%s: %s', (mark, text, args) => {
    for (const length of LENGTHS) {
      const parser = createChatParser(detectFormat(mark), { tools: [toolOf({ type: 'string' })] });
      const events = [...pieces(text, length).flatMap((piece) => parser.push(piece)), ...parser.end()];
      expect(events.filter(({ type }) => type === 'content')).toEqual([]);
      expect(callsOf(events)).toEqual([{ id: undefined, name: 'act', arguments: args, cut: true }]);
    }
  });
});

describe('arguments while they are written', () => {
  it.each([
    ['JSON', '<tool_call>', '<tool_call>{"name": "act", "arguments": {"value": "a b c", "before": 1}}</tool_call>'],
    ['elements', '<tool_call>', '<tool_call><function=act><parameter=value>a b c</parameter></function></tool_call>'],
    ['Python', '<|tool_call_start|>', '<|tool_call_start|>[act(value="a b c")]<|tool_call_end|>'],
    ['Gemma', '<|tool_call>call:', '<|tool_call>call:act{value:<|"|>a b c<|"|>}<tool_call|>'],
    ['harmony', '<|channel|><|message|><|start|>', '<|channel|>commentary to=functions.act<|message|>{"value": "a b c"}<|call|>'],
  ])('%s: every character of a text is emitted at once', (_, mark, text) => {
    const parser = createChatParser(detectFormat(mark), { tools: [toolOf({ type: 'string' })] });
    const at = text.indexOf('a b c');
    const deltas = [...text].map((char) => deltasOf(parser.push(char)));
    expect(deltas.slice(at, at + 5).map((delta) => delta.at(-1))).toEqual([...'a b c']);
    expect(JSON.parse(deltas.join('') + deltasOf(parser.end()))).toMatchObject({ value: 'a b c' });
  });

  it('calls of tools that are not offered come whole, since they may turn out to be text', () => {
    const events = createChatParser(detectFormat('<tool_call>'), { tools: [toolOf({})] }).push(
      '<tool_call>{"name": "other", "arguments": {"a": "b',
    );
    expect(events).toEqual([]);
  });

  it('malformed arguments end the call, and the rest is content', () => {
    const text = '<tool_call>{"name": "act", "arguments": {"value": "a" "b"}}</tool_call>';
    for (const length of LENGTHS) {
      const parser = createChatParser(detectFormat('<tool_call>'), { tools: [toolOf({})] });
      const events = [...pieces(text, length).flatMap((piece) => parser.push(piece)), ...parser.end()];
      expect(callsOf(events)).toEqual([{ id: undefined, name: 'act', arguments: '{"value": "a" ', cut: true }]);
      expect(events.map((event) => (event.type === 'content' ? event.delta : '')).join('')).toBe('"b"}}</tool_call>');
    }
  });

  it.each([
    ['<|tool_call_start|>', String.raw`<|tool_call_start|>[act(value="a\b\f\n\"c")]<|tool_call_end|>`, 'a\b\f\n"c'],
    ['<tool_call>', '<tool_call>{"name": "act", "arguments": {"value": "x"}}\n</tool_c', 'x'],
  ])('%s: %s', (mark, text, value) => {
    for (const length of LENGTHS) {
      const parser = createChatParser(detectFormat(mark), { tools: [toolOf({ type: 'string' })] });
      const events = [...pieces(text, length).flatMap((piece) => parser.push(piece)), ...parser.end()];
      expect(callsOf(events).map(({ arguments: args }) => JSON.parse(args) as unknown)).toEqual([{ value }]);
      // A closing mark that the end cuts is no content.
      expect(events.filter(({ type }) => type === 'content')).toEqual([]);
    }
  });

  it('line ends and tabs in JSON strings, which models write as they are, become escapes', () => {
    const answer = '<tool_call>{"name": "act", "arguments": {"value": "a\n\tb\r\u0001"}}</tool_call>';
    const [call] = parseAnswer(detectFormat('<tool_call>'), answer, { tools: [toolOf({})] }).toolCalls;
    expect(JSON.parse(call.arguments)).toEqual({ value: 'a\n\tb\r\u0001' });
  });
});

describe('the type of bare text', () => {
  const read = (parameters: object, text: string, mark = '<tool_call><function=<parameter='): unknown => {
    const tool: ChatTool = { type: 'function', function: { name: 'act', parameters } };
    const answer = `<tool_call>\n<function=act>\n<parameter=value>\n${text}\n</parameter>\n</function>\n</tool_call>`;
    const [call] = parseAnswer(detectFormat(mark), answer, { tools: [tool] }).toolCalls;
    return (JSON.parse(call.arguments) as { value: unknown }).value;
  };
  const value = (schema: unknown, more: object = {}): object => ({ type: 'object', properties: { value: schema }, ...more });

  it.each<[schema: unknown, text: string, value: unknown]>([
    [{ type: 'string' }, '90210', '90210'],
    [{ type: ['string', 'null'] }, '90210', '90210'],
    [{ type: ['string', 'null'] }, 'null', null],
    [{ type: ['string', 'null'] }, 'None', null],
    [{ type: ['string', 'null'] }, 'nullable', 'nullable'],
    [{ type: 'string', nullable: true }, 'null', null],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'true', 'true'],
    [{ anyOf: [{ type: 'string' }, { type: 'integer' }] }, '5', 5],
    [{ anyOf: [{ type: 'string' }, { type: 'integer' }] }, '5 apples', '5 apples'],
    [{ oneOf: [{ type: 'boolean' }, { type: 'null' }] }, 'True', true],
    [{ enum: ['1', '2'] }, '1', '1'],
    [{ enum: ['1', 2] }, '1', '1'],
    [{ enum: ['1', 2] }, '2', 2],
    [{ const: '7' }, '7', '7'],
    [{ const: 7 }, '7', 7],
    [{ $ref: '#/$defs/zip' }, '90210', '90210'],
    [{ allOf: [{ $ref: '#/$defs/zip' }, { minLength: 2 }] }, '90210', '90210'],
    [{ allOf: [{ type: ['string', 'number'] }, { type: ['string', 'null'] }] }, '5', '5'],
    [{ $ref: '#/$defs/loop' }, '5', 5],
    [{ pattern: '^a' }, '5', '5'],
    [{ minimum: 3 }, 'False', false],
    [{}, '5', 5],
    [{}, '"5"', '5'],
    [{}, 'five', 'five'],
    [true, '[1]', [1]],
    [{ type: 'boolean' }, 'False', false],
    [{ type: 'array', items: { type: 'string' } }, "['a', True, None]", ['a', true, null]],
    [{ type: 'object' }, "{'a': 'it\\'s', 2: 1.5}", { a: "it's", 2: 1.5 }],
    [{ type: 'integer' }, 'about 5', 'about 5'],
  ])('%j: %s', (schema, text, expected) => {
    const $defs = { zip: { type: 'string' }, loop: { $ref: '#/$defs/loop' } };
    expect(read(value(schema, { $defs }), text)).toEqual(expected);
  });

  it('the schema of an argument may be in a part of the tool schema', () => {
    expect(read({ allOf: [value({ type: 'string' })] }, '5')).toBe('5');
    expect(read({ $ref: '#/$defs/a', $defs: { a: value({ type: 'string' }) } }, '5')).toBe('5');
    expect(read({ type: 'object', additionalProperties: { type: 'string' } }, '5')).toBe('5');
  });

  it('a type that the call itself names is the type', () => {
    const open = (type: string): string =>
      `<|open|>tools<|sep|><|open|>call tool="act" index="1"<|sep|><|open|>argument key="value" type="${type}"<|sep|>5<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>`;
    const format = detectFormat('<|open|><|close|><|sep|>');
    for (const [type, json] of [
      ['string', '{"value": "5"}'],
      ['number', '{"value": 5}'],
    ])
      expect(parseAnswer(format, open(type), { tools: [toolOf({ type: 'integer' })] }).toolCalls[0].arguments).toBe(json);
  });
});

it.each<[string, unknown]>([
  ['', undefined],
  ['{', {}],
  ['{"a', {}],
  ['{"a":', {}],
  ['{"a": "b', { a: 'b' }],
  ['{"a": "b\\', { a: 'b' }],
  ['{"a": "b\\u00', { a: 'b' }],
  ['{"a": 12', {}],
  ['{"a": 12,', { a: 12 }],
  ['{"a": tr', {}],
  ['{"a": [1, {"b": "}', { a: [1, { b: '}' }] }],
  ['["x", "y"', ['x', 'y']],
  ['{"a": 1}', { a: 1 }],
  ['nonsense', undefined],
  ['[}', []],
])('partialJson: %s', (text, value) => {
  expect(partialJson(text)).toEqual(value);
});
