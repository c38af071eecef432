/** What happens to a conversation: sending, answering, stopping, going on, editing. */
import { signal, type Signal } from '@preact/signals';
import { failureOf, type AnswerPart, type AnswerRequest, type Backend, type WireMessage } from './backend.ts';
import { newId, save, saveNow, type Attachment, type Conversation, type Message } from './conversations.ts';
import { optionsOf } from './settings.ts';
import { say } from './status.ts';

/** A text file in a message: its name, and its text in a fence that it does not contain. */
function fileText({ name, text }: Attachment): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return `${name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
}

const wholeText = ({ content, attachments = [] }: Message): string => [content, ...attachments.map(fileText)].filter(Boolean).join('\n\n');

/** The conversation as the model gets it. Turns of one role in a row, which templates refuse, become one. */
export function wireMessages(system: string, messages: readonly Message[]): WireMessage[] {
  const wire: WireMessage[] = system.trim() ? [{ role: 'system', content: system }] : [];
  for (const message of messages) {
    const { role, calls = [], callId, reasoning } = message;
    const content = wholeText(message);
    const last = wire.at(-1);
    if (role === 'assistant' && content === '' && calls.length === 0 && !reasoning) continue;
    if (role === 'user' && last?.role === 'user') wire[wire.length - 1] = { role, content: `${last.content}\n\n${content}` };
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

const values = (conversation: Conversation): Message[] => conversation.messages.value.map((message) => message.value);
const isAnswer = (message: Message | undefined): message is Message => message?.role === 'assistant';

/** What the conversation is called until it is given a name: how it begins. */
export function titleOf(text: string): string {
  const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line;
}

function append(conversation: Conversation, ...messages: Message[]): void {
  const { info } = conversation;
  const first = messages.find(({ role }) => role === 'user');
  const title = info.value.title || titleOf(first?.content || first?.attachments?.[0]?.name || '');
  info.value = { ...info.value, title, updated: Date.now() };
  conversation.messages.value = [...conversation.messages.value, ...messages.map((message) => signal(message))];
}

/** Leaves out a message and all that follow it. */
function cutFrom(conversation: Conversation, message: Signal<Message>): void {
  const at = conversation.messages.value.indexOf(message);
  if (at >= 0) conversation.messages.value = conversation.messages.value.slice(0, at);
}

/** Says something and has it answered. */
export function send(
  backend: Backend,
  conversation: Conversation,
  content: string,
  attachments: readonly Attachment[] = [],
): Promise<void> {
  // An answer that never began is no part of the conversation.
  const last = conversation.messages.value.at(-1);
  if (last?.value.state === 'failed' && last.value.content === '' && !last.value.calls) cutFrom(conversation, last);
  append(conversation, { id: newId(), role: 'user', content, ...(attachments.length > 0 ? { attachments } : {}) });
  return answer(backend, conversation);
}

/** Gives the results of an answer's calls, in their order, and has them answered. */
export function giveResults(
  backend: Backend,
  conversation: Conversation,
  results: readonly { callId: string; content: string }[],
): Promise<void> {
  append(conversation, ...results.map((result): Message => ({ id: newId(), role: 'tool', ...result })));
  return answer(backend, conversation);
}

/** Has an answer written anew; what followed it goes. */
export function regenerate(backend: Backend, conversation: Conversation, message: Signal<Message>): Promise<void> {
  cutFrom(conversation, message);
  return answer(backend, conversation);
}

/** Says something else in place of an earlier message; what followed it goes. */
export function sendEdited(backend: Backend, conversation: Conversation, message: Signal<Message>, content: string): Promise<void> {
  const { attachments } = message.value;
  cutFrom(conversation, message);
  return send(backend, conversation, content, attachments);
}

/** Changes what an answer says, for the model to believe it said so. */
export function rewrite(conversation: Conversation, message: Signal<Message>, content: string): void {
  message.value = { ...message.value, content };
  save(conversation);
}

/** Goes on with an answer that was stopped or cut. */
export const goOn = (backend: Backend, conversation: Conversation): Promise<void> =>
  answer(backend, conversation, conversation.messages.value.at(-1));

/** @param begun the answer to go on with; undefined: a new one */
async function answer(backend: Backend, conversation: Conversation, begun?: Signal<Message>): Promise<void> {
  if (conversation.running.value) return;
  const controller = new AbortController();
  conversation.running.value = controller;
  const { settings } = conversation.info.value;
  const before = values(conversation).slice(0, begun ? -1 : undefined);
  const model = (backend.models.value.find(({ id }) => id === settings.model) ?? backend.models.value[0])?.id;
  const blank: Message = { id: newId(), role: 'assistant', content: '', state: 'streaming', model };
  const message = begun ?? signal(blank);
  const { failure: _, end: __, ...kept } = message.value;
  message.value = { ...kept, state: 'streaming', model };
  if (!begun) conversation.messages.value = [...conversation.messages.value, message];
  say('The model answers. Escape stops it.');

  const frame = createFrames((parts) => {
    message.value = parts.reduce(withPart, message.value);
    save(conversation);
  });
  const finish = (outcome: Partial<Message>): void => {
    frame.flush();
    message.value = { ...message.value, ...outcome };
    conversation.running.value = undefined;
    void saveNow(conversation);
  };
  try {
    const texts = [...before, ...(begun ? [begun.value] : [])];
    const task: AnswerRequest['task'] =
      settings.mode === 'text'
        ? { prompt: texts.map(wholeText).join('') }
        : { messages: wireMessages(settings.system, texts), continues: begun !== undefined };
    const parts = timed(backend.answer({ model, task, options: optionsOf(settings), signal: controller.signal }));
    for (;;) {
      const next = await parts.next();
      if (next.done) {
        finish({
          state: next.value.finishReason === 'length' ? 'length' : 'done',
          end: next.value,
        });
        say(message.value.calls ? 'The model calls a function.' : message.value.content);
        return;
      }
      frame.push(next.value);
    }
  } catch (error) {
    if (controller.signal.aborted) {
      finish({ state: 'stopped' });
      say('Stopped.');
    } else finish({ state: 'failed', failure: failureOf(error) });
  }
}

function withPart(message: Message, part: AnswerPart): Message {
  if (part.type === 'toolCall') return { ...message, calls: [...(message.calls ?? []), part.call] };
  return part.type === 'content'
    ? { ...message, content: message.content + part.delta }
    : { ...message, reasoning: (message.reasoning ?? '') + part.delta };
}

/** Measures what a backend does not: until the first part the prompt is read, then the answer is written. */
async function* timed(parts: ReturnType<Backend['answer']>): ReturnType<Backend['answer']> {
  const begin = performance.now();
  let first = 0;
  for (;;) {
    const next = await parts.next();
    const now = performance.now();
    if (next.done) return { promptMs: (first || now) - begin, predictedMs: first ? now - first : 0, ...next.value };
    first ||= now;
    yield next.value;
  }
}

/** Collects what comes in and shows it once a frame, so that a fast model does not keep the page from scrolling. */
function createFrames(show: (parts: readonly AnswerPart[]) => void): { push(part: AnswerPart): void; flush(): void } {
  let parts: AnswerPart[] = [];
  let asked = 0;
  const flush = (): void => {
    cancelAnimationFrame(asked);
    asked = 0;
    if (parts.length === 0) return;
    const shown = parts;
    parts = [];
    show(shown);
  };
  return {
    push(part) {
      parts.push(part);
      asked ||= requestAnimationFrame(flush);
    },
    flush,
  };
}

/** Whether the last answer can be gone on with. */
export const canGoOn = (message: Message): boolean =>
  isAnswer(message) &&
  (message.state === 'stopped' || message.state === 'length') &&
  !message.calls &&
  (message.content !== '' || !!message.reasoning);
