/** Answers that other tabs write: waits for them, and detects that the writing tab is gone. */
import type { Signal } from '@preact/signals';
import type { Conversation } from './conversations.ts';
import { stopMessage } from './database.ts';
import { isWrittenElsewhere, tell, writing } from './tabs.ts';
import { pathTo, type Message } from './tree.ts';

/**
 * Checks an answer that is marked as being written. If the tab that wrote it is gone, marks it as
 * stopped.
 * @returns true if some tab is still writing it
 */
async function settle(conversation: Conversation, message: Signal<Message>): Promise<boolean> {
  const { id } = message.value;
  if (writing.has(id) || (await isWrittenElsewhere(id))) return true;
  if (message.value.state !== 'streaming' || writing.has(id)) return false;
  const stored = await stopMessage(id).catch(() => undefined);
  message.value = stored ?? { ...message.value, state: 'stopped' };
  tell({ type: 'messages', conversation: conversation.info.value.id, messages: [message.value] });
  return false;
}

/** Interval at which another tab is asked if it is still writing its answer. */
const ASK_MS = 3000;

/** Ids of the answers of other tabs that watch() waits for. */
const watched = new Set<string>();

/** Waits for an answer of another tab, and notices if that tab is gone. */
async function watch(conversation: Conversation, message: Signal<Message>): Promise<void> {
  const { id } = message.value;
  if (watched.has(id)) return;
  watched.add(id);
  while (message.value.state === 'streaming' && (await settle(conversation, message))) await endOf(message, ASK_MS);
  watched.delete(id);
}

/** Watches all answers of a conversation that other tabs seem to be writing. */
export function watchAll(conversation: Conversation): void {
  for (const message of conversation.tree.value.values())
    if (message.value.state === 'streaming' && !writing.has(message.value.id)) void watch(conversation, message);
}

/**
 * Waits until no other tab is writing an answer earlier in the path of a message.
 * @throws signal.reason
 */
export async function othersDone(conversation: Conversation, id: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    const before = pathTo((one) => conversation.tree.value.get(one)?.value.parent, id)
      .slice(0, -1)
      .map((one) => conversation.tree.value.get(one)!);
    const written = before.find((message) => message.value.state === 'streaming' && !writing.has(message.value.id));
    signal.throwIfAborted();
    if (!written || !(await settle(conversation, written))) return;
    await endOf(written, ASK_MS, signal);
  }
}

/** Waits for the end of an answer, for at most `ms` milliseconds. */
function endOf(message: Signal<Message>, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    const stop = message.subscribe(({ state }) => state !== 'streaming' && queueMicrotask(done));
    signal?.addEventListener('abort', done);
    function done(): void {
      clearTimeout(timer);
      stop();
      signal?.removeEventListener('abort', done);
      resolve();
    }
  });
}
