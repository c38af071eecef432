/** Calls in the model's own notation, for the grammar that holds an answer to them. */
import type { CallsFormat } from '../grammar/calls/notation.ts';
import type { PlainFormat } from '../grammar/schema-source.ts';
import type { ChatFormat } from './chat-format.ts';
import { jsonCallFormat } from './formats.ts';
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
