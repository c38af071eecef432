/** Calls in the model's own notation, for the grammar that holds an answer to them. */
import type { CallsFormat, Piece } from '../grammar/calls/notation.ts';
import type { PlainFormat } from '../grammar/schema-source.ts';
import type { CallStarts } from '../sample/begun-calls.ts';
import type { ChatFormat } from './chat-format.ts';
import { jsonCallFormat } from './formats.ts';
import { openReasoning } from './markers.ts';
import type { ChatTool } from './messages.ts';

/** Part of a conversation's options about calls. */
export interface Holding {
  /** More than one call is allowed. */
  readonly several: boolean;
  /** True: the grammar begins where a call does. False: the answer consists of calls. */
  readonly section: boolean;
  /** The answer may be this instead of calls. */
  readonly answer?: PlainFormat | undefined;
  /** The prompt, which may end with the mark that begins a call. */
  readonly prompt: string;
  /** The beginning of the answer, if the prompt contains it. */
  readonly begun: string;
}

/**
 * The calls of these tools in a family's notation. Undefined if the notation cannot write the name of
 * a tool.
 */
export function heldCalls(format: ChatFormat, tools: readonly ChatTool[], holding: Holding): CallsFormat | undefined {
  const { several, section, answer, prompt } = holding;
  const usable = format.notations.filter(({ names }) => tools.every((tool) => names?.test(tool.function.name) ?? true));
  if (usable.length === 0 || tools.length === 0) return undefined;
  const notations = usable.map(({ start, open, between, close, before, after, again, form, tail, head }) => {
    const opened = !section && start !== '' && prompt.trimEnd().endsWith(start);
    return {
      start: opened ? '' : start,
      ...(opened && several && between === undefined ? { again: [...(again ?? []), start] } : again && { again }),
      ...{ open, close, form, tail },
      ...(between && { between }),
      ...(before && { before }),
      ...(after && { after }),
      heads: tools.map((tool) => head(tool.function.name)),
    };
  });
  return {
    tools: tools.map(({ function: { name, parameters = {}, strict } }) => ({ name, schema: parameters, strict: strict === true })),
    notations,
    several,
    section,
    ...(answer && { answer }),
  };
}

/** Most texts with which calls may begin; they are searched for in all text. */
const MAX_STARTS = 200;

/**
 * The texts with which calls of a family begin in free text. Undefined without such texts, or with too many.
 */
function startsOf({ notations }: ChatFormat, tools: readonly ChatTool[]): Pick<CallStarts, 'starts' | 'onlyFirst'> | undefined {
  const starts = notations.flatMap(({ start, open, head, byName, triggers }) => {
    if (!byName) return triggers ?? [start];
    return tools.flatMap(({ function: { name } }) => spellings([start, ...open, ...upToName(head(name), name)]));
  });
  const distinct = [...new Set(starts)];
  if (distinct.length === 0 || distinct.length > MAX_STARTS) return undefined;
  return { starts: distinct, onlyFirst: notations.some(({ onlyFirst }) => onlyFirst) };
}

/** The pieces of a head up to the one after the name. */
const upToName = (head: readonly Piece[], name: string): readonly Piece[] =>
  head.slice(0, head.findIndex((piece) => piece === name || piece === JSON.stringify(name)) + 2);

/** Pieces as texts, each gap with one blank or none. */
const spellings = (list: readonly Piece[]): readonly string[] =>
  list.reduce<string[]>((texts, piece) => texts.flatMap((text) => (typeof piece === 'string' ? [text + piece] : [text, `${text} `])), ['']);

/** Calls that may begin in free text, and where. Undefined if their beginning cannot be told from other text. */
export function begunCalls(
  format: ChatFormat,
  tools: readonly ChatTool[],
  answer: { readonly prompt: string; readonly begun: string; readonly reasoning: boolean; readonly single: boolean },
): { readonly calls: CallsFormat; readonly callStarts: CallStarts } | undefined {
  const { prompt, begun, reasoning, single } = answer;
  const calls = heldCalls(format, tools, { several: !single, section: true, prompt, begun });
  const starts = startsOf(format, tools);
  if (!calls || !starts) return undefined;
  const spans = reasoning ? format.reasoning : [];
  const open = openReasoning(spans, prompt);
  const opener = format.notations.find(({ start }) => start !== '' && prompt.trimEnd().endsWith(start))?.start ?? '';
  const callStarts: CallStarts = {
    ...starts,
    spans,
    ...(open && { open: spans.indexOf(open) }),
    anywhere: format.reasoningAnywhere,
    inSpans: format.callsEndReasoning,
    begun: opener + begun,
    single,
  };
  return { calls, callStarts };
}

/**
 * The calls of these tools, and the format in which they are written: the family's. JSON alone, if
 * the family's cannot write a name, or if the answer has begun with JSON.
 */
export function holdCalls(
  format: ChatFormat,
  tools: readonly ChatTool[],
  holding: Holding,
): { readonly calls: CallsFormat; readonly format: ChatFormat } {
  const calls = holding.begun.trimStart().startsWith('{') ? undefined : heldCalls(format, tools, holding);
  if (calls) return { calls, format };
  return { calls: heldCalls(jsonCallFormat, tools, holding)!, format: { ...jsonCallFormat, reasoning: format.reasoning } };
}
