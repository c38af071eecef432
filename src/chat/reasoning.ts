/** Reasoning options of a conversation: variables for its template, and the token budget. */
import type { GenerateOptions } from '../generate/generate.ts';
import type { ChatFormat } from './formats.ts';
import { openReasoning } from './markers.ts';
import type { ChatBackend, ChatOptions } from './options.ts';
import type { RenderOptions } from './template.ts';

/**
 * Variables for the template: those of the options, and `enable_thinking: false` for a budget of 0.
 */
export function templateExtra({
  reasoningBudget,
  templateVariables,
}: Pick<ChatOptions, 'reasoningBudget' | 'templateVariables'>): Pick<RenderOptions, 'extra'> {
  const none = reasoningBudget === 0 ? { enable_thinking: false } : undefined;
  return none || templateVariables ? { extra: { ...none, ...templateVariables } } : {};
}

/** The budget in generate()'s form, for models that reason between markers. */
export function reasoningLimit(
  backend: ChatBackend,
  { reasoning, reasoningAnywhere: anywhere }: ChatFormat,
  prompt: string,
  tokens: number,
  message: string,
): Pick<GenerateOptions, 'spanBudget'> {
  if (tokens < 0 || reasoning.length === 0) return {};
  const ids = (text: string, parseSpecial: boolean): number[] =>
    text === '' ? [] : backend.tokenize(text, { addSpecial: false, parseSpecial });
  const spans = reasoning.map(({ start, end }) => ({ start, end, closing: [...ids(message, false), ...ids(end, true)] }));
  const open = openReasoning(reasoning, prompt);
  return { spanBudget: { tokens, spans, ...(open ? { open: reasoning.indexOf(open) } : {}), anywhere } };
}
