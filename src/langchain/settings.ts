/** Settings of a generation in LangChain's constructors and calls. */
import type { BaseChatModelCallOptions, BindToolsInput } from '@langchain/core/language_models/chat_models';
import { QuantletError } from '../errors.ts';
import type { ChatOptions } from '../chat/options.ts';
import { SAMPLER_DEFAULTS } from '../sample/options.ts';
import type { Backend } from '../server/backend.ts';

/**
 * The model of a constructor's fields.
 * @throws QuantletError ERR_INVALID_ARGUMENT without one
 */
export function generatorIn({ model }: { readonly model: Backend }, name: string): Backend {
  if (typeof (model as Backend | undefined)?.generate === 'function') return model;
  throw new QuantletError('ERR_INVALID_ARGUMENT', `${name}: model is missing; expected the model that loadModel() returns`);
}

/** Options of model.chat() that a caller may set; those of the conversation come with its messages. */
export type Settings = Omit<
  ChatOptions,
  | 'tools'
  | 'toolChoice'
  | 'signal'
  | 'logprobs'
  | 'watch'
  | 'special'
  | 'answerShift'
  | 'addGenerationPrompt'
  | 'continueFinalMessage'
  | 'spanBudget'
>;

/** Settings of one call; they override those of the constructor. */
export interface ChatQuantletCallOptions extends BaseChatModelCallOptions, Omit<Settings, 'stop'> {
  tools?: readonly BindToolsInput[] | undefined;
}

export const SETTINGS: readonly (keyof Settings)[] = [
  ...(Object.keys(SAMPLER_DEFAULTS) as (keyof Settings)[]),
  'maxTokens',
  'stop',
  'ignoreEos',
  'grammar',
  'responseFormat',
  'onContextFull',
  'speculation',
  'parallelToolCalls',
  'reasoning',
  'reasoningBudget',
  'reasoningBudgetMessage',
  'templateVariables',
  'parseSpecial',
];

/**
 * The settings among other fields. `stopSequences` is another of LangChain's names for `stop`.
 * @throws QuantletError ERR_INVALID_ARGUMENT if both are given
 */
export function settingsIn(fields: object): Settings {
  const given = fields as Readonly<Record<string, unknown>>;
  const stop = given.stopSequences === undefined ? {} : { stop: given.stopSequences as string[] };
  if (given.stopSequences !== undefined && given.stop !== undefined)
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'stop and stopSequences are both given; expected one of them');
  const own = SETTINGS.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]] as const]));
  return { ...Object.fromEntries(own), ...stop };
}

/** The parameters that LangSmith shows. */
export function lsParams(name: string, { temperature, maxTokens, stop }: Settings) {
  return {
    ls_provider: 'quantlet',
    ls_model_name: name,
    ...(temperature === undefined ? {} : { ls_temperature: temperature }),
    ...(maxTokens === undefined ? {} : { ls_max_tokens: maxTokens }),
    ...(stop === undefined ? {} : { ls_stop: [stop].flat() }),
  };
}
