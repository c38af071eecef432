/** A model's chat template, with workarounds for missing capabilities. */
import { QuantletError } from '../errors.ts';
import { atOnce, type Work } from '../slices.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';
import { writeBegun, type BegunPrompt, type Continuation } from './begun.ts';
import { probe, type ChatCapabilities } from './capabilities.ts';
import { createContentMarks, noMarks, type ContentMarks, type RenderedPrompt } from './contents.ts';
import { draftsOf } from './drafts.ts';
import { bigJson, createNumberMarks, type NumberMarks } from './exact-json.ts';
import { detectFormat, type ChatFormat } from './formats.ts';
import { compileJinja, strftime, TemplateBudget, type CompiledJinja } from './jinja.ts';
import { NAMED_TEMPLATES } from './named-templates.ts';
import { nearest } from '../nearest.ts';
import { checkMessages, checkTools, completeTool, fullTool, type ChatMessage, type ChatTool } from './messages.ts';

export interface RenderOptions {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[] | undefined;
  /** End with the header of the assistant's answer. Default true. */
  readonly addGenerationPrompt?: boolean | undefined;
  /** End within the assistant's last message, which the answer continues. Default false. */
  readonly continueFinal?: Continuation | undefined;
  /** Additional variables of the template, for example `enable_thinking`. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
  /**
   * Finds control tokens in message text, which then stay text. If absent, they are read as tokens.
   */
  readonly breaksIn?: BreaksIn | undefined;
}

export interface ChatTemplate {
  /** The Jinja source in use. */
  readonly source: string;
  readonly capabilities: ChatCapabilities;
  /**
   * The model's separate template for conversations with tools, if any. render() selects it
   * automatically.
   */
  readonly toolUse: ChatTemplate | undefined;
  /** The model's notation of reasoning and tool calls, for createChatParser. */
  readonly format: ChatFormat;
  /** Messages for people about missing capabilities and the workarounds in use. */
  readonly warnings: readonly string[];
  /**
   * Renders the conversation as the model's prompt. Special tokens are written as text, including
   * the beginning-of-sequence token if the template writes it. So tokenize with special tokens
   * parsed and without adding a second one.
   * @throws QuantletError ERR_CHAT_TEMPLATE with the template's own words; ERR_INVALID_ARGUMENT for
   * content that is not text
   */
  render(options: RenderOptions): string;
  /**
   * render() as work that pauses, also returning the offsets that keep message text from being read
   * as control tokens.
   */
  renderWork(options: RenderOptions): Work<BegunPrompt>;
}

/** A model's templates, as Jinja source. */
export interface TemplateSources {
  readonly source: string | undefined;
  /** For conversations with tools. */
  readonly toolUse?: string | undefined;
}

/**
 * The templates of a file. If it has only the one for tools, that one serves all conversations, as
 * in llama.cpp.
 */
export function fileTemplates(metadata: ReadonlyMap<string, unknown>): TemplateSources {
  const text = (key: string): string | undefined => {
    const value = metadata.get(key);
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const source = text('tokenizer.chat_template');
  const toolUse = text('tokenizer.chat_template.tool_use');
  return source === undefined || source === 'chatml' ? { source: toolUse ?? source } : { source, toolUse };
}

/** Selects the template for a conversation with these tools. */
export const templateFor = (template: ChatTemplate, tools: readonly ChatTool[] | undefined): ChatTemplate =>
  tools && tools.length > 0 ? (template.toolUse ?? template) : template;

/**
 * Creates a chat template that works around missing support. A system message goes into the first
 * user message, tools into the system message, and tool calls and results into text. Content parts
 * become strings or the reverse.
 *
 * @param source Jinja source (GGUF: tokenizer.chat_template), or the name of one of llama.cpp's
 * templates. If empty, uses ChatML and warns.
 * @param options.now the clock for `strftime_now` and Llama 3's date
 * @param options.toolUse Jinja source for conversations with tools
 * @throws QuantletError ERR_CHAT_TEMPLATE if the source is not a template
 */
export function createChatTemplate(
  source: string | undefined,
  tokens: { bos?: string; eos?: string } = {},
  options: { now?: () => Date; toolUse?: string | undefined } = {},
): ChatTemplate {
  const warnings = source
    ? []
    : [
        'The model has no chat template (tokenizer.chat_template); ChatML is used. Give the right one as chatTemplate if the answers look wrong.',
      ];
  const given = (source && Object.hasOwn(NAMED_TEMPLATES, source) ? NAMED_TEMPLATES[source] : source) || NAMED_TEMPLATES.chatml;
  // Normalises line breaks as Jinja2 and llama.cpp's lexer do: their block rules, and the model,
  // know only \n.
  const text = given.replace(/\r\n?/g, '\n');
  const raw = createRaw(text, tokens, options.now);
  const { capabilities, sample } = probe((variables) => rawAtOnce(raw, variables));
  const code = text.search(/\{[{%]/);
  if (code < 0 || !/\bmessages\b/.test(text.slice(code))) throw readsNothing(text);
  const format = detectFormat(text, sample);
  let toolUse: ChatTemplate | undefined;
  try {
    toolUse = options.toolUse === undefined ? undefined : createChatTemplate(options.toolUse, tokens, { now: options.now });
  } catch (error) {
    warnings.push(`the template for tools (tokenizer.chat_template.tool_use) is left out: ${messageOf(error)}`);
  }
  const writer = new PromptWriter(text, raw, capabilities, format);
  function* renderWork(options: RenderOptions): Work<BegunPrompt> {
    const template = templateFor(chatTemplate, options.tools);
    if (template !== chatTemplate) return yield* template.renderWork(options);
    const { messages, tools = [], continueFinal = false, breaksIn } = options;
    checkMessages(messages);
    checkTools(tools);
    if (continueFinal === false) return yield* writer.write(options);
    const write = (some: readonly ChatMessage[], addGenerationPrompt: boolean): Work<RenderedPrompt> =>
      writer.write({ ...options, messages: some, addGenerationPrompt });
    return yield* writeBegun(messages, continueFinal, { write, format, breaksIn });
  }
  const chatTemplate: ChatTemplate = {
    source: text,
    toolUse,
    capabilities,
    format,
    warnings: [...warnings, ...(toolUse?.warnings ?? [])],
    render: (options) => atOnce(renderWork(options)).text,
    renderWork,
  };
  return chatTemplate;
}

const templateError = (message: string, cause: unknown): QuantletError => new QuantletError('ERR_CHAT_TEMPLATE', message, { cause });

/** Renders the template itself, without workarounds. */
type Raw = (variables: Readonly<Record<string, unknown>>) => Work<string>;

/**
 * Compiles a template and adds the variables that all templates get.
 * @throws QuantletError ERR_CHAT_TEMPLATE
 */
function createRaw(text: string, tokens: { bos?: string; eos?: string }, clock: (() => Date) | undefined): Raw {
  let compiled: CompiledJinja;
  try {
    compiled = compileJinja(text, clock);
  } catch (error) {
    throw templateError(`the chat template does not parse (${messageOf(error)}); give another one as chatTemplate`, error);
  }
  const now = clock ?? (() => new Date());
  return (variables) =>
    compiled.work({ bos_token: tokens.bos ?? '', eos_token: tokens.eos ?? '', ...aliases(text, variables.tools, now()), ...variables });
}

function rawAtOnce(raw: Raw, variables: Readonly<Record<string, unknown>>): string {
  try {
    return atOnce(raw(variables));
  } catch (error) {
    if (error instanceof TemplateBudget)
      throw templateError(`the chat template never ends (${error.message}); give another one as chatTemplate`, error);
    throw error;
  }
}

/** Writes conversations with a compiled template. */
class PromptWriter {
  readonly #text: string;
  readonly #raw: Raw;
  readonly #capabilities: ChatCapabilities;
  readonly #format: ChatFormat;
  readonly #read: ReturnType<typeof readByTemplate>;

  constructor(text: string, raw: Raw, capabilities: ChatCapabilities, format: ChatFormat) {
    this.#text = text;
    this.#raw = raw;
    this.#capabilities = capabilities;
    this.#format = format;
    this.#read = readByTemplate(text);
  }

  /**
   * The prompt of a conversation. If the template refuses it with these tools, renders again with
   * complete tool schemas.
   */
  *write(options: RenderOptions): Work<RenderedPrompt> {
    const { messages, tools: offered = [], extra = {}, breaksIn } = options;
    const given = (): string => bigJson([messages, offered, extra]) + this.#text;
    const marks = breaksIn ? createContentMarks(breaksIn, given) : noMarks;
    const numbers = createNumberMarks(given);
    const tools = yield* marks.markAll(numbers.mark(offered.map(completeTool)));
    const refused = (error: unknown): QuantletError =>
      templateError(`the chat template refuses this conversation (${messageOf(error)}); check the roles and their order`, error);
    try {
      return yield* this.#prompt(options, tools, { marks, numbers });
    } catch (error) {
      if (error instanceof QuantletError) throw error;
      if (tools.length === 0 || error instanceof TemplateBudget) throw refused(error);
      try {
        return yield* this.#prompt(options, tools.map(fullTool), { marks, numbers });
      } catch {
        throw refused(error);
      }
    }
  }

  /**
   * @param marks stand-ins for text that could be read as control tokens, and for numbers; removed
   * from the prompt
   */
  *#prompt(
    { messages, addGenerationPrompt = true, extra = {} }: RenderOptions,
    tools: readonly ChatTool[],
    { marks, numbers }: { readonly marks: ContentMarks; readonly numbers: NumberMarks },
  ): Work<RenderedPrompt> {
    const can = this.#capabilities;
    const format = this.#format;
    const drafts = yield* draftsOf(messages, tools, { can, format, source: this.#text, marks, numbers, read: this.#read });
    const none = can.noTools === 'null' ? null : [];
    const available = tools.length > 0 && can.tools ? { tools } : can.noTools === 'undefined' ? {} : { tools: none };
    const variables = {
      ...(yield* marks.markAll(numbers.mark(extra))),
      messages: drafts,
      add_generation_prompt: addGenerationPrompt,
      ...available,
    };
    const losesCalls = addGenerationPrompt && !can.callsAtEnd && drafts.at(-1)?.tool_calls;
    const written = yield* losesCalls ? withHeader(this.#raw, variables) : this.#raw(variables);
    const header = addGenerationPrompt && format.turn && written.endsWith(format.turn.end) ? format.turn.start : '';
    return yield* marks.take(numbers.take(written) + header);
  }
}

/**
 * A conversation that ends with calls, followed by an answer's header, for templates that leave out
 * the calls before a header. The header is the difference between two renderings of the messages
 * before the calls.
 */
function* withHeader(raw: Raw, variables: Readonly<Record<string, unknown>> & { readonly messages: readonly object[] }): Work<string> {
  const whole = yield* raw({ ...variables, add_generation_prompt: false });
  const before = { ...variables, messages: variables.messages.slice(0, -1) };
  const closed = yield* raw({ ...before, add_generation_prompt: false });
  const open = yield* raw(before);
  let same = 0;
  while (same < closed.length && closed[same] === open[same]) same++;
  return whole + open.slice(same);
}

/**
 * Error for a text that is not a template: it would be sent to the model instead of the
 * conversation.
 */
function readsNothing(text: string): QuantletError {
  const names = Object.keys(NAMED_TEMPLATES);
  const [near] = text.length < 40 ? nearest(text, names, 2) : [];
  const shown = text.length < 40 ? `"${text}"` : `that begins with "${text.slice(0, 40)}"`;
  return new QuantletError(
    'ERR_CHAT_TEMPLATE',
    `the chat template ${shown} never reads messages; ${near ? `did you mean ${near}? Expected` : 'expected'} Jinja that writes them, or one of the names ${names.join(', ')}`,
  );
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).replace(/\.$/, '');

/**
 * Additional variables for a few templates: the date, as in llama.cpp, and the tools under other
 * names (as JSON text for Firefunction, as a list for SmolLM3).
 */
function aliases(source: string, tools: unknown, date: Date): Record<string, unknown> {
  const given: Record<string, unknown> = { date_string: strftime('%d %b %Y', date), datetime: strftime('%b %d %Y', date) };
  const offered = Array.isArray(tools) && tools.length > 0;
  if (/\bfunctions\b/.test(source) && !/\bin functions\b/.test(source)) given.functions = offered ? JSON.stringify(tools, null, 4) : '';
  if (/\bxml_tools\b/.test(source) && offered) given.xml_tools = tools;
  return given;
}

/**
 * Strings that a template searches for in earlier answers, for example to remove their reasoning.
 * Control tokens among them stay unmarked in answers, or the template would not find them.
 */
function readByTemplate(source: string): ReadonlySet<string> {
  return new Set(
    [...source.matchAll(/split\(\s*(?:'([^'\n]+)'|"([^"\n]+)")|(?:'([^'\n]+)'|"([^"\n]+)")\s+(?:not\s+)?in\b/g)].map((match) =>
      match.slice(1).find((text) => text !== undefined)!,
    ),
  );
}
