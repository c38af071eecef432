/** Calls that begin in free text are held to a grammar up to their end. */
import { describe, expect, it } from 'vitest';
import { begunCalls } from '../../src/chat/held-calls.ts';
import { detectFormat } from '../../src/chat/formats.ts';
import type { ChatTool } from '../../src/chat/messages.ts';
import { callsGrammarWork } from '../../src/grammar/calls/calls-grammar.ts';
import { createBegunCalls } from '../../src/sample/begun-calls.ts';
import { atOnce } from '../../src/slices.ts';
import { byteVocabulary } from '../grammar/helpers.ts';

const vocabulary = byteVocabulary(['<tool_call>', ' <tool_call>\n{', '<tool_call>no', '</think>', 'é']);
const parameters = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };
const tools: ChatTool[] = [{ type: 'function', function: { name: 'act', parameters } }];

function held(template: string, answer: { prompt?: string; begun?: string; single?: boolean } = {}) {
  const { prompt = '', begun = '', single = false } = answer;
  const { calls, callStarts } = begunCalls(detectFormat(template), tools, { prompt, begun, reasoning: true, single })!;
  const grammar = atOnce(callsGrammarWork(calls, vocabulary));
  return createBegunCalls(grammar, callStarts, {
    budget: undefined,
    pieceBytes: (id) => vocabulary.pieceBytes(id),
    isEog: (id) => vocabulary.isEog(id),
  });
}
type Held = ReturnType<typeof held>;

/** Reads a text byte by byte, up to the first byte that is not allowed. Returns the rest. */
function read(rules: Held, text: string): string {
  const bytes = [...new TextEncoder().encode(text)];
  for (const [i, byte] of bytes.entries()) {
    if (!rules.allows(byte)) return new TextDecoder().decode(Uint8Array.from(bytes.slice(i)));
    rules.accept(byte);
  }
  return '';
}
const allowed = (rules: Held): number[] => {
  const logits = new Float32Array(vocabulary.nVocab);
  rules.mask(logits);
  return [...logits.keys()].filter((id) => logits[id] === 0);
};

describe('a call in free text', () => {
  it('is held from its mark on to its end, and again', () => {
    const rules = held('<tool_call>');
    const call = '<tool_call>\n{"name": "act", "arguments": {"n": 12}}\n</tool_call>';
    expect(read(rules, `Hello é <tool_ <b>\n${call} and ${call}\n${call}`)).toBe('');
    expect(rules.allows(vocabulary.eog)).toBe(true);
    for (const [wrong, rest] of [
      ['<tool_call>no', 'no'],
      ['<tool_call>{"name": "other"', 'other"'],
      ['<tool_call>{"name": "act", "arguments": {"n": "x"', '"x"'],
      [`${call}<tool_call>{"name": "act"}`, '}'],
    ]) {
      rules.reset();
      expect(read(rules, wrong), wrong).toBe(rest);
      expect(rules.allows(vocabulary.eog)).toBe(false);
    }
  });

  it('a token may have the mark and the beginning of the call', () => {
    const rules = held('<tool_call>');
    expect(vocabulary.find(' <tool_call>\n{')).toBeDefined();
    expect([rules.allows(vocabulary.find(' <tool_call>\n{')), rules.allows(vocabulary.find('<tool_call>no'))]).toEqual([true, false]);
    expect(allowed(rules)).not.toContain(vocabulary.find('<tool_call>no'));
    rules.accept(vocabulary.find(' <tool_call>\n{'));
    expect(read(rules, '"name": "act", "arguments": {"n": 1}}</tool_call>')).toBe('');
    rules.reset();
    rules.accept(vocabulary.find('<tool_call>'));
    expect(allowed(rules)).not.toContain('n'.charCodeAt(0));
    expect(allowed(rules)).toContain('{'.charCodeAt(0));
  });

  it('not in reasoning, open in the prompt or begun at the start, but after it', () => {
    for (const [prompt, text] of [
      ['<think>\n', 'a <tool_call>no</think>'],
      ['', '\n<think>a <tool_call>no</think>'],
    ]) {
      const rules = held('<tool_call><think></think>', { prompt });
      expect(read(rules, text), text).toBe('');
      expect(read(rules, '\n<tool_call>no')).toBe('no');
    }
    // Later, the mark is text.
    expect(read(held('<tool_call><think></think>'), 'a <think> <tool_call>no')).toBe('no');
  });

  it('may end reasoning in families that leave its end out', () => {
    const rules = held('<think></think><tool_call><function=<parameter=', { prompt: '<think>' });
    expect(read(rules, 'a <tool_call>\n<function=act>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call><tool_call>no')).toBe('no');
  });

  it('has begun in the prompt', () => {
    expect(read(held('<tool_call>', { begun: 'So: <tool_call>{"name": ' }), '"act", "arguments": {"n": x')).toBe('x');
    // The beginning is no call, so the rest is free.
    expect(read(held('<tool_call>', { begun: 'So: <tool_call>no' }), ' "x"')).toBe('');
    expect(read(held('>>>all', { prompt: 'x>>>' }), 'act\n{"n": x')).toBe('x');
    expect(read(held('>>>all', { prompt: 'x>>>' }), 'all\n{"n": x')).toBe('');
  });

  it('without a mark, at the start only: the name of a tool tells', () => {
    const template = '<|start_header_id|><|end_header_id|>parameters';
    expect(read(held(template), '\n{"name": "act", "parameters": {"n": x')).toBe('x');
    expect(read(held(template), '{"name": "other", "parameters": {"n": x')).toBe('');
    expect(read(held(template), 'So {"name": "act", "parameters": {"n": x')).toBe('');
  });

  it('is the last if one is allowed', () => {
    const rules = held('<tool_call>', { single: true });
    expect(read(rules, 'a <tool_call>{"name": "act", "arguments": {"n": 1}}</tool_call')).toBe('');
    expect(rules.isFinished()).toBe(false);
    expect(read(rules, '>')).toBe('');
    expect(rules.isFinished()).toBe(true);
  });
});
