/**
 * Changes of conversations that the database may not have yet. Browsers abort the transactions of
 * a page that is left, so each change is also in the browser's storage until it is written.
 */
import type { InfoChange } from './database.ts';
import { inStorage } from './drafts.ts';

const PREFIX = 'unwritten ';

const read = (key: string): InfoChange => JSON.parse(localStorage.getItem(key) ?? '{}') as InfoChange;

/**
 * Stores a change, together with earlier ones of the conversation.
 * @returns a function to call once the change is in the database
 */
export function beginWriting(id: string, changed: InfoChange): () => void {
  const key = PREFIX + id;
  const text = inStorage(() => {
    const before = read(key);
    const text = JSON.stringify({ ...before, ...changed, settings: { ...before.settings, ...changed.settings } });
    localStorage.setItem(key, text);
    return text;
  });
  // A later change, also of another tab, contains this one and is removed by its own call.
  return () => void inStorage(() => localStorage.getItem(key) === text && localStorage.removeItem(key));
}

/** Removes the changes that earlier pages left, and returns them by conversation. */
export function takeUnwritten(): readonly (readonly [id: string, changed: InfoChange])[] {
  const keys = inStorage(() => Object.keys(localStorage).filter((key) => key.startsWith(PREFIX))) ?? [];
  return keys.flatMap((key) => {
    const changed = inStorage(() => read(key));
    inStorage(() => localStorage.removeItem(key));
    return changed ? [[key.slice(PREFIX.length), changed] as const] : [];
  });
}
