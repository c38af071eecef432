/** Calls that a grammar holds to the notation of the model's family. */
import { describe, expect, it } from 'vitest';
import { heldCalls } from '../../src/chat/held-calls.ts';
import type { ChatTool } from '../../src/chat/messages.ts';
import { NAMED_TEMPLATES } from '../../src/chat/named-templates.ts';
import { parseAnswer } from '../../src/chat/parser.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { callsGrammarWork } from '../../src/grammar/calls/calls-grammar.ts';
import { createMatcher } from '../../src/grammar/matcher.ts';
import { atOnce } from '../../src/slices.ts';
import { byteVocabulary } from '../grammar/helpers.ts';
import { seeded } from '../web/server.ts';
import { closersOf, walkCalls } from './call-walk.ts';
import { writeCall } from './round-trip.ts';
import { everyTemplate } from './templates.ts';

const vocabulary = byteVocabulary(['<tool_call>', '</tool_call>', '{"', '": "', '", "', '\n</', '>\n', 'null', ' true']);
const templates = [...everyTemplate, ...Object.entries(NAMED_TEMPLATES).map(([name, source]) => [`llama.cpp's ${name}`, source] as const)];

const tool = (name: string, parameters: object): ChatTool => ({ type: 'function', function: { name, description: 'Acts', parameters } });
const act = tool('act', {
  type: 'object',
  properties: {
    text: { type: 'string' },
    count: { type: 'integer', minimum: 0, maximum: 99 },
    done: { type: 'boolean' },
    mixed: { type: ['string', 'null', 'number'] },
    kind: { enum: ['a', 'b c', 'None'] },
    list: { type: 'array', items: { type: 'string' }, maxItems: 3 },
    object: {
      type: 'object',
      properties: { inner: { type: 'string', maxLength: 5 }, flag: { type: 'boolean' } },
      required: ['inner'],
      additionalProperties: false,
    },
  },
  required: ['text', 'count'],
  additionalProperties: false,
});
const none = tool('none', { type: 'object', properties: {}, additionalProperties: false });
const tools = [act, none];
const validators = new Map(tools.map(({ function: { name, parameters } }) => [name, createMatcher({ schema: parameters! })]));

describe("a template's own calls belong to its grammar", () => {
  const args = '{"text": "x y", "count": 1, "done": true, "list": [], "object": {"inner": "v"}}';
  it.each(templates)('%s', (name, source) => {
    const template = createChatTemplate(source, { bos: '<s>', eos: '</s>' });
    const given = /MiniMax-M3/.test(name) ? args.replace('"list": [], ', '') : args;
    const { answer } = writeCall(template, act, given);
    const { notations } = template.format;
    const starts = notations.map(({ start }) => answer.indexOf(start === '>>>' ? 'act' : start || '{')).filter((at) => at >= 0);
    const grammar = atOnce(
      callsGrammarWork(heldCalls(template.format, tools, { several: false, section: true, prompt: '', begun: '' })!, vocabulary),
    );
    const call = (notations[0].start === '>>>' ? '>>>' : '') + answer.slice(Math.min(...starts)).replaceAll(/ {2,}/g, ' ');
    let length = 0;
    for (const byte of new TextEncoder().encode(call))
      if (!grammar.read(Uint8Array.of(byte))) break;
      else length++;
    expect(
      grammar.isComplete(),
      JSON.stringify({ call, read: new TextDecoder().decode(new TextEncoder().encode(call).subarray(0, length)) }),
    ).toBe(true);
  });
});

describe('noise that the grammar holds', () => {
  it.each(templates)('%s: one call and several are read, and their arguments validate', { timeout: 120_000 }, (_, source) => {
    const template = createChatTemplate(source, { bos: '<s>', eos: '</s>' });
    const prompt = template.render({ messages: [{ role: 'user', content: 'Question' }], tools });
    const random = seeded(source.length);
    for (const several of [false, true])
      for (const section of [false, true]) {
        const format = heldCalls(template.format, tools, { several, section, prompt, begun: '' })!;
        const grammar = atOnce(callsGrammarWork(format, vocabulary));
        for (let i = 0; i < 8; i++) {
          grammar.reset();
          const text = walkCalls(grammar, vocabulary, closersOf(format), random);
          const { content, toolCalls } = parseAnswer(template.format, text, {
            tools,
            prompt: section ? '' : prompt.trimEnd().endsWith('>>>') ? '>>>' : '',
          });
          const context = JSON.stringify({ text, toolCalls, content });
          expect(content.trim(), context).toBe('');
          expect(toolCalls.length, context).toBeGreaterThan(0);
          if (!several) expect(toolCalls.length, context).toBe(1);
          for (const call of toolCalls) {
            expect(call.cut, context).toBeUndefined();
            expect(validators.get(call.name)?.accepts(call.arguments), context).toBe(true);
          }
        }
      }
  });
});

it('values that the notation cannot write are not begun', () => {
  const { format } = createChatTemplate('{{ messages[0].content }}]<]minimax[>[ <mm:think></mm:think>', { bos: '<s>', eos: '</s>' });
  const unwritable = { type: 'object', properties: { a: { type: 'integer' }, 'b c': { type: 'null' } }, required: ['a', 'b c'] };
  const parameters = {
    type: 'object',
    properties: {
      list: { type: 'array', items: { anyOf: [unwritable, { type: 'boolean' }] } },
      never: unwritable,
      nested: { type: 'object', properties: { inner: unwritable, n: { type: 'integer' } }, required: ['n'] },
      constant: { enum: [{ a: 1, '': 2 }, 7] },
    },
    additionalProperties: false,
  };
  const held = heldCalls(format, [tool('act', parameters)], { several: false, section: true, prompt: '', begun: '' })!;
  const grammar = atOnce(callsGrammarWork(held, vocabulary));
  const matcher = createMatcher({ schema: parameters });
  for (let seed = 0; seed < 200; seed++) {
    grammar.reset();
    const text = walkCalls(grammar, vocabulary, closersOf(held), seeded(seed), 20);
    const { toolCalls } = parseAnswer(format, text, { tools: [tool('act', parameters)] });
    expect(
      toolCalls.map((call) => matcher.accepts(call.arguments)),
      text,
    ).toEqual([true]);
  }
});
