/**
 * Actions on a conversation: send, answer, stop, continue, edit. Every change adds a version of a
 * message and keeps the older ones.
 */
import type { Signal } from '@preact/signals';
import {
  PageError,
  failureOf,
  isContextFull,
  type AnswerPart,
  type AnswerRequest,
  type Backend,
  type Failure,
  type ModelInfo,
  type ReadingPart,
  type WireMessage,
  type WirePart,
} from './backend.ts';
import { append, keepMessage, removeMessage, setSettings, tellMessage, type Conversation } from './conversations.ts';
import { othersDone } from './elsewhere.ts';
import { optionsOf } from './settings.ts';
import { say } from './status.ts';
import { writing } from './tabs.ts';
import { throttle } from './throttle.ts';
import { isPicture, isUnbegun, picturesOf, type Attachment, type Message, type NewMessage, type TextFile } from './tree.ts';

/**
 * A text file in a message: its name, then its text in a fence longer than any fence in the text.
 */
function fileText({ name, text }: TextFile): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return `${name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
}

const wholeText = ({ content, attachments = [] }: Message): string =>
  [content, ...attachments.flatMap((file) => (isPicture(file) ? [] : [fileText(file)]))].filter(Boolean).join('\n\n');

type Content = WireMessage['content'];
const partsOf = (content: Content): readonly WirePart[] =>
  typeof content !== 'string' ? content : content === '' ? [] : [{ type: 'text', text: content }];
const textOf = (content: Content): string =>
  partsOf(content)
    .map((part) => (part.type === 'text' ? part.text : ''))
    .join('');

/** Pictures come before the text, as models are trained. */
function contentOf(message: Message): Content {
  const pictures = picturesOf(message).map(({ image }): WirePart => ({ type: 'image_url', image_url: { url: image } }));
  const text = wholeText(message);
  return pictures.length > 0 ? [...pictures, ...partsOf(text)] : text;
}

const joined = (before: Content, after: Content): Content =>
  typeof before === 'string' && typeof after === 'string' ? `${before}\n\n${after}` : [...partsOf(before), ...partsOf(after)];

/**
 * The conversation as the model gets it. Consecutive user messages become one, because chat
 * templates refuse two turns of one role in a row.
 */
export function wireMessages(system: string, messages: readonly Message[]): WireMessage[] {
  const wire: WireMessage[] = system.trim() ? [{ role: 'system', content: system }] : [];
  for (const message of messages) {
    const { role, calls = [], callId, reasoning } = message;
    const content = contentOf(message);
    const last = wire.at(-1);
    if (role === 'assistant' && content === '' && calls.length === 0 && !reasoning) continue;
    if (role === 'user' && last?.role === 'user') wire[wire.length - 1] = { role, content: joined(last.content, content) };
    else
      wire.push({
        role,
        content,
        ...(reasoning ? { reasoning_content: reasoning } : {}),
        ...(calls.length > 0
          ? {
              tool_calls: calls.map(({ id, name, arguments: args }) => ({
                id,
                type: 'function' as const,
                function: { name, arguments: args },
              })),
            }
          : {}),
        ...(callId ? { tool_call_id: callId } : {}),
      });
  }
  return wire;
}

/**
 * An answer that is about to be written. While it exists, no other answer can begin in this
 * conversation.
 */
interface Run {
  readonly backend: Backend;
  readonly conversation: Conversation;
  readonly controller: AbortController;
  readonly model: string | undefined;
}

/** The model that answers in a conversation: the chosen one, or the first. */
export function modelFor({ models }: Backend, { info }: Conversation): ModelInfo | undefined {
  const { model } = info.value.settings;
  return models.value.find(({ id }) => id === model) ?? models.value[0];
}

function begin(backend: Backend, conversation: Conversation): Run | undefined {
  if (conversation.running.value) return undefined;
  const controller = new AbortController();
  conversation.running.value = controller;
  return { backend, conversation, controller, model: modelFor(backend, conversation)?.id };
}

const blank = ({ model }: Run): NewMessage => ({ role: 'assistant', content: '', state: 'streaming', model });

/**
 * Appends messages and an empty answer, then has the model write that answer.
 * @param after as in append()
 */
async function ask(run: Run, after: string | null | 'end', messages: readonly NewMessage[]): Promise<void> {
  const added = await append(run.conversation, after, [...messages, blank(run)]);
  await answer(run, added.at(-1)!, false);
}

/**
 * Sends a message and has it answered.
 * @returns false if another answer is being written
 */
export async function send(
  backend: Backend,
  conversation: Conversation,
  content: string,
  attachments: readonly Attachment[] = [],
): Promise<boolean> {
  const run = begin(backend, conversation);
  if (!run) return false;
  const last = conversation.messages.value.at(-1)?.value;
  if (last && isUnbegun(last)) void removeMessage(conversation, last);
  await ask(run, 'end', [{ role: 'user', content, ...(attachments.length > 0 ? { attachments } : {}) }]);
  return true;
}

/**
 * Sends the results of an answer's function calls, in the order of the calls, and has them
 * answered.
 */
export async function giveResults(
  backend: Backend,
  conversation: Conversation,
  results: readonly { callId: string; content: string }[],
): Promise<void> {
  const run = begin(backend, conversation);
  if (run)
    await ask(
      run,
      'end',
      results.map((result) => ({ role: 'tool', ...result })),
    );
}

/** Writes another version of an answer. An answer that ended before its first word is replaced. */
export async function regenerate(backend: Backend, conversation: Conversation, { value }: Signal<Message>): Promise<void> {
  const run = begin(backend, conversation);
  if (!run) return;
  if (isUnbegun(value)) void removeMessage(conversation, value);
  await ask(run, value.parent, []);
}

/** Sends an edited message as another version of it, and has it answered. */
export async function sendEdited(backend: Backend, conversation: Conversation, { value }: Signal<Message>, content: string): Promise<void> {
  const run = begin(backend, conversation);
  if (!run) return;
  const { attachments = [] } = value;
  await ask(run, value.parent, [{ role: 'user', content, ...(attachments.length > 0 ? { attachments } : {}) }]);
}

/**
 * Replaces an answer's text, so that the model takes the new text for its own. Adds a version of
 * the answer and copies the messages after it.
 */
export async function rewrite(conversation: Conversation, message: Signal<Message>, content: string): Promise<void> {
  const path = conversation.messages.value.map(({ value }) => value);
  const at = path.findIndex(({ id }) => id === message.value.id);
  const { failure: _, end: __, ...rewritten } = message.value;
  await append(conversation, message.value.parent, [{ ...rewritten, content, state: 'done' }, ...path.slice(at + 1)]);
}

/** Continues an answer that was stopped or cut off. */
export async function goOn(backend: Backend, conversation: Conversation): Promise<void> {
  const message = conversation.messages.value.at(-1);
  const run = message && begin(backend, conversation);
  if (!run) return;
  const { failure: _, end: __, ...kept } = message.value;
  message.value = { ...kept, state: 'streaming', model: run.model };
  await answer(run, message, true);
}

/**
 * Lets this conversation drop its oldest turns when the context is full, then continues the answer
 * or writes it again.
 */
export async function leaveOutAndRetry(backend: Backend, conversation: Conversation, message: Signal<Message>): Promise<void> {
  setSettings(conversation, { whenFull: 'leaveOut' });
  await (canGoOn(message.value) ? goOn(backend, conversation) : regenerate(backend, conversation, message));
}

/** Intervals at which a growing answer is shown and stored. */
const SHOW_MS = 40;
const KEEP_MS = 500;

/** Collects the parts of an answer, and shows and stores them at intervals. */
function receiver(conversation: Conversation, message: Signal<Message>) {
  let parts: TextPart[] = [];
  const kept = throttle(KEEP_MS, () => {
    shown.flush();
    void keepMessage(conversation, message);
  });
  const shown = throttle(SHOW_MS, () => {
    message.value = parts.reduce(withPart, message.value);
    parts = [];
    tellMessage(conversation, message);
  });
  return {
    take(part: TextPart): void {
      parts.push(part);
      shown.ask();
      kept.ask();
    },
    end(outcome: Partial<Message>): void {
      shown.end();
      message.value = { ...message.value, ...outcome };
      kept.end();
      tellMessage(conversation, message);
      void keepMessage(conversation, message, true);
    },
  };
}

/**
 * @param begun the message already contains the beginning of the answer
 * @throws PageError if there are pictures, and the model reads none
 */
function requestOf({ backend, conversation, controller, model }: Run, message: Message, begun: boolean): AnswerRequest {
  const { settings } = conversation.info.value;
  const path = conversation.messages.value.map(({ value }) => value);
  const texts = path.slice(0, path.findIndex(({ id }) => id === message.id) + (begun ? 1 : 0));
  if (texts.some((one) => picturesOf(one).length > 0)) mustSee(backend, conversation);
  const task: AnswerRequest['task'] =
    settings.mode === 'text'
      ? { prompt: texts.map(wholeText).join('') }
      : { messages: wireMessages(settings.system, texts), continues: begun };
  return { model, task, options: optionsOf(settings), leaveOut: settings.whenFull === 'leaveOut', signal: controller.signal };
}

/** @throws PageError if the model of a conversation reads no pictures */
export function mustSee(backend: Backend, conversation: Conversation): void {
  if (conversation.info.value.settings.mode === 'text')
    throw new PageError('The model continues a text here and reads no pictures. Choose “Chat” in the settings.', 'no_pictures');
  if (modelFor(backend, conversation)?.sees === false) throw new PageError(backend.toSee, 'no_pictures');
}

const shown = new Intl.NumberFormat('en');

/**
 * The failure to show. If the context is full, leaving out the oldest messages helps, unless the
 * last message alone is larger than the context. Then the failure says so.
 */
async function explained({ backend, controller, model }: Run, request: AnswerRequest | undefined, failure: Failure): Promise<Failure> {
  const length = backend.models.value.find(({ id }) => id === model)?.contextLength;
  if (!request || !isContextFull(failure) || !('messages' in request.task) || length === undefined) return failure;
  const { messages } = request.task;
  const last = messages.slice(messages.findLastIndex(({ role }) => role === 'user'));
  const texts = last.flatMap(({ content, reasoning_content = '' }) => [reasoning_content, textOf(content)]);
  const tokens = await Promise.resolve(backend.count(texts.join(''), model, controller.signal)).catch(() => 0);
  if (tokens < length) return failure;
  const found = `The last message alone has ${shown.format(tokens)} tokens, but the context has room for ${shown.format(length)}, including the answer.`;
  return { code: 'message_too_long', message: `${found} Shorten the message or its files, or ${backend.enlarge}.` };
}

async function answer(run: Run, message: Signal<Message>, begun: boolean): Promise<void> {
  const { backend, conversation, controller } = run;
  const { signal } = controller;
  writing.set(message.value.id, controller);
  say('The model answers. Escape stops it.');
  const { take, end } = receiver(conversation, message);
  let request: AnswerRequest | undefined;
  try {
    await othersDone(conversation, message.value.id, signal);
    request = requestOf(run, message.value, begun);
    const parts = timed(backend.answer(request));
    let next = await parts.next();
    for (; !next.done; next = await parts.next())
      if (next.value.type === 'reading') conversation.reading.value = next.value;
      else take(next.value);
    end({ state: next.value.finishReason === 'length' ? 'length' : 'done', end: next.value });
    say(message.value.calls ? 'The model calls a function.' : message.value.content);
  } catch (error) {
    const failure = signal.aborted ? undefined : await explained(run, request, failureOf(error));
    end(signal.aborted ? { state: 'stopped' } : { state: 'failed', failure });
    if (signal.aborted) say('Stopped.');
  }
  writing.delete(message.value.id);
  conversation.reading.value = undefined;
  conversation.running.value = undefined;
}

/** A part that the message keeps. */
type TextPart = Exclude<AnswerPart, ReadingPart>;

function withPart(message: Message, part: TextPart): Message {
  if (part.type === 'toolCall') return { ...message, calls: [...(message.calls ?? []), part.call] };
  if (part.type === 'leftOut') return { ...message, leftOut: part.messages };
  return part.type === 'content'
    ? { ...message, content: message.content + part.delta }
    : { ...message, reasoning: (message.reasoning ?? '') + part.delta };
}

/**
 * Times an answer for backends that do not: the prompt takes until the first part, the answer the
 * rest.
 */
async function* timed(parts: ReturnType<Backend['answer']>): ReturnType<Backend['answer']> {
  const begin = performance.now();
  let first = 0;
  for (;;) {
    const next = await parts.next();
    const now = performance.now();
    if (next.done) return { promptMs: (first || now) - begin, predictedMs: first ? now - first : 0, ...next.value };
    if (next.value.type !== 'reading') first ||= now;
    yield next.value;
  }
}

export const canGoOn = ({ role, state, calls, content, reasoning }: Message): boolean =>
  role === 'assistant' && (state === 'stopped' || state === 'length' || state === 'failed') && !calls && (content !== '' || !!reasoning);
