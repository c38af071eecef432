/** The notation of reasoning and tool calls that a chat template uses. */
import type { ChatFormat } from './chat-format.ts';
import { callText, families, hermesText, tagged, type Family } from './families.ts';
import { bareJson } from './json-calls.ts';
import { hunyuan, json, taggedNotation } from './notations.ts';
import { keyValueXml, xmlReader } from './xml-calls.ts';

export type { CallSyntax, ChatFormat } from './chat-format.ts';

/** Markers of reasoning for families that define none, used if the template contains them. */
const commonReasoning: ChatFormat['reasoning'] = [
  { start: '[THINK]', end: '[/THINK]' },
  { start: '<think>', end: '</think>' },
];

/** Format of calls for tools whose names a family's notation cannot write. */
export const jsonCallFormat: ChatFormat = {
  name: 'json',
  reasoning: [],
  reasoningAnywhere: false,
  callsEndReasoning: false,
  calls: [],
  notations: [json],
  bare: bareJson,
  drop: [],
  write: (calls) => calls.map((call) => callText(call)).join('\n'),
};

/**
 * Detects a model's format from its template's source and from the rendering of a tool call, if it
 * can render one. Some templates assemble their markers from pieces, so the source is not enough.
 */
export function detectFormat(source: string, sample = ''): ChatFormat {
  const text = `${source}\n${sample}`;
  const family: Family = families.find(({ is }) => is(text))!;
  const suffix = family.name === 'hunyuan' ? (/<tool_call(:\w+)>/.exec(text)?.[1] ?? '') : '';
  const reasoning = [...(family.reasoning ?? commonReasoning.filter(({ start, end }) => text.includes(end) || text.includes(start)))];
  if (suffix !== '') reasoning.push({ start: `<think${suffix}>`, end: `</think${suffix}>` });
  return {
    name: family.name,
    reasoning,
    reasoningAnywhere: family.reasoningAnywhere ?? false,
    callsEndReasoning: family.callsEndReasoning ?? false,
    calls: [
      ...family.calls,
      ...(suffix === '' ? [] : [{ start: `<tool_call${suffix}>`, read: xmlReader(`</tool_call${suffix}>`, keyValueXml(suffix)) }]),
      tagged,
    ],
    notations: suffix === '' ? (family.notations?.(text) ?? [taggedNotation(text)]) : [hunyuan(suffix)],
    bare: family.bare,
    ...(family.turn ? { turn: family.turn } : {}),
    drop: suffix === '' ? (family.drop ?? []) : [`<tool_calls${suffix}>`, `</tool_calls${suffix}>`],
    write: family.write ?? ((calls) => calls.map(hermesText).join('\n')),
  };
}
