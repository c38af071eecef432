/** What a conversation takes: of the model, and of whoever asks. */
import { GENERATE_OPTIONS } from '../generate/checked.ts';
import type { GenerateOptions, Generation } from '../generate/generate.ts';
import { internal, isPlain, KIND, whole, type Kind, type Kinds } from '../options.ts';
import type { Work } from '../slices.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';
import type { EncodeOptions } from '../tokenize/tokenizer.ts';
import type { Continuation } from './begun.ts';
import type { ChatTool } from './messages.ts';
import type { ChatTemplate } from './template.ts';

/** What chat needs of a model. */
export interface ChatBackend {
  /** Tokens of prompt and answer together. */
  readonly contextLength: number;
  /** An encoder reads prompts, which take no room from the answer then. */
  readonly encoder?: boolean | undefined;
  /** @throws QuantletError ERR_CHAT_TEMPLATE where the model's template does not parse */
  readonly chatTemplate: ChatTemplate;
  /** Text of the beginning-of-sequence token, '' where the model has none. */
  readonly bos: string;
  tokenize(text: string, options?: EncodeOptions): number[];
  /** The same as work that pauses. Absent: long texts hold up the event loop. */
  encodeWork?(text: string, options?: EncodeOptions): Work<number[]>;
  /** Absent: what people say in a conversation can forge control tokens, the ends of turns among them. */
  breaksIn?: BreaksIn | undefined;
  generate(prompt: readonly number[], options: GenerateOptions): Generation;
}

/** Who decides about calls. OpenAI's form of a named tool means the same as the short one. */
export type ToolChoice =
  'auto' | 'none' | 'required' | { readonly name: string } | { readonly type: 'function'; readonly function: { readonly name: string } };

/** The tool that a choice names. */
export function namedTool(choice: ToolChoice | undefined): string | undefined {
  if (typeof choice !== 'object') return undefined;
  return 'function' in choice ? choice.function.name : choice.name;
}

const CHOICES = ['auto', 'none', 'required'];
const TOOL_CHOICE: Kind = {
  is: (v) => CHOICES.includes(v as string) || (isPlain(v) && isNamed('function' in v ? v.function : v)),
  expected: `${CHOICES.map((choice) => `"${choice}"`).join(', ')} or { name } of one of the tools`,
  texts: CHOICES,
};
const isNamed = (value: unknown): boolean => isPlain(value) && 'name' in value && typeof value.name === 'string';

export interface ChatOptions extends Omit<GenerateOptions, 'special' | 'parseSpecial' | 'onContextFull' | 'keep' | 'spanBudget' | 'begun'> {
  /**
   * Where a conversation leaves no room for an answer (of maxTokens, a quarter of the context at most). `error` (default): ERR_CONTEXT_FULL where none at all is left.
   * `shift`: the oldest turns behind the system message are left out, as few as will do. `truncate-middle`: those behind the first turn. The last turn stays.
   */
  onContextFull?: GenerateOptions['onContextFull'];
  tools?: readonly ChatTool[] | undefined;
  /** `auto`: the model decides; `none`: no calls; `required`: a call; a name, here or as OpenAI has it: a call of that tool. */
  toolChoice?: ToolChoice | undefined;
  /** False: the answer ends after its first call. */
  parallelToolCalls?: boolean | undefined;
  /** False leaves reasoning and its markers in the content. */
  reasoning?: boolean | undefined;
  /**
   * Tokens of reasoning at most: then its end is written in place of what the model would go on with, as llama.cpp's --reasoning-budget does.
   * 0: none, and templates that know `enable_thinking` are told so; -1 (default): no limit. Answers that a grammar or a format holds do not reason.
   */
  reasoningBudget?: number | undefined;
  /** What is written before that end: a last thought in the model's place. Default ''. */
  reasoningBudgetMessage?: string | undefined;
  /**
   * Read the text of control tokens (`<|im_end|>`) in messages, tools and variables as those tokens, as llama-server does: whoever writes a
   * message can then write turns of others. Default false: they stay text.
   */
  parseSpecial?: boolean | undefined;
  /** Further variables of the template, `enable_thinking` for instance. */
  templateVariables?: Readonly<Record<string, unknown>> | undefined;
  /** An answer that fills the context goes on, behind so many tokens of its prompt: what servers are asked for. @internal */
  answerShift?: { readonly keep: number };
  /**
   * The last message, the assistant's, is how the answer begins: what comes goes on from there (vLLM's and transformers' name). `true`: with its content,
   * or with its reasoning where there is no content; `content` and `reasoning` say which. Default false.
   */
  continueFinalMessage?: Continuation | undefined;
  /** False: the prompt ends with the last message, without the header of an answer (transformers' name). Default true. */
  addGenerationPrompt?: boolean | undefined;
}

const { special: _, keep: __, spanBudget: ___, begun: ____, ...TEXT_OPTIONS } = GENERATE_OPTIONS;

/** Every option of a chat; tools are looked into where they are offered. */
export const CHAT_OPTIONS = {
  ...TEXT_OPTIONS,
  tools: KIND.any,
  toolChoice: TOOL_CHOICE,
  parallelToolCalls: KIND.boolean,
  reasoning: KIND.boolean,
  reasoningBudget: whole(-1),
  reasoningBudgetMessage: KIND.string,
  parseSpecial: KIND.boolean,
  continueFinalMessage: {
    is: (v) => [true, false, 'content', 'reasoning'].includes(v as Continuation),
    expected: 'true, false, "content" or "reasoning"',
  },
  addGenerationPrompt: KIND.boolean,
  templateVariables: KIND.object,
  answerShift: internal(KIND.object),
} satisfies Kinds<ChatOptions>;
