/** Prompts that end within an answer: the model continues the assistant's last message. */
import { QuantletError } from '../errors.ts';
import type { Work } from '../slices.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';
import { unusedMark, type RenderedPrompt } from './contents.ts';
import { bigJson } from './exact-json.ts';
import type { ChatFormat } from './formats.ts';
import { contentText, type ChatMessage } from './messages.ts';
import { openReasoning } from './markers.ts';

/**
 * Part of the last message to continue. `true`: its content, or its reasoning if it has no content.
 */
export type Continuation = boolean | 'content' | 'reasoning';

/** A prompt that ends within an answer. */
export interface BegunPrompt extends RenderedPrompt {
  /**
   * The prompt up to the start of the continued reasoning or content. It tells a parser in which
   * part the answer begins.
   */
  readonly opening?: string;
}

/** Writes messages with their template: all of them, or up to the header of the next answer. */
export type WriteMessages = (messages: readonly ChatMessage[], addGenerationPrompt: boolean) => Work<RenderedPrompt>;

const bad = (found: string, expected: string): QuantletError =>
  new QuantletError('ERR_INVALID_ARGUMENT', `continueFinalMessage needs a last message to continue, but ${found}; expected ${expected}`);

/**
 * Returns the last message and the part of it to continue.
 * @throws ERR_INVALID_ARGUMENT if it is not an answer that can be continued
 */
function begunAnswer(messages: readonly ChatMessage[], continuation: Continuation) {
  const last = Array.isArray(messages) ? messages.at(-1) : undefined;
  if (last?.role !== 'assistant') throw bad(last ? `it has the role ${last.role}` : 'there is none', 'one of the assistant without calls');
  if ((last.tool_calls?.length ?? 0) > 0) throw bad('it calls tools', 'one of the assistant without calls');
  const said = contentText(last.content);
  const reasoning = last.reasoning_content ?? '';
  if (continuation === 'reasoning' && said !== '')
    throw bad('its reasoning is complete: it has content', 'one with reasoning_content only, or "content"');
  const inReasoning = continuation === 'reasoning' || (continuation !== 'content' && said === '' && reasoning !== '');
  return { last, said, reasoning, inReasoning };
}

/**
 * The prompt of a conversation whose last message is the beginning of the answer. The template
 * writes that message, and the output is cut after its text. If the template would leave the text
 * out, the text is put after the header of a new answer, its reasoning between the format's
 * markers.
 */
export function* writeBegun(
  messages: readonly ChatMessage[],
  continuation: Continuation,
  { write, format, breaksIn }: { write: WriteMessages; format: ChatFormat; breaksIn: BreaksIn | undefined },
): Work<BegunPrompt> {
  const begun = begunAnswer(messages, continuation);
  const { last, said, reasoning, inReasoning } = begun;
  const before = messages.slice(0, -1);
  if (said === '' && reasoning === '' && before.length > 0) return yield* write(before, true);
  const written = yield* cutWritten(messages, last, inReasoning, write);
  if (written && format.reasoning.length === 0) return written;
  const header = yield* headerAfter(before, write);
  const opened = openReasoning(format.reasoning, header.text);
  const pair = opened ?? format.reasoning[0];
  const missing = (text: string): boolean => {
    if (inReasoning) return openReasoning(format.reasoning, text) === undefined;
    if (reasoning !== '') return !text.includes(reasoning.trim());
    // Some templates open the reasoning of a new answer but write no reasoning of earlier ones.
    // With these the model would reason in its content.
    return opened !== undefined && !text.slice(header.text.trimEnd().length - opened.start.length).includes(opened.end);
  };
  if (written && !(pair && missing(written.opening))) return written;
  return yield* afterHeader(header, { ...begun, pair, opening: inReasoning ? undefined : written?.opening }, breaksIn);
}

/**
 * The prompt up to the header of an answer. If there is no earlier message and the template refuses
 * that, an empty user message is added.
 */
function* headerAfter(before: readonly ChatMessage[], write: WriteMessages): Work<RenderedPrompt> {
  try {
    return yield* write(before, true);
  } catch (error) {
    if (before.length > 0 || !refuses(error)) throw error;
    return yield* write([{ role: 'user', content: '' }], true);
  }
}

const refuses = (error: unknown): boolean => error instanceof QuantletError && error.code === 'ERR_CHAT_TEMPLATE';

/**
 * The prompt up to the end of the last message's text; undefined if the template refuses the
 * message or changes its text.
 */
function* cutWritten(
  messages: readonly ChatMessage[],
  last: ChatMessage,
  inReasoning: boolean,
  write: WriteMessages,
): Work<Required<BegunPrompt> | undefined> {
  const end = unusedMark(bigJson(messages));
  const text = inReasoning ? (last.reasoning_content ?? '') : contentText(last.content);
  const ended: ChatMessage = inReasoning ? { ...last, content: '', reasoning_content: text + end } : { ...last, content: text + end };
  let rendered: RenderedPrompt;
  try {
    rendered = yield* write([...messages.slice(0, -1), ended], false);
  } catch (error) {
    if (refuses(error)) return undefined;
    throw error;
  }
  const cut = rendered.text.lastIndexOf(end);
  const whole = rendered.text.slice(0, cut);
  const kept = [text, text.trimStart()].find((one) => whole.endsWith(one));
  if (cut < 0 || kept === undefined || whole.includes(end)) return undefined;
  return { text: whole, breaks: rendered.breaks.filter((at) => at < cut), opening: whole.slice(0, whole.length - kept.length) };
}

/**
 * Puts the beginning of an answer after a new header, its reasoning between the format's markers.
 * @param begun.opening the template's prompt up to the content, without the reasoning. The text
 * that it has between header and content is kept.
 */
function* afterHeader(
  header: RenderedPrompt,
  begun: {
    said: string;
    reasoning: string;
    inReasoning: boolean;
    pair: ChatFormat['reasoning'][number] | undefined;
    opening: string | undefined;
  },
  breaksIn: BreaksIn | undefined,
): Work<BegunPrompt> {
  const { said, reasoning, inReasoning, pair, opening: without } = begun;
  const at = [...header.breaks];
  let prompt = header.text;
  const add = function* (part: string): Work<void> {
    if (breaksIn) for (const offset of yield* breaksIn(part)) at.push(prompt.length + offset);
    prompt += part;
  };
  let opening = prompt;
  if (pair) {
    const bare = withoutReasoning(header.text, pair);
    prompt = openReasoning([pair], header.text) ? header.text : `${bare}${pair.start}\n`;
    opening = prompt;
    yield* add(reasoning);
    if (!inReasoning) {
      const between = without?.startsWith(bare) ? without.slice(bare.length).replace(pair.start, '').replace(pair.end, '') : '';
      prompt += `\n${pair.end}${between.trim() === '' ? '\n\n' : between}`;
      opening = prompt;
    }
  }
  yield* add(said);
  return { text: prompt, breaks: at, opening };
}

/**
 * Returns a header without the marker that opens its reasoning, or without the empty reasoning that
 * it contains.
 */
function withoutReasoning(text: string, { start, end }: ChatFormat['reasoning'][number]): string {
  const closed = text.trimEnd();
  const open = closed.endsWith(end) ? closed.slice(0, -end.length).trimEnd() : closed;
  if (open.endsWith(start)) return open.slice(0, -start.length);
  return open === closed ? text : open;
}
