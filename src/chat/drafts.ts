/** Adapts a conversation's messages to the capabilities of its template. */
import { asPart, type ChatCapabilities, type PrecedingRole, type TextPart } from './capabilities.ts';
import type { ParsedCall } from './call-text.ts';
import type { ContentMarks } from './contents.ts';
import type { ChatFormat } from './formats.ts';
import type { NumberMarks } from './exact-json.ts';
import { argumentsObject, argumentsText, contentText, type ChatMessage, type ChatPart, type ChatTool } from './messages.ts';
import { distinctIds, joinResponses, placeResults, resultText, splitCalls } from './results.ts';
import { orderTurns, textOf, type Draft } from './turns.ts';
import type { Work } from '../slices.ts';

/** A template with its properties, and the marks of one conversation. */
export interface Writing {
  readonly can: ChatCapabilities;
  readonly format: ChatFormat;
  readonly source: string;
  readonly marks: ContentMarks;
  readonly numbers: NumberMarks;
  readonly read: ReadonlySet<string>;
}

/** The messages in a form that this template can write. */
export function* draftsOf(messages: readonly ChatMessage[], tools: readonly ChatTool[], writing: Writing): Work<Draft[]> {
  const { can, format, source, numbers } = writing;
  let drafts: Draft[] = [];
  for (const message of messages) {
    drafts.push(yield* draftOf(message, writing));
    yield;
  }
  if (tools.length > 0 && !can.tools) drafts = withInstructions(drafts, toolInstructions(tools, format));
  drafts = distinctIds(placeResults(drafts, can), can, (id) => callId(id, source));
  if (!can.emptyAnswer) drafts = drafts.filter((draft) => draft.role !== 'assistant' || !saysNothing(draft));
  if (!can.callsBesideContent) drafts = contentFirst(drafts, can, drafts.length);
  else if (!can.callsBesideContentEarlier) drafts = contentFirst(drafts, can, answeredFrom(drafts));
  if (!can.parallelToolCalls && can.toolCalls) drafts = splitCalls(drafts);
  if (/\[['"]tool_responses|\.tool_responses/.test(source) && !source.includes('tool_call_id')) drafts = joinResponses(drafts, numbers);
  drafts = orderTurns(drafts, can);
  if (!can.typedContent) return drafts;
  return drafts.map((draft) => (typeof draft.content === 'string' ? { ...draft, content: asPart(draft.content) } : draft));
}

/**
 * True for an answer without content, calls and reasoning, such as one that was stopped at once.
 */
const saysNothing = ({ content, tool_calls, reasoning_content }: Draft): boolean => !content && !tool_calls && !reasoning_content;

/** Appends tool instructions to the first system message. */
function withInstructions(drafts: readonly Draft[], instructions: string): Draft[] {
  const [first, ...others] = drafts;
  if (first?.role !== 'system') return [{ role: 'system', content: instructions }, ...drafts];
  return [{ ...first, content: `${textOf(first.content as string)}\n\n${instructions}` }, ...others];
}

/** Marked content: a list of parts if the template joins parts itself, otherwise one text. */
function* contentOf(
  content: ChatMessage['content'],
  asParts: boolean,
  looked: ReadonlySet<string> | undefined,
  { mark }: ContentMarks,
): Work<string | TextPart[]> {
  const isMarker = (part: ChatPart): boolean => part?.marker !== undefined;
  if (!asParts || !Array.isArray(content) || content.length < 2 || (content as ChatPart[]).some(isMarker))
    return yield* mark(contentText(content), looked);
  const parts: TextPart[] = [];
  for (const part of content as readonly ChatPart[]) parts.push({ type: 'text', text: yield* mark(contentText([part]), looked) });
  return parts;
}

function* draftOf(given: ChatMessage, { can, format, source, marks, numbers, read }: Writing): Work<Draft> {
  const { mark, markAll } = marks;
  const looked = given.role === 'assistant' ? read : undefined;
  const { content: _, tool_calls, ...fields } = given;
  const calls = tool_calls ?? [];
  const role = given.role === 'developer' && !can.developerRole ? 'system' : given.role;
  const asParts = calls.length === 0 && can.textParts.includes(role as PrecedingRole);
  const content = yield* contentOf(given.content, asParts, looked, marks);
  const marked: [string, unknown][] = [];
  for (const [key, value] of Object.entries(fields))
    marked.push([key, key === 'role' ? value : typeof value === 'string' ? yield* mark(value, looked) : yield* markAll(value)]);
  const message = { ...Object.fromEntries(marked), role: given.role } as Omit<ChatMessage, 'content' | 'tool_calls'>;
  if (role === 'tool') {
    if (!can.toolResults) return { role: 'user', content: resultText(content) };
    return {
      ...message,
      role,
      content,
      ...(message.tool_call_id === undefined ? {} : { tool_call_id: yield* mark(callId(given.tool_call_id!, source)) }),
    };
  }
  const thought = message.reasoning_content;
  // Mistral's newest templates take reasoning as a part of the content.
  const inParts = thought && /\btype(?:'\])?\s*==\s*'thinking'/.test(source);
  const said = inParts ? [{ type: 'thinking', thinking: thought }, ...partsOf(content)] : content;
  const reasoning = thought && !inParts ? { reasoning_content: thought } : {};
  // gpt-oss reads the reasoning before a call, and of a last message, as `thinking`.
  const alone = calls.length === 0 || content === '';
  const thinking = thought && alone && source.includes('message.thinking') ? { thinking: thought } : {};
  if (calls.length === 0) {
    const name = message.name === undefined ? {} : { name: message.name };
    return { role, content: said, ...name, ...reasoning, ...thinking };
  }
  if (!can.toolCalls) {
    const named: ParsedCall[] = [];
    for (const call of calls)
      named.push({ id: call.id, name: yield* mark(call.function.name), arguments: yield* mark(argumentsText(call)) });
    const written = format.write(named);
    return { role, content: content === '' ? written : `${textOf(content)}\n${written}`, ...reasoning };
  }
  const toolCalls: object[] = [];
  // A template that parses the text itself would lose digits, like JSON.parse().
  const parsesText = /\bfrom_?json\b/.test(source);
  for (const [i, call] of calls.entries()) {
    const named = yield* markAll(call.function);
    const given = can.objectArguments
      ? yield* markAll(numbers.mark(argumentsObject(call)))
      : yield* mark(parsesText ? JSON.stringify(numbers.mark(argumentsObject(call))) : argumentsText(call));
    toolCalls.push({
      ...(yield* markAll(call)),
      id: yield* mark(callId(call.id ?? `call0000${i}`, source)),
      type: 'function',
      function: { ...named, arguments: given },
    });
  }
  return { role, content: said === '' && can.nullContent ? null : said, tool_calls: toolCalls, ...reasoning, ...thinking };
}

/**
 * Mistral's templates accept only ids of nine letters and digits. Other ids, of calls and results
 * alike, are hashed to that form (FNV-1a, twice with 32 bits).
 */
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

const partsOf = (content: string | TextPart[]): TextPart[] =>
  content === '' ? [] : typeof content === 'string' ? asPart(content) : content;

/**
 * Index of the first message after the last answer or question. The calls from there on are still
 * being answered.
 */
const answeredFrom = (drafts: readonly Draft[]): number =>
  drafts.findLastIndex(({ role, tool_calls }) => role === 'user' || (role === 'assistant' && !tool_calls)) + 1;

/**
 * Splits messages before `to` that have content and calls into two, for templates that would lose
 * one of the two.
 */
function contentFirst(drafts: readonly Draft[], { nullContent }: ChatCapabilities, to: number): Draft[] {
  return drafts.flatMap((draft, i) => {
    if (i >= to || !draft.tool_calls || !draft.content) return [draft];
    const { tool_calls, ...said } = draft;
    return [said as Draft, { role: draft.role, content: nullContent ? null : '', tool_calls }];
  });
}

/**
 * Instructions for templates without tools: the tools, and how to call them in the notation that
 * the format reads.
 */
function toolInstructions(tools: readonly ChatTool[], format: ChatFormat): string {
  const example = format.write([{ id: undefined, name: 'tool_name', arguments: '{"key": "value"}' }]);
  const list = tools.map((tool) => JSON.stringify(tool.function)).join('\n');
  return `You can call these tools. Each line is one tool; "parameters" is the JSON schema of its arguments.\n${list}\n\nTo call a tool, answer with nothing but the call, in exactly this form:\n${example}\nYou get its result in the next message. Where no tool helps, answer normally.`;
}
