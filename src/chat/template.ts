/** A model's chat template, with what it cannot express made up for. */
import { QuantletError } from '../errors.ts';
import { atOnce, type Work } from '../slices.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';
import type { ParsedCall } from './calls.ts';
import { probe, type ChatCapabilities } from './capabilities.ts';
import { createContentMarks, noMarks, type ContentMarks, type RenderedPrompt } from './contents.ts';
import { detectFormat, type ChatFormat } from './formats.ts';
import { compileJinja, strftime, type CompiledJinja } from './jinja.ts';
import { TemplateBudget } from './jinja-run.ts';
import { NAMED_TEMPLATES } from './named-templates.ts';
import { nearest } from '../nearest.ts';
import { parseJson } from './json.ts';
import { argumentsObject, argumentsText, checkMessages, checkTools, contentText, type ChatMessage, type ChatTool } from './messages.ts';

export interface RenderOptions {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[];
  /** End with the header of the assistant's answer. Default true. */
  readonly addGenerationPrompt?: boolean;
  /** Further variables of the template, `enable_thinking` for instance. */
  readonly extra?: Readonly<Record<string, unknown>>;
  /** Finds control tokens in what people wrote, which are then to stay text. Absent: they are read. */
  readonly breaksIn?: BreaksIn;
}

export interface ChatTemplate {
  /** The Jinja source in use. */
  readonly source: string;
  readonly capabilities: ChatCapabilities;
  /** The template that conversations with tools are written by, where the model has another for these; render() takes it by itself. */
  readonly toolUse: ChatTemplate | undefined;
  /** How its model writes reasoning and tool calls: for createChatParser. */
  readonly format: ChatFormat;
  /** For people: what is missing and what was done instead. */
  readonly warnings: readonly string[];
  /**
   * The conversation as the model's prompt. Special tokens are written as text, the beginning-of-sequence token included
   * where the template writes it: tokenize with special tokens parsed and without adding a second one.
   * @throws QuantletError ERR_CHAT_TEMPLATE with the template's own words; ERR_INVALID_ARGUMENT for content that is no text
   */
  render(options: RenderOptions): string;
  /** The same as work that pauses, with the offsets that keep what people wrote from being read as control tokens. */
  renderWork(options: RenderOptions): Work<RenderedPrompt>;
}

/** A model's templates, as Jinja source. */
export interface TemplateSources {
  readonly source: string | undefined;
  /** For conversations with tools. */
  readonly toolUse?: string | undefined;
}

/** The templates of a file. Where it has only the one for tools, that one serves all conversations, as in llama.cpp. */
export function fileTemplates(metadata: ReadonlyMap<string, unknown>): TemplateSources {
  const text = (key: string): string | undefined => {
    const value = metadata.get(key);
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const source = text('tokenizer.chat_template');
  const toolUse = text('tokenizer.chat_template.tool_use');
  return source === undefined || source === 'chatml' ? { source: toolUse ?? source } : { source, toolUse };
}

/** The template that a conversation with these tools is written by. */
export const templateFor = (template: ChatTemplate, tools: readonly ChatTool[] | undefined): ChatTemplate =>
  tools && tools.length > 0 ? (template.toolUse ?? template) : template;

/**
 * A chat template ready to render, with what it does not support made up for: a system message goes into the first user
 * message, tools into the system message, tool calls and results into text, content parts into strings and back.
 *
 * @param source Jinja source (GGUF: tokenizer.chat_template), or the name of one of llama.cpp's templates; undefined or empty: ChatML, with a warning
 * @param tokens texts of the special tokens that templates write
 * @param options.now the clock behind `strftime_now` and Llama 3's date
 * @param options.toolUse Jinja source for conversations with tools, in place of `source`
 * @throws QuantletError ERR_CHAT_TEMPLATE where the source is no template
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
  const text = (source && Object.hasOwn(NAMED_TEMPLATES, source) ? NAMED_TEMPLATES[source] : source) || NAMED_TEMPLATES.chatml;
  let compiled: CompiledJinja;
  try {
    compiled = compileJinja(text, options.now);
  } catch (error) {
    throw new QuantletError(
      'ERR_CHAT_TEMPLATE',
      `The chat template does not parse: ${messageOf(error)}. Give another one as chatTemplate.`,
      { cause: error },
    );
  }
  const now = options.now ?? (() => new Date());
  const raw = (variables: Readonly<Record<string, unknown>>): Work<string> =>
    compiled.work({ bos_token: tokens.bos ?? '', eos_token: tokens.eos ?? '', ...aliases(text, variables.tools, now()), ...variables });
  const { capabilities, sample } = probe((variables) => {
    try {
      return atOnce(raw(variables));
    } catch (error) {
      if (error instanceof TemplateBudget)
        throw new QuantletError('ERR_CHAT_TEMPLATE', `The chat template never ends: ${error.message}. Give another one as chatTemplate.`, {
          cause: error,
        });
      throw error;
    }
  });
  const code = text.search(/\{[{%]/);
  if (code < 0 || !/\bmessages\b/.test(text.slice(code))) throw readsNothing(text);
  const format = detectFormat(text, sample);
  const read = readByTemplate(text);
  let toolUse: ChatTemplate | undefined;
  try {
    toolUse = options.toolUse === undefined ? undefined : createChatTemplate(options.toolUse, tokens, { now });
  } catch (error) {
    warnings.push(`The template for tools (tokenizer.chat_template.tool_use) is left out. ${messageOf(error)}.`);
  }
  function* renderWork(conversation: RenderOptions): Work<RenderedPrompt> {
    const template = templateFor(chatTemplate, conversation.tools);
    return yield* template === chatTemplate ? renderOwn(conversation) : template.renderWork(conversation);
  }
  function* renderOwn({
    messages,
    tools: offered = [],
    addGenerationPrompt = true,
    extra = {},
    breaksIn,
  }: RenderOptions): Work<RenderedPrompt> {
    checkMessages(messages);
    checkTools(offered);
    const marks = breaksIn ? createContentMarks(breaksIn, () => JSON.stringify([messages, offered, extra]) + text) : noMarks;
    const tools = yield* marks.markAll(offered);
    const given = yield* adapt(messages, tools, { can: capabilities, format, source: text, marks, read });
    const none = capabilities.noTools === 'null' ? null : [];
    const available = tools.length > 0 && capabilities.tools ? { tools } : capabilities.noTools === 'undefined' ? {} : { tools: none };
    try {
      const variables = { ...(yield* marks.markAll(extra)), messages: given, add_generation_prompt: addGenerationPrompt, ...available };
      const text = yield* raw(variables);
      const header = addGenerationPrompt && format.turn && text.endsWith(format.turn.end) ? format.turn.start : '';
      return yield* marks.take(text + header);
    } catch (error) {
      throw new QuantletError(
        'ERR_CHAT_TEMPLATE',
        `The chat template refuses this conversation: ${messageOf(error)}. Check the roles and their order.`,
        { cause: error },
      );
    }
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

/** A text that is no template would be sent to the model in place of the conversation. */
function readsNothing(text: string): QuantletError {
  const names = Object.keys(NAMED_TEMPLATES);
  const [near] = text.length < 40 ? nearest(text, names, 2) : [];
  const shown = text.length < 40 ? `"${text}"` : `that begins with "${text.slice(0, 40)}"`;
  return new QuantletError(
    'ERR_CHAT_TEMPLATE',
    `The chat template ${shown} never reads messages; ${near ? `did you mean ${near}? Expected` : 'expected'} Jinja that writes them, or one of the names ${names.join(', ')}.`,
  );
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).replace(/\.$/, '');

/** What a few templates read besides: the date, as llama.cpp gives it, and the tools under other names (Firefunction's as JSON text, SmolLM3's). */
function aliases(source: string, tools: unknown, date: Date): Record<string, unknown> {
  const given: Record<string, unknown> = { date_string: strftime('%d %b %Y', date), datetime: strftime('%b %d %Y', date) };
  const offered = Array.isArray(tools) && tools.length > 0;
  if (/\bfunctions\b/.test(source) && !/\bin functions\b/.test(source)) given.functions = offered ? JSON.stringify(tools, null, 4) : '';
  if (/\bxml_tools\b/.test(source) && offered) given.xml_tools = tools;
  return given;
}

/**
 * Control tokens that a template looks for in what the assistant said before, to leave out its reasoning, say: there they are read, or the
 * template would not find them.
 */
function readByTemplate(source: string): ReadonlySet<string> {
  return new Set(
    [...source.matchAll(/split\(\s*(?:'([^'\n]+)'|"([^"\n]+)")|(?:'([^'\n]+)'|"([^"\n]+)")\s+(?:not\s+)?in\b/g)].map((match) =>
      match.slice(1).find((text) => text !== undefined)!,
    ),
  );
}

/** A template and what is known of it, and the marks of one conversation. */
interface Writing {
  readonly can: ChatCapabilities;
  readonly format: ChatFormat;
  readonly source: string;
  readonly marks: ContentMarks;
  readonly read: ReadonlySet<string>;
}

type Draft = Record<string, unknown> & { role: string; content: unknown };

/** The messages as this template can write them. */
function* adapt(messages: readonly ChatMessage[], tools: readonly ChatTool[], writing: Writing): Work<Draft[]> {
  const { can, format, source } = writing;
  let drafts: Draft[] = [];
  for (const message of messages) {
    drafts.push(yield* draftOf(message, writing));
    yield;
  }
  const system: string[] = [];
  while (drafts[0]?.role === 'system') system.push(drafts.shift()?.content as string);
  if (tools.length > 0 && !can.tools) system.push(toolInstructions(tools, format));
  if (system.length > 0) {
    const content = system.join('\n\n');
    const first = drafts.findIndex(({ role }) => role === 'user');
    if (can.systemRole) drafts.unshift({ role: 'system', content });
    else if (first < 0) drafts.unshift({ role: 'user', content });
    else drafts[first] = { ...drafts[first], content: `${content}\n\n${drafts[first].content as string}` };
  }
  if (!can.callsBesideContent) drafts = drafts.flatMap(contentFirst);
  if (!can.parallelToolCalls && can.toolCalls) drafts = splitCalls(drafts);
  if (/\[['"]tool_responses|\.tool_responses/.test(source) && !source.includes('tool_call_id')) drafts = joinResponses(drafts);
  if (can.alternates) drafts = mergeTurns(drafts);
  if (!can.typedContent) return drafts;
  return drafts.map((draft) =>
    typeof draft.content === 'string' ? { ...draft, content: [{ type: 'text', text: draft.content }] } : draft,
  );
}

function* draftOf(given: ChatMessage, { can, format, source, marks: { mark, markAll }, read }: Writing): Work<Draft> {
  const looked = given.role === 'assistant' ? read : undefined;
  const { content: _, tool_calls, ...fields } = given;
  const calls = tool_calls ?? [];
  const content = yield* mark(contentText(given.content), looked);
  const marked: [string, unknown][] = [];
  for (const [key, value] of Object.entries(fields))
    marked.push([key, key === 'role' ? value : typeof value === 'string' ? yield* mark(value, looked) : yield* markAll(value)]);
  const message = { ...Object.fromEntries(marked), role: given.role } as Omit<ChatMessage, 'content' | 'tool_calls'>;
  const role = message.role === 'developer' && !source.includes('developer') ? 'system' : message.role;
  if (role === 'tool') {
    if (!can.toolResults) return { role: 'user', content: `<tool_response>\n${content}\n</tool_response>` };
    return {
      ...message,
      role,
      content,
      ...(message.tool_call_id === undefined ? {} : { tool_call_id: yield* mark(callId(given.tool_call_id!, source)) }),
    };
  }
  const thought = message.reasoning_content;
  // Mistral's newest have reasoning as a part of the content.
  const inParts = thought && /\btype(?:'\])?\s*==\s*'thinking'/.test(source);
  const said = inParts ? [{ type: 'thinking', thinking: thought }, ...(content === '' ? [] : [{ type: 'text', text: content }])] : content;
  const reasoning = thought && !inParts ? { reasoning_content: thought } : {};
  if (calls.length === 0) {
    const name = message.name === undefined ? {} : { name: message.name };
    return { role, content: said, ...name, ...reasoning };
  }
  if (!can.toolCalls) {
    const named: ParsedCall[] = [];
    for (const call of calls)
      named.push({ id: call.id, name: yield* mark(call.function.name), arguments: yield* mark(argumentsText(call)) });
    const written = format.write(named);
    return { role, content: content === '' ? written : `${content}\n${written}`, ...reasoning };
  }
  const toolCalls: object[] = [];
  for (const [i, call] of calls.entries()) {
    const named = yield* markAll(call.function);
    const given = can.objectArguments ? yield* markAll(argumentsObject(call)) : yield* mark(argumentsText(call));
    toolCalls.push({
      ...(yield* markAll(call)),
      id: yield* mark(callId(call.id ?? `call0000${i}`, source)),
      type: 'function',
      function: { ...named, arguments: given },
    });
  }
  // gpt-oss reads the reasoning before a call under another name.
  const thinking = thought && content === '' && source.includes('message.thinking') ? { thinking: thought } : {};
  return { role, content: said === '' && can.nullContent ? null : said, tool_calls: toolCalls, ...reasoning, ...thinking };
}

/** Mistral's templates accept ids of nine letters and digits only: others are hashed (FNV-1a, twice with 32 bits) to that, calls and results alike. */
function callId(id: string, source: string): string {
  if (!/length (?:!=|==) 9/.test(source) || /^[A-Za-z0-9]{9}$/.test(id)) return id;
  let high = 0x811c9dc5;
  let low = 0xcbf29ce4;
  for (let i = 0; i < id.length; i++) {
    high = Math.imul(high ^ id.charCodeAt(i), 0x01000193);
    low = Math.imul(low ^ id.charCodeAt(i), 0x01000193);
  }
  return [high, low]
    .map((half) => (half >>> 0).toString(36).padStart(7, '0'))
    .join('')
    .slice(-9);
}

/** Content and calls of a message as two, for templates that would leave out the calls. */
function contentFirst(draft: Draft): Draft[] {
  if (!draft.tool_calls || !draft.content) return [draft];
  const { tool_calls, ...said } = draft;
  return [said as Draft, { role: draft.role, content: null, tool_calls }];
}

/** One call per assistant message, each followed by its result. */
function splitCalls(drafts: readonly Draft[]): Draft[] {
  const out: Draft[] = [];
  for (let i = 0; i < drafts.length; i++) {
    const calls = (drafts[i].tool_calls ?? []) as { id: string }[];
    if (calls.length < 2) {
      out.push(drafts[i]);
      continue;
    }
    const results: Draft[] = [];
    while (drafts[i + 1]?.role === 'tool') results.push(drafts[++i]);
    const message = drafts[i - results.length];
    calls.forEach((call, n) => {
      out.push({ ...message, content: n === 0 ? message.content : typeof message.content === 'string' ? '' : null, tool_calls: [call] });
      out.push(...results.filter((result, r) => (result.tool_call_id === undefined ? r === n : result.tool_call_id === call.id)));
    });
  }
  return out;
}

/** Results as a field of the message that calls, and the answer that follows in it too: Gemma 4's first templates. */
function joinResponses(drafts: readonly Draft[]): Draft[] {
  const out: Draft[] = [];
  for (let i = 0; i < drafts.length; i++) {
    const calls = (drafts[i].tool_calls ?? []) as { id: string; function: { name: string } }[];
    const message = { ...drafts[i] };
    out.push(message);
    const responses: object[] = [];
    for (; calls.length > 0 && drafts[i + 1]?.role === 'tool'; i++) {
      const { tool_call_id: id, content } = drafts[i + 1];
      const { name } = (calls.find((call) => call.id === id) ?? calls[responses.length] ?? calls[0]).function;
      responses.push({ name, response: parseJson(content as string) ?? content });
    }
    if (responses.length === 0) continue;
    message.tool_responses = responses;
    const next = drafts[i + 1];
    if (!message.content && next?.role === 'assistant' && !next.tool_calls) message.content = drafts[++i].content;
  }
  return out;
}

/** Neighbours of one role become one message where a template insists on turns. */
function mergeTurns(drafts: readonly Draft[]): Draft[] {
  const out: Draft[] = [];
  for (const draft of drafts) {
    const last = out.at(-1);
    const mergeable =
      last?.role === draft.role &&
      (draft.role === 'user' || draft.role === 'assistant') &&
      [last, draft].every(({ tool_calls, content }) => !tool_calls && typeof content === 'string');
    if (mergeable) out[out.length - 1] = { ...last, content: `${last.content as string}\n\n${draft.content as string}` };
    else out.push(draft);
  }
  return out;
}

/** For templates without tools: what the tools are and how to call them, in the notation that the format reads. */
function toolInstructions(tools: readonly ChatTool[], format: ChatFormat): string {
  const example = format.write([{ id: undefined, name: 'tool_name', arguments: '{"key": "value"}' }]);
  const list = tools.map((tool) => JSON.stringify(tool.function)).join('\n');
  return `You can call these tools. Each line is one tool; "parameters" is the JSON schema of its arguments.\n${list}\n\nTo call a tool, answer with nothing but the call, in exactly this form:\n${example}\nYou get its result in the next message. Where no tool helps, answer normally.`;
}
