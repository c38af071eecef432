/** Flags for the chat template's variables and for reasoning, as options of chat(). */
import type { ChatOptions } from '../chat/options.ts';
import { QuantletError } from '../errors.ts';
import type { FlagKey, Values } from './flags.ts';
import { jsonOf } from './generate-options.ts';

/** All flags here but the template itself. */
export const REASONING_FLAGS = [
  'chatTemplateKwargs',
  'reasoning',
  'reasoningFormat',
  'reasoningBudget',
  'reasoningBudgetMessage',
  'reasoningEffort',
] as const satisfies readonly FlagKey[];
export const TEMPLATE_FLAGS = ['chatTemplate', 'chatTemplateFile', ...REASONING_FLAGS] as const satisfies readonly FlagKey[];

/**
 * Flags that ask for a conversation. With one of them `run` acts like `chat`, as in
 * llama-completion.
 */
export const CONVERSATION_FLAGS = [
  'interactive',
  'singleTurn',
  'system',
  'systemFile',
  ...TEMPLATE_FLAGS,
] as const satisfies readonly FlagKey[];

const SWITCH: { readonly [word: string]: boolean | undefined } = { on: true, off: false, auto: undefined };
const REASONING_FORMATS = ['auto', 'deepseek', 'none', 'hidden'];

/** @throws ERR_USAGE */
export function templateOptions(
  values: Values<(typeof REASONING_FLAGS)[number]>,
): Pick<ChatOptions, 'templateVariables' | 'reasoning' | 'reasoningBudget' | 'reasoningBudgetMessage'> {
  const { chatTemplateKwargs, reasoning = 'auto', reasoningFormat = 'auto', reasoningBudget = -1, reasoningEffort } = values;
  if (!Object.hasOwn(SWITCH, reasoning)) throw new QuantletError('ERR_USAGE', `--reasoning is "${reasoning}"; expected on, off or auto`);
  if (!REASONING_FORMATS.includes(reasoningFormat))
    throw new QuantletError('ERR_USAGE', `--reasoning-format is "${reasoningFormat}"; expected ${REASONING_FORMATS.join(', ')}`);
  if (reasoningBudget < -1)
    throw new QuantletError('ERR_USAGE', `--reasoning-budget is ${reasoningBudget}; expected a number of tokens, or -1 for no limit`);
  const thinking = SWITCH[reasoning];
  const templateVariables = {
    ...(thinking === undefined ? {} : { enable_thinking: thinking }),
    ...(reasoningEffort === undefined || reasoningEffort === 'default' ? {} : { reasoning_effort: reasoningEffort }),
    ...(chatTemplateKwargs === undefined ? {} : jsonOf('--chat-template-kwargs', chatTemplateKwargs)),
  };
  return {
    ...(Object.keys(templateVariables).length > 0 ? { templateVariables } : {}),
    ...(reasoningFormat === 'none' ? { reasoning: false } : {}),
    ...(reasoningBudget < 0 ? {} : { reasoningBudget }),
    ...(values.reasoningBudgetMessage === undefined ? {} : { reasoningBudgetMessage: values.reasoningBudgetMessage }),
  };
}
