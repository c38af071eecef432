/**
 * The address's fragment is the id of the shown conversation, so that Back, reloading and bookmarks
 * work.
 */
import { effect } from '@preact/signals';
import { create, current, load } from './conversations.ts';
import { composerFocus, sidebarOpen } from './ui.tsx';

/** Shows the conversation with this id, or a new one. */
export async function goTo(id: string): Promise<void> {
  const known = id ? await load(id) : undefined;
  if (id !== location.hash.slice(1)) return; // another conversation was chosen meanwhile
  if (known && known === current.value) return;
  if (known) {
    current.value = known;
    composerFocus.value++;
  } else if (!current.value || current.value.messages.value.length > 0) current.value = create();
}

export function newConversation(): void {
  sidebarOpen.value = false;
  history.pushState(null, '', location.pathname + location.search);
  current.value = create();
  composerFocus.value++;
}

export async function startRoute(): Promise<void> {
  addEventListener('hashchange', () => void goTo(location.hash.slice(1)));
  addEventListener('popstate', () => void goTo(location.hash.slice(1)));
  await goTo(location.hash.slice(1));
  // A new conversation gets an address with its first message.
  effect(() => {
    const { info, messages } = current.value!;
    const address = `#${info.value.id}`;
    if (messages.value.length > 0 && location.hash !== address) history.replaceState(null, '', address);
  });
}
