/** Options of a conversation, and its requirements of a model. */
import type { ReadImage } from './images.ts';
import { GENERATE_OPTIONS } from '../generate/checked.ts';
import type { GenerateOptions, Generation } from '../generate/generate.ts';
import { internal, isPlain, KIND, whole, type Kind, type Kinds } from '../options.ts';
import type { Work } from '../slices.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';
import type { EncodeOptions } from '../tokenize/tokenizer.ts';
import type { Continuation } from './begun.ts';
import type { ChatTool } from './messages.ts';
import type { ChatTemplate } from './template.ts';

/** Model interface that chat requires. */
export interface ChatBackend {
  /** Maximum tokens of prompt and answer together. */
  readonly contextLength: number;
  /** An encoder reads the prompt, which then takes no room from the answer. */
  readonly encoder?: boolean | undefined;
  /** @throws QuantletError ERR_CHAT_TEMPLATE if the model's template does not parse */
  readonly chatTemplate: ChatTemplate;
  /** Text of the beginning-of-sequence token; '' if the model has none. */
  readonly bos: string;
  tokenize(text: string, options?: EncodeOptions): number[];
  /** tokenize() as work that pauses. If absent, long texts block the event loop. */
  encodeWork?(text: string, options?: EncodeOptions): Work<number[]>;
  /** If absent, message text can forge control tokens, such as the end of a turn. */
  breaksIn?: BreaksIn | undefined;
  /** Reads an image for a prompt. Absent if the model sees no images. */
  readImage?: ReadImage | undefined;
  generate(prompt: readonly number[], options: GenerateOptions): Generation;
}

/** Choice about calls. OpenAI's form of a named tool is equivalent to the short one. */
export type ToolChoice =
  'auto' | 'none' | 'required' | { readonly name: string } | { readonly type: 'function'; readonly function: { readonly name: string } };

/** The name of the tool in a choice; undefined if the choice names none. */
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

export interface ChatOptions extends Omit<
  GenerateOptions,
  'special' | 'parseSpecial' | 'onContextFull' | 'keep' | 'spanBudget' | 'begun' | 'grammarAfter' | 'calls' | 'callStarts'
> {
  /**
   * Behaviour if a conversation leaves no room for an answer. The room wanted is maxTokens, at most
   * a quarter of the context.
   *
   * `error` (default): ERR_CONTEXT_FULL if no room is left at all. `shift`: leaves out the oldest
   * turns after the system message, as few as possible. `truncate-middle`: the same, but keeps the
   * first turn. The last turn always stays.
   */
  onContextFull?: GenerateOptions['onContextFull'];
  tools?: readonly ChatTool[] | undefined;
  /**
   * `auto`: the model decides; `none`: no calls; `required`: a call; a name, in the short form or
   * OpenAI's: a call of that tool.
   */
  toolChoice?: ToolChoice | undefined;
  /** False: the answer ends after its first call. True: a required call may be several. */
  parallelToolCalls?: boolean | undefined;
  /** False leaves reasoning and its markers in the content. */
  reasoning?: boolean | undefined;
  /**
   * Maximum tokens of reasoning. After these its end marker is written instead of the model's next
   * token, like llama.cpp's --reasoning-budget. 0: no reasoning; templates with `enable_thinking`
   * get false. -1 (default): no limit. A grammar, a format or a required call begins after the
   * reasoning if the template opens it; otherwise such answers do not reason.
   */
  reasoningBudget?: number | undefined;
  /** Text to write before that end marker, as a last thought. Default ''. */
  reasoningBudgetMessage?: string | undefined;
  /**
   * Read the text of control tokens (`<|im_end|>`) in messages, tools and variables as those
   * tokens, as llama-server does. Then the author of a message can forge turns of others. Default
   * false: they stay text.
   */
  parseSpecial?: boolean | undefined;
  /** Additional variables of the template, for example `enable_thinking`. */
  templateVariables?: Readonly<Record<string, unknown>> | undefined;
  /**
   * Lets an answer continue when the context is full, keeping `keep` tokens of its prompt. Servers
   * offer this.
   * @internal
   */
  answerShift?: { readonly keep: number };
  /**
   * The assistant's last message is the beginning of the answer, which the model continues (name
   * from vLLM and transformers). `true`: continues its content, or its reasoning if it has no
   * content. `content` and `reasoning` select the part. Default false.
   */
  continueFinalMessage?: Continuation | undefined;
  /**
   * False: the prompt ends with the last message, without the header of an answer (name from
   * transformers). Default true.
   */
  addGenerationPrompt?: boolean | undefined;
}

const {
  special: _,
  keep: __,
  spanBudget: ___,
  begun: ____,
  grammarAfter: _____,
  calls: ______,
  callStarts: _______,
  ...TEXT_OPTIONS
} = GENERATE_OPTIONS;

/** Every option of a chat. Tools are checked elsewhere (offeredTools, checkTools). */
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
