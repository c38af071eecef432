/** A conversation's options of reasoning: what its template is told, and how long the model may go on. */
import type { GenerateOptions } from '../generate/generate.ts';
import type { ChatFormat } from './formats.ts';
import { openReasoning } from './markers.ts';
import type { ChatBackend, ChatOptions } from './options.ts';
import type { RenderOptions } from './template.ts';

/** The variables that the template is given: those of the options, and that nothing is to be reasoned where the budget is 0. */
export function templateExtra({
  reasoningBudget,
  templateVariables,
}: Pick<ChatOptions, 'reasoningBudget' | 'templateVariables'>): Pick<RenderOptions, 'extra'> {
  const none = reasoningBudget === 0 ? { enable_thinking: false } : undefined;
  return none || templateVariables ? { extra: { ...none, ...templateVariables } } : {};
}

/** A budget as generate() takes it, for models that reason between marks. */
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
