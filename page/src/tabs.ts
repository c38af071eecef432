/** Messages between the tabs of the page. */
import type { Info } from './database.ts';
import type { Message } from './tree.ts';

export type News =
  | { readonly type: 'messages'; readonly conversation: string; readonly messages: readonly Message[] }
  | { readonly type: 'info'; readonly info: Info }
  | { readonly type: 'messageRemoved'; readonly conversation: string; readonly id: string }
  | { readonly type: 'removed'; readonly conversation: string }
  /** Many conversations have changed. */
  | { readonly type: 'list' }
  /**
   * `stop` asks the tab that writes an answer to stop; `ask` asks if such a tab exists, and that
   * tab replies `here`.
   */
  | { readonly type: 'stop' | 'ask' | 'here'; readonly id: string };

const channel = typeof BroadcastChannel === 'function' ? new BroadcastChannel('quantlet tabs') : undefined;

/** Answers that this tab is writing, with the controllers that stop them. */
export const writing = new Map<string, AbortController>();

export const tell = (news: News): void => channel?.postMessage(news);

export function hear(listener: (news: News) => void): void {
  channel?.addEventListener('message', ({ data }: MessageEvent<News>) => {
    if (data.type === 'ask' && writing.has(data.id)) tell({ type: 'here', id: data.id });
    else if (data.type === 'stop') writing.get(data.id)?.abort();
    else listener(data);
  });
}

/**
 * Time for another tab to reply, after which it counts as gone. Browsers delay the timers of hidden
 * tabs, but not their messages.
 */
const ANSWER_MS = 1500;

/** Asks the other tabs if one of them is writing an answer. */
export function isWrittenElsewhere(id: string): Promise<boolean> {
  if (!channel) return Promise.resolve(false);
  return new Promise((resolve) => {
    const settle = (here: boolean): void => {
      channel.removeEventListener('message', listen);
      clearTimeout(timer);
      resolve(here);
    };
    const listen = ({ data }: MessageEvent<News>): void => {
      if ((data.type === 'here' && data.id === id) || (data.type === 'messages' && data.messages.some((message) => message.id === id)))
        settle(true);
    };
    const timer = setTimeout(() => settle(false), ANSWER_MS);
    channel.addEventListener('message', listen);
    tell({ type: 'ask', id });
  });
}
